// Picture of the training: points by class, predicted classes behind them, and the experts' regions.
import { CLASSES, expertLook } from './palette.js';

const SIZE = 720;

/** Distance of every cell to the nearest cell that borders on another expert or the rim, in steps (breadth first). */
function depths(experts, side) {
  const depth = new Int16Array(experts.length).fill(-1);
  let front = [];
  const neighbours = (at) => {
    const [x, y] = [at % side, Math.floor(at / side)];
    return [x > 0 ? at - 1 : -1, x < side - 1 ? at + 1 : -1, y > 0 ? at - side : -1, y < side - 1 ? at + side : -1];
  };
  for (let at = 0; at < experts.length; at++) {
    if (neighbours(at).some((next) => next < 0 || experts[next] !== experts[at])) {
      depth[at] = 0;
      front.push(at);
    }
  }
  while (front.length > 0) {
    const following = [];
    for (const at of front) {
      for (const next of neighbours(at)) {
        if (next < 0 || depth[next] >= 0) continue;
        depth[next] = depth[at] + 1;
        following.push(next);
      }
    }
    front = following;
  }
  return depth;
}

/** The innermost cell of each expert's region, where its number is written. */
export function labelCells(experts, side) {
  const depth = depths(experts, side);
  const best = new Map();
  for (let at = 0; at < experts.length; at++) {
    const so = best.get(experts[at]);
    if (so === undefined || depth[at] > depth[so]) best.set(experts[at], at);
  }
  return best;
}

/**
 * Line segments between the regions of experts: each block of 2 × 2 cells joins the middles of its edges between
 * different experts.
 */
export function boundaries(experts, side) {
  const lines = [];
  for (let y = 0; y < side - 1; y++) {
    for (let x = 0; x < side - 1; x++) {
      const at = y * side + x;
      const [a, b, c, d] = [experts[at], experts[at + 1], experts[at + side], experts[at + side + 1]];
      const middles = [];
      if (a !== b) middles.push([x + 1, y + 0.5]);
      if (c !== d) middles.push([x + 1, y + 1.5]);
      if (a !== c) middles.push([x + 0.5, y + 1]);
      if (b !== d) middles.push([x + 1.5, y + 1]);
      if (middles.length === 2) lines.push(middles);
      else for (const middle of middles) lines.push([middle, [x + 1, y + 1]]);
    }
  }
  return lines;
}

/** Colours of the page's theme, as CSS text. */
function theme(canvas) {
  const style = getComputedStyle(canvas);
  return { surface: style.getPropertyValue('--field').trim(), ink: style.getPropertyValue('--ink').trim() };
}

function rgbOf(hex) {
  const value = Number.parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Paints the background: the classes' colours mixed by probability, stronger where the prediction is surer. */
function paintClasses(context, { probabilities, side, classes }, surface) {
  const image = new ImageData(side, side);
  const base = rgbOf(surface);
  for (let at = 0; at < side * side; at++) {
    const mixed = [0, 0, 0];
    let sure = 0;
    for (let label = 0; label < classes; label++) {
      const share = probabilities[at * classes + label];
      sure = Math.max(sure, share);
      for (const channel of [0, 1, 2]) mixed[channel] += share * CLASSES[label].rgb[channel];
    }
    const strength = 0.15 + (0.35 * (sure - 1 / classes)) / (1 - 1 / classes);
    for (const channel of [0, 1, 2])
      image.data[4 * at + channel] = base[channel] * (1 - strength) + mixed[channel] * strength;
    image.data[4 * at + 3] = 255;
  }
  const small = new OffscreenCanvas(side, side);
  small.getContext('2d').putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(small, 0, 0, SIZE, SIZE);
}

/** Hatches each expert's region, at its own angle. */
function hatch(context, { experts, side }, ink) {
  const cell = SIZE / side;
  for (const expert of new Set(experts)) {
    context.save();
    context.beginPath();
    for (let at = 0; at < experts.length; at++) {
      if (experts[at] === expert) context.rect((at % side) * cell, Math.floor(at / side) * cell, cell, cell);
    }
    context.clip();
    context.translate(SIZE / 2, SIZE / 2);
    context.rotate((expert * 3 * Math.PI) / 8);
    context.beginPath();
    for (let line = -SIZE; line < SIZE; line += 18) {
      context.moveTo(-SIZE, line);
      context.lineTo(SIZE, line);
    }
    context.strokeStyle = ink;
    context.globalAlpha = 0.22;
    context.lineWidth = 1.5;
    context.stroke();
    context.restore();
  }
}

function drawRegions(context, prediction, { ink, surface }) {
  const { experts, side } = prediction;
  const cell = SIZE / side;
  hatch(context, prediction, ink);
  context.beginPath();
  for (const [[ax, ay], [bx, by]] of boundaries(experts, side)) {
    context.moveTo(ax * cell, ay * cell);
    context.lineTo(bx * cell, by * cell);
  }
  context.lineCap = 'round';
  for (const [style, width] of [
    [surface, 7],
    [ink, 3],
  ]) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.stroke();
  }
}

