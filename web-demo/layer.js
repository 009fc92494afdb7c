// Section "A mixture-of-experts layer at work": the experts of each token, the experts' load, and what is dropped.
import { isCancelled, isLoss } from './client.js';
import { expertBadge, expertBar } from './charts.js';
import { byId, bytes, debounced, facts, h, milliseconds, percent, row, s, short } from './dom.js';
import { expertLook } from './palette.js';
import { clusters, lift } from './points.js';
import { slotsByToken } from './routing.js';

const HIDDEN = 64;
const INTER = 128;
const SETTLE_MS = 120;

let client = null;
let running = null;
/** The shown run: `{settings, points, output, slots}`, where `slots` has each token's slots; null before the first. */
let shown = null;

const input = (name) => byId(`layer-${name}`);

function readSettings() {
  const experts = Number(input('experts').value);
  const router = input('router').value;
  const capacity = input('capacity').value;
  return {
    tokens: Number(input('tokens').value),
    seed: Math.max(0, Math.floor(Number(input('seed').value)) || 0),
    options: {
      hidden: HIDDEN,
      inter: INTER,
      experts,
      topK: router === 'switch' ? 1 : Math.min(Number(input('topk').value), experts),
      router,
      activation: 'silu',
      capacityFactor: router === 'expert-choice' || capacity === '' ? undefined : Number(capacity),
      precision: input('precision').value,
      seed: 1,
    },
  };
}

/**
 * Applies the limits of the settings: top-k is at most the number of experts; `switch` disables it, and `expert-choice`
 * disables the capacity.
 */
function showLimits() {
  const experts = Number(input('experts').value);
  input('experts-out').textContent = experts;
  const router = input('router').value;
  input('topk').disabled = router === 'switch';
  input('capacity').disabled = router === 'expert-choice';
  for (const option of input('topk').options) option.disabled = Number(option.value) > experts;
  if (Number(input('topk').value) > experts) input('topk').value = String(experts);
}

/** Runs the layer with the controls' settings. A run still in progress is cancelled, so that the latest is shown. */
async function update() {
  running?.abort();
  if (!client) return;
  const controller = new AbortController();
  running = controller;
  const settings = readSettings();
  const points = clusters(settings.tokens, settings.seed);
  const x = lift(points, HIDDEN);
  byId('layer').setAttribute('aria-busy', 'true');
  if (!shown) byId('layer-status').textContent = 'Running the layer.';
  try {
    const output = await client.call(
      'forward',
      { options: settings.options, x },
      { signal: controller.signal, transfer: [x.buffer] },
    );
    if (running !== controller) return;
    shown = { settings, points, output, slots: slotsByToken(output) };
    show();
    byId('layer').dataset.runs = Number(byId('layer').dataset.runs) + 1;
  } catch (error) {
    if (running !== controller || isCancelled(error) || isLoss(error)) return;
    byId('layer-status').textContent = `The layer could not run: ${error.message}`;
  } finally {
    if (running === controller) {
      running = null;
      byId('layer').removeAttribute('aria-busy');
    }
  }
}

function show() {
  const { settings, output } = shown;
  showNumbers();
  showLoad();
  drawPlot();
  input('token').disabled = false;
  input('token').max = settings.tokens - 1;
  selectToken(Math.min(Number(input('token').value), settings.tokens - 1));
  if (byId('layer-tokens-details').open) fillTable();
  const dropped = output.dropped === 0 ? 'none dropped' : `${output.dropped} slots dropped`;
  byId('layer-status').textContent =
    `${settings.tokens} tokens went through ${settings.options.experts} experts, ${dropped}.`;
}

function showNumbers() {
  const { output } = shown;
  const slots = output.load.reduce((sum, part) => sum + part, 0);
  facts(byId('layer-numbers'), [
    ['Dropped slots', `${output.dropped} (${percent(slots ? output.dropped / slots : 0)})`, 'dropped'],
    ['Capacity', output.capacity === null ? 'no limit' : output.capacity, 'capacity'],
    ['Switch loss', short(output.losses.switch), 'switch'],
    ['GShard loss', short(output.losses.gshard), 'gshard'],
    ['Entropy loss', short(output.losses.entropy), 'entropy'],
    ['z-loss', output.losses.z === null ? '–' : short(output.losses.z), 'z'],
    [output.first ? 'First forward' : 'Forward', milliseconds(output.milliseconds), 'time'],
    ['Weights', bytes(output.bytes), 'bytes'],
  ]);
}

function showLoad() {
  const { load, capacity } = shown.output;
  const max = Math.max(...load, capacity ?? 0);
  const rows = [...load].map((slots, expert) => {
    const dropped = capacity === null ? 0 : Math.max(0, slots - capacity);
    const bar = expertBar(expert, slots, { max, limit: capacity });
    return row([expertBadge(expert), bar, { n: slots }, { n: dropped }], {
      'data-expert': expert,
      'data-load': slots,
      'data-dropped': dropped,
    });
  });
  byId('layer-load').tBodies[0].replaceChildren(...rows);
  byId('layer-capacity-note').textContent = capacityNote();
}

function capacityNote() {
  const { output, settings } = shown;
  if (settings.options.router === 'expert-choice') {
    return 'Experts choose: each takes the same number of tokens, and a dashed ring is a token that none chose.';
  }
  if (output.capacity === null) return 'No capacity: an expert takes every slot that chose it.';
  return 'Dashed line: capacity. Beyond it: dropped, the lightest first. Tokens only outlined: first slot dropped.';
}

