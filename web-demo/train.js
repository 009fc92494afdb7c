// Section "Train a small mixture of experts": its loop, numbers and charts. The picture is in train-view.js.
import { isCancelled, isLoss } from './client.js';
import { historyRows, lineChart, loadRows, roundUp } from './charts.js';
import { checkGradients } from './device.js';
import { byId, facts, h, milliseconds, percent, s, short } from './dom.js';
import { CLASSES } from './palette.js';
import { dataset, grid } from './points.js';
import { drawTraining } from './train-view.js';

const POINTS = 512;
const SIDE = 48;
const CALL_MS = 150; // target time of one call's steps in ms, so that a pause takes effect soon
const HISTORY = 600;
const SECTION = byId('train');
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const cells = grid(SIDE);

let client = null;
let data = null;
let prediction = null;
let created = false;
let report = null;
let parameters = 0;
let history = [];
/** The training loop in progress, as `{controller}`, or null. */
let run = null;

const control = (name) => byId(`train-${name}`);
const numberOf = (name) => Number(control(name).value);

function setState(state, text) {
  SECTION.dataset.trainState = state;
  const words = { idle: 'Start', running: 'Pause', paused: 'Continue', lost: 'Start' };
  control('start').textContent = words[state];
  if (text) control('status').textContent = text;
}

function legend() {
  const names = CLASSES.slice(0, data.classes).map(({ name, rgb }, label) => {
    const paths = [
      s('circle', { cx: 8, cy: 8, r: 6 }),
      s('rect', { x: 2.5, y: 2.5, width: 11, height: 11 }),
      s('path', { d: 'M8 1l7 13H1z' }),
      s('path', { d: 'M8 0l8 8-8 8-8-8z' }),
    ];
    return h(
      'li',
      {},
      s('svg', { viewBox: '0 0 16 16', fill: `rgb(${rgb})`, 'aria-hidden': 'true' }, paths[label]),
      ` class ${label}: ${name}`,
    );
  });
  control('legend').replaceChildren(...names);
}

/** Stops the loop and returns to untrained points, as the controls say. */
function reset(text = 'Not started.') {
  run?.controller.abort();
  run = null;
  created = false;
  report = null;
  prediction = null;
  history = [];
  data = dataset(control('dataset').value, POINTS, Math.max(0, Math.floor(numberOf('seed')) || 0));
  const experts = numberOf('experts');
  control('experts-out').textContent = experts;
  for (const option of control('topk').options) option.disabled = Number(option.value) > experts;
  if (numberOf('topk') > experts) control('topk').value = String(experts);
  setState('idle', text);
  legend();
  show();
}

async function create() {
  const options = {
    classes: data.classes,
    experts: numberOf('experts'),
    topK: numberOf('topk'),
    learningRate: numberOf('rate'),
    seed: Math.max(0, Math.floor(numberOf('seed')) || 0),
  };
  const { points, labels } = data;
  ({ parameters } = await client.call('trainCreate', { options, points, labels }));
}

function record(next) {
  report = next;
  history.push([next.step, next.loss, next.accuracy]);
  if (history.length > HISTORY) {
    // Thins out a long history by every other entry.
    history = history.filter((_, at) => at % 2 === 0 || at === history.length - 1);
  }
}

/** Trains until `mine` is replaced or aborted, for at most `limit` steps. */
async function loop(mine, limit = Infinity) {
  let count = 1;
  let nextPicture = 0;
  let done = 0;
  if (!created) {
    await checkGradients(client, control('status'));
    if (run !== mine) return;
    control('status').textContent = 'Setting up: the first step compiles its kernels.';
    await create();
    if (run !== mine) return; // the settings have changed meanwhile
    created = true;
  }
  const { signal } = mine.controller;
  while (run === mine && done < limit && !signal.aborted) {
    const steps = Math.min(count, limit - done);
    const next = await client.call('trainStep', { count: steps }, { signal });
    if (run !== mine) return;
    if (done === 0 && next.step <= steps) control('status').textContent = 'Training.';
    done += steps;
    record(next);
    const wanted = Math.round(CALL_MS / Math.max(next.perStep, 0.5));
    count = Math.max(1, Math.min(wanted, 2 * count, 50));
    const before = performance.now();
    if (before >= nextPicture && !signal.aborted) {
      await predict(mine);
      // On a slow device, most of the time should go to training rather than to pictures of it.
      const took = performance.now() - before;
      nextPicture = performance.now() + Math.max(calm.matches ? 2000 : 300, 3 * took);
    }
    if (run === mine) show();
  }
}

async function predict(mine) {
  const { classes } = data;
  const answer = await client.call('trainPredict', { points: cells });
  if (run === mine) prediction = { ...answer, side: SIDE, classes };
}