function drawNumbers(context, { experts, side }, ink) {
  const cell = SIZE / side;
  context.font = 'bold 24px system-ui, sans-serif';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (const [expert, at] of labelCells(experts, side)) {
    const x = Math.min(SIZE - 22, Math.max(22, ((at % side) + 0.5) * cell));
    const y = Math.min(SIZE - 22, Math.max(22, (Math.floor(at / side) + 0.5) * cell));
    const { fill, text } = expertLook(expert);
    context.beginPath();
    context.arc(x, y, 18, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.fill();
    context.lineWidth = 3;
    context.strokeStyle = ink;
    context.stroke();
    context.fillStyle = text;
    context.fillText(String(expert), x, y + 1);
  }
}

/** Adds the outline of a class's shape, with a radius of about `r`. */
export function shapePath(context, label, [x, y], r) {
  if (label === 0) {
    context.moveTo(x + r, y);
    context.arc(x, y, r, 0, 2 * Math.PI);
  } else if (label === 1) {
    context.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8);
  } else {
    const corners =
      label === 2
        ? [
            [0, -1.25],
            [1.15, 0.85],
            [-1.15, 0.85],
          ]
        : [
            [0, -1.3],
            [1.3, 0],
            [0, 1.3],
            [-1.3, 0],
          ];
    for (const [at, [dx, dy]] of corners.entries()) context[at ? 'lineTo' : 'moveTo'](x + dx * r, y + dy * r);
    context.closePath();
  }
}

function drawPoints(context, { points, labels }, surface) {
  for (const [label, { rgb }] of CLASSES.entries()) {
    context.beginPath();
    for (let at = 0; at < labels.length; at++) {
      if (labels[at] !== label) continue;
      shapePath(context, label, [((points[2 * at] + 1) / 2) * SIZE, ((1 - points[2 * at + 1]) / 2) * SIZE], 6);
    }
    context.fillStyle = `rgb(${rgb})`;
    context.strokeStyle = surface;
    context.lineWidth = 1.5;
    context.fill();
    context.stroke();
  }
}

/**
 * Draws the data and, if there is one, a prediction on a grid.
 * @param {HTMLCanvasElement} canvas
 * @param {{points: Float32Array, labels: Uint32Array}} data
 * @param {{probabilities: Float32Array, experts: Int32Array, side: number, classes: number} | null} prediction
 */
export function drawTraining(canvas, data, prediction) {
  const context = canvas.getContext('2d');
  const colours = theme(canvas);
  canvas.width = canvas.height = SIZE;
  context.fillStyle = colours.surface;
  context.fillRect(0, 0, SIZE, SIZE);
  if (prediction) {
    paintClasses(context, prediction, colours.surface);
    drawRegions(context, prediction, colours);
  }
  drawPoints(context, data, colours.surface);
  if (prediction) drawNumbers(context, prediction, colours.ink);
}
