// Takes pictures of pages and measures them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { PNG } from 'pngjs';

import { PICTURES } from './lab.mjs';

/**
 * Takes a picture of a page or an element and keeps it for people to look at.
 * @param {import('playwright-core').Page | import('playwright-core').Locator} what
 * @param {string} name
 */
export async function picture(what, name, options = {}) {
  fs.mkdirSync(PICTURES, { recursive: true });
  // In CSS pixels on any screen; a phone's screen has three times as many pixels.
  const bytes = await what.screenshot({ path: path.join(PICTURES, `${name}.png`), scale: 'css', ...options });
  return PNG.sync.read(bytes);
}

/**
 * Measures a picture: the number of colours, the share of pixels not in its commonest colour, and that colour's
 * brightness.
 * @param {PNG} png
 */
export function describe({ data, width, height }) {
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const [background, count] = [...counts].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
  const brightness = ((background >> 16) + ((background >> 8) & 255) + (background & 255)) / 3 / 255;
  // Edges of letters make many colours of a few pixels each, which don't count.
  const colours = [...counts.values()].filter((pixels) => pixels >= 20).length;
  return { width, height, colours, covered: 1 - count / (width * height), brightness };
}

/** The share of pixels in which two pictures of the same size differ visibly. @param {PNG} one @param {PNG} two */
export function difference(one, two) {
  assert.deepEqual([one.width, one.height], [two.width, two.height]);
  let differing = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    const apart = [0, 1, 2].some((channel) => Math.abs(one.data[at + channel] - two.data[at + channel]) > 16);
    if (apart) differing += 1;
  }
  return differing / (one.width * one.height);
}