async function start(limit) {
  const mine = { controller: new AbortController() };
  run = mine;
  setState('running', created ? 'Training.' : 'Setting up.');
  try {
    await loop(mine, limit);
  } catch (error) {
    if (run !== mine || isLoss(error)) return;
    if (!isCancelled(error)) {
      run = null;
      setState('paused', `Stopped: ${error.message}`);
      return;
    }
  }
  if (run !== mine) return;
  await finish(mine);
}

/** Draws the picture and the numbers after a pause or a single step. */
async function finish(mine) {
  try {
    await predict(mine);
  } catch (error) {
    if (run !== mine || isLoss(error)) return;
    throw error;
  }
  if (run !== mine) return;
  run = null;
  show();
  const words = report
    ? `Paused at step ${report.step}: loss ${short(report.loss)}, accuracy ${percent(report.accuracy)}.`
    : 'Paused.';
  setState('paused', words);
}

function show() {
  SECTION.dataset.steps = report?.step ?? 0;
  facts(control('numbers'), [
    ['Step', report?.step ?? 0, 'step'],
    ['Loss', report ? short(report.loss) : '–', 'loss'],
    ['Accuracy', report ? percent(report.accuracy) : '–', 'accuracy'],
    ['Balance loss', report ? short(report.balance) : '–', 'balance'],
    ['Step takes', report ? milliseconds(report.perStep) : '–', 'time'],
    ['Parameters', created ? parameters : '–', 'parameters'],
  ]);
  showCharts();
  showLoad();
  drawTraining(control('canvas'), data, prediction);
  control('canvas').setAttribute('aria-label', describe());
}

function showCharts() {
  const losses = history.map(([step, loss]) => [step, loss]);
  const top = losses.length ? roundUp(Math.max(0.01, ...losses.map(([, loss]) => loss))) : 1;
  lineChart(control('loss'), losses, { name: 'Loss', ceiling: top, format: short });
  const accuracies = history.map(([step, , accuracy]) => [step, accuracy]);
  lineChart(control('accuracy'), accuracies, {
    name: 'Accuracy',
    ceiling: 1,
    format: (share) => `${Math.round(100 * share)} %`,
  });
  if (control('history-details').open) fillHistory();
}

function fillHistory() {
  const cells = ([step, loss, accuracy]) => [{ n: step }, { n: short(loss) }, { n: percent(accuracy) }];
  const rows = historyRows(history, cells);
  control('history').tBodies[0].replaceChildren(...rows);
}

function showLoad() {
  const load = report ? [...report.load] : new Array(numberOf('experts')).fill(0);
  control('load').tBodies[0].replaceChildren(...loadRows(load));
}

/** A description of the picture in words. */
function describe() {
  const name = control('dataset').selectedOptions[0].textContent;
  const about = `${POINTS} points of ${data.classes} classes, ${name}.`;
  if (!prediction) return `${about} No prediction yet.`;
  const shares = new Map();
  for (const expert of prediction.experts)
    shares.set(expert, (shares.get(expert) ?? 0) + 1 / prediction.experts.length);
  const regions = [...shares].sort(([a], [b]) => a - b).map(([expert, share]) => `expert ${expert} ${percent(share)}`);
  return `${about} Shares of the plane by expert: ${regions.join(', ')}.`;
}

function listen() {
  control('form').addEventListener('submit', (event) => event.preventDefault());
  control('form').addEventListener('change', () => {
    const again = run !== null;
    reset('Started over with the changed settings.');
    if (again && client) start();
  });
  control('experts').addEventListener('input', () => {
    control('experts-out').textContent = control('experts').value;
  });
  control('start').addEventListener('click', () => {
    if (!client) return;
    if (!run) {
      start();
      return;
    }
    run.controller.abort();
    control('status').textContent = 'Pausing.';
  });
  control('step').addEventListener('click', () => client && !run && start(1));
  control('reset').addEventListener('click', () => reset());
  control('history-details').addEventListener('toggle', fillHistory);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
    drawTraining(control('canvas'), data, prediction),
  );
}

/** Interface of the section for the page. */
export const train = {
  start(demo) {
    client = demo.client;
  },
  stop(why) {
    run?.controller.abort();
    if (why !== 'lost') return null;
    client = null;
    if (!created && !run) return null;
    reset();
    setState('lost', 'The device went away, and the training’s weights with it. Start begins anew.');
    return 'training';
  },
  last: () => (report ? { state: SECTION.dataset.trainState, ...report, load: [...report.load], parameters } : null),
};

listen();
reset('Not started. Changing a control starts over.');