/**
 * Mark of a token in the plot: its first expert's number in that expert's colour and shape, only outlined if the slot
 * was dropped; an empty ring if no expert chose the token.
 */
function tokenMark(token, x, y, radius) {
  const first = shown.slots[token][0];
  const at = {
    'data-token': token,
    'data-expert': first?.expert ?? -1,
    'data-dropped': first ? String(first.dropped) : null,
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
  };
  if (!first) return s('g', at, s('circle', { r: radius - 1, class: 'none' }));
  const { fill, text, second } = expertLook(first.expert);
  const look = first.dropped ? { class: 'turned-away', stroke: fill } : { class: 'rim', fill };
  const side = 2 * radius - 2;
  const shape = second
    ? s('rect', { x: -side / 2, y: -side / 2, width: side, height: side, ...look })
    : s('circle', { r: radius - (first.dropped ? 1 : 0), ...look });
  return s('g', at, shape, s('text', { y: radius * 0.4, fill: first.dropped ? null : text }, String(first.expert)));
}

function drawPlot() {
  const { settings, points, output } = shown;
  const plot = byId('layer-plot');
  const size = Math.max(240, plot.clientWidth || 480);
  const radius = settings.tokens > 256 ? 6.5 : settings.tokens > 128 ? 8 : 9;
  const inside = size - 2 * radius - 4;
  const marks = Array.from({ length: settings.tokens }, (_, token) => {
    const x = radius + 2 + (inside * (points[2 * token] + 1)) / 2;
    const y = radius + 2 + (inside * (1 - points[2 * token + 1])) / 2;
    return tokenMark(token, x, y, radius);
  });
  plot.setAttribute('font-size', radius * 1.15);
  plot.setAttribute('viewBox', `0 0 ${size} ${size}`);
  const loads = [...output.load].map((slots, expert) => `expert ${expert}: ${slots}`);
  plot.setAttribute(
    'aria-label',
    `${settings.tokens} tokens by their first expert. Slots of each: ${loads.join(', ')}.`,
  );
  plot.replaceChildren(...marks, s('circle', { id: 'layer-ring', r: radius + 4, class: 'ring' }));
}

const dropWord = ({ dropped }) => (dropped ? ', dropped' : '');

function slotWords(token) {
  const words = shown.slots[token].map((slot) => {
    return `expert ${slot.expert} with weight ${slot.weight.toFixed(3)}${dropWord(slot)}`;
  });
  return words.join('; ') || 'no expert chose it';
}

/** Shows the experts of a token and rings the token in the plot. */
function selectToken(token) {
  if (!shown) return;
  input('token').value = token;
  input('token-out').textContent = token;
  const words = slotWords(token);
  input('token').setAttribute('aria-valuetext', `Token ${token}: ${words}`);
  const parts = shown.slots[token].map((slot) => {
    return h('span', { class: 'slot' }, expertBadge(slot.expert), ` ${slot.weight.toFixed(3)}${dropWord(slot)}`);
  });
  byId('layer-token-detail').replaceChildren(...(parts.length ? parts : [words]));
  const mark = byId('layer-plot').querySelector(`[data-token="${token}"]`);
  byId('layer-ring').setAttribute('transform', mark.getAttribute('transform'));
  byId('layer-plot').append(mark, byId('layer-ring')); // last, so that the token is drawn on top of its neighbours
}

function fillTable() {
  const { settings, points } = shown;
  const rows = Array.from({ length: settings.tokens }, (_, token) => {
    const place = `${points[2 * token].toFixed(2)}, ${points[2 * token + 1].toFixed(2)}`;
    return row([{ n: token }, place, slotWords(token)], { 'data-token': token });
  });
  byId('layer-tokens-table').tBodies[0].replaceChildren(...rows);
}

function listen() {
  const later = debounced(update, SETTLE_MS);
  byId('layer-form').addEventListener('submit', (event) => event.preventDefault());
  byId('layer-form').addEventListener('input', () => {
    showLimits();
    later();
  });
  input('new').addEventListener('click', () => {
    input('seed').value = ((Number(input('seed').value) || 0) + 1) % 1000000;
    later();
  });
  input('token').addEventListener('input', () => selectToken(Number(input('token').value)));
  const point = ({ target }) => {
    const mark = target.closest('[data-token]');
    if (mark) selectToken(Number(mark.dataset.token));
  };
  byId('layer-plot').addEventListener('pointermove', point);
  byId('layer-plot').addEventListener('click', point);
  byId('layer-tokens-details').addEventListener('toggle', () => shown && fillTable());
  const redraw = debounced(() => {
    if (!shown) return;
    drawPlot();
    selectToken(Number(input('token').value));
  }, 150);
  addEventListener('resize', redraw);
  showLimits();
}
listen();

/** Interface of the section for the page. */
export const layer = {
  start(demo) {
    client = demo.client;
    update();
  },
  stop() {
    running?.abort();
    client = null;
  },
  last() {
    if (!shown) return null;
    const { settings, output } = shown;
    const { load, capacity, dropped, losses, milliseconds: time, topK } = output;
    return {
      tokens: settings.tokens,
      ...settings.options,
      topK,
      load: [...load],
      capacity,
      dropped,
      losses,
      milliseconds: time,
    };
  },
};
