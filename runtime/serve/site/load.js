// What the server does now, from the metrics that it tells: its queue over time, and how many tokens each expert gets.
import { lineChart, loadRows, roundUp } from './charts.js';
import { byId, facts, h, percent } from './dom.js';
import { drawExperts } from './text-view.js';

const KEPT_MS = 120_000; // what the charts show
const MINUTE_MS = 60_000;
const RATE_MS = 5_000; // over which tokens a second are counted

/** A line of the metrics: name, labels and value. */
const LINE = /^(moebius_\w+)\{(.*)\} (\S+)$/;
/** A label: name and value, in which quotes are escaped. */
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Metrics that are one number, with their names here. */
const NUMBERS = {
  moebius_num_requests_running: 'running',
  moebius_num_requests_waiting: 'waiting',
  moebius_kv_cache_usage_perc: 'cache',
  moebius_generation_tokens_total: 'generated',
  moebius_prefix_cache_queries_total: 'lookedUp',
  moebius_prefix_cache_hits_total: 'found',
};
const EXPERTS = 'moebius_expert_load';

/**
 * What a text of metrics tells at a time in ms: the numbers, and the tokens of each layer's experts.
 * @returns {{at: number, experts: Map<number, number[]>} & Record<string, number>}
 */
export function sampleOf(text, at) {
  const sample = { at, experts: new Map() };
  for (const line of text.split('\n')) {
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (name in NUMBERS) {
      sample[NUMBERS[name]] = Number(value);
    } else if (name === EXPERTS) {
      const { layer, expert } = Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key, text]));
      if (!sample.experts.has(Number(layer))) sample.experts.set(Number(layer), []);
      sample.experts.get(Number(layer))[Number(expert)] = Number(value);
    }
  }
  return sample;
}

/** The samples of the last minutes, the newest last. */
let samples = [];

/** The first sample within a time before the newest one. */
const since = (milliseconds) => samples.find(({ at }) => samples.at(-1).at - at <= milliseconds);

/** Shows what a text of metrics tells. */
export function show(text) {
  const sample = sampleOf(text, performance.now());
  // A server that was started again counts from 0.
  if (sample.generated < samples.at(-1)?.generated) samples = [];
  samples = [...samples.filter(({ at }) => sample.at - at < KEPT_MS), sample];
  byId('load').dataset.samples = Number(byId('load').dataset.samples) + 1;
  showNumbers();
  showQueue('running', 'Answers that are computed');
  showQueue('waiting', 'Answers that wait');
  showExperts();
}

function showNumbers() {
  const { at, running, waiting, cache, generated, lookedUp, found } = samples.at(-1);
  const before = since(RATE_MS);
  const rate = at > before.at ? (1000 * (generated - before.generated)) / (at - before.at) : 0;
  facts(byId('load-numbers'), [
    ['Computed now', running, 'running'],
    ['Waiting', waiting, 'waiting'],
    ['Tokens a second', rate.toFixed(1), 'rate'],
    ['Cache in use', percent(cache), 'cache'],
    ['Found of prompts', lookedUp > 0 ? percent(found / lookedUp) : '–', 'found'],
  ]);
}

function showQueue(name, caption) {
  const began = samples[0].at;
  const points = samples.map((sample) => [(sample.at - began) / 1000, sample[name]]);
  lineChart(byId(`load-${name}`), points, {
    name: caption,
    ceiling: roundUp(Math.max(2, ...points.map(([, count]) => count))),
    format: String,
    ends: [`${points.at(-1)[0].toFixed(0)} s ago`, 'now'],
  });
}

function showExperts() {
  const { experts } = samples.at(-1);
  const layers = [...experts.keys()].sort((a, b) => a - b);
  byId('load-experts').hidden = layers.length === 0;
  byId('load-none').hidden = layers.length > 0;
  if (layers.length === 0) return;
  offer(layers);
  const before = byId('load-span').value === 'minute' ? since(MINUTE_MS).experts : new Map();
  const counts = layers.map((layer) => {
    return experts.get(layer).map((now, expert) => now - (before.get(layer)?.[expert] ?? 0));
  });
  const row = layers.indexOf(Number(byId('load-layer').value));
  const load = counts[row];
  drawExperts(byId('load-picture'), counts);
  const most = load.indexOf(Math.max(...load));
  const sum = load.reduce((total, tokens) => total + tokens, 0);
  const words = `In layer ${layers[row]} expert ${most} has the most: ${load[most]} of ${sum}.`;
  byId('load-picture').setAttribute('aria-label', `Tokens of the experts of ${layers.length} layers. ${words}`);
  byId('load-table').tBodies[0].replaceChildren(...loadRows(load));
}

/** Offers the layers to choose from, unless they are there. */
function offer(layers) {
  const select = byId('load-layer');
  const offered = [...select.options].map(({ value }) => value);
  if (offered.join() === layers.join()) return;
  select.replaceChildren(...layers.map((layer) => h('option', {}, String(layer))));
}

const again = () => samples.length > 0 && showExperts();
for (const name of ['load-layer', 'load-span']) byId(name).addEventListener('change', again);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
