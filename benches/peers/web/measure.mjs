// Checks every contender against the f64 reference, then times all contenders in turns.

import { contendersOf } from './contenders.mjs';
import { attention, difference, matmul, moe } from './data.mjs';

/** Largest accepted errors. f32 sums of up to 1024 products, in any order, stay an order of magnitude below them. */
const TOLERANCE = { relL2: 1e-5, largest: 1e-4 };
const WARM_UPS = 2;
const LAYER = { tokens: 512, hidden: 256, inter: 512, experts: 8, topK: 2 };
/** Slots per expert of the MoE form with a capacity, by the customary capacity factor of 1.25. */
const CAPACITY = Math.ceil(1.25 * LAYER.tokens * LAYER.topK / LAYER.experts);

const WORKLOADS = {
  matmul512: { kind: 'matmul', make: () => matmul(512) },
  matmul1024: { kind: 'matmul', make: () => matmul(1024) },
  moe: { kind: 'moe', make: () => ({ ...moe(LAYER), capacity: CAPACITY }) },
  attention: { kind: 'attention', make: () => attention({ heads: 8, tokens: 512, headDim: 64 }) },
};
export const workloads = Object.keys(WORKLOADS);

const median = (times) => {
  const sorted = [...times].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

async function timed(action) {
  const start = performance.now();
  const result = await action();
  return { ms: performance.now() - start, result };
}

/** Checks a result against the reference; `order` reorders the values of a contender whose layout differs from it. */
function check(values, expected, { order = (same) => same }) {
  const error = difference(order(values), expected);
  // Written so that a NaN fails.
  if (error.relL2 <= TOLERANCE.relL2 && error.largest <= TOLERANCE.largest) return error;
  throw new Error(`wrong result: relative L2 error ${error.relL2} (at most ${TOLERANCE.relL2}), `
    + `largest ${error.largest} of the root mean square (at most ${TOLERANCE.largest})`);
}

/** Opens one contender, checks its results for all inputs and warms it up. A failure is recorded in the entry. */
async function enter(contender, work, context) {
  const entry = { id: contender.id, label: contender.label, times: [] };
  try {
    const peer = await context.opened(contender);
    Object.assign(entry, { version: peer.version, adapter: peer.adapter });
    entry.prepared = await peer.prepare(work);
    const first = await timed(() => entry.prepared.run(work.cases[0].input));
    entry.firstMs = first.ms;
    entry.error = check(first.result, work.cases[0].expected, entry.prepared);
    for (const { input, expected } of work.cases.slice(1)) {
      check(await entry.prepared.run(input), expected, entry.prepared);
    }
    for (let i = 0; i < WARM_UPS; i++) await entry.prepared.run(work.cases[0].input);
  } catch (error) {
    entry.failure = String(error?.message ?? error);
  }
  return entry;
}

/** One timed run of a contender. Its result is checked again, outside of the timed part. */
async function turn(entry, { input, expected }) {
  try {
    const { ms, result } = await timed(() => entry.prepared.run(input));
    check(result, expected, entry.prepared);
    entry.times.push(ms);
  } catch (error) {
    entry.failure = String(error?.message ?? error);
  }
}

function summary({ prepared, times, ...entry }, flops) {
  if (entry.failure) return entry;
  const medianMs = median(times);
  return { ...entry, medianMs, gflops: flops / medianMs / 1e6, timesMs: times };
}

async function compare(work, rounds, context) {
  const entries = [];
  for (const contender of contendersOf(work.kind, context)) {
    context.say(`${work.name}: ${contender.label}`);
    entries.push(await enter(contender, work, context));
  }
  for (let round = 0; round < rounds; round++) {
    context.say(`${work.name}: turn ${round + 1} of ${rounds}`);
    for (const entry of entries) if (!entry.failure) await turn(entry, work.cases[0]);
  }
  for (const { prepared } of entries) await prepared?.close();
  const { name, kind, flops, load } = work;
  return { name, kind, flops, load, contenders: entries.map((entry) => summary(entry, flops)) };
}

/** Function that opens a contender's library and device, once per module and settings for all workloads. */
function opener(address) {
  const open = new Map();
  return ({ module, settings }) => {
    const key = JSON.stringify([module, settings]);
    if (!open.has(key)) open.set(key, import(module).then((peer) => peer.open(settings ?? address)));
    return open.get(key);
  };
}

/** The adapter that all results were computed on; throws if contenders used different ones. */
function adapterOf(results) {
  const all = results.flatMap(({ contenders }) => contenders).map(({ adapter }) => adapter && JSON.stringify(adapter));
  const different = [...new Set(all.filter(Boolean))];
  if (different.length > 1) throw new Error(`expected one adapter for all, got ${different.join(' and ')}`);
  return different.length ? JSON.parse(different[0]) : null;
}

/** Measures the named workloads; `say` is called with each step of the progress. */
export async function measure({ what, only, all, rounds, address, say }) {
  const context = { only, all, say, opened: opener(address) };
  const results = [];
  const contested = what.filter((name) => contendersOf(WORKLOADS[name].kind, context).length);
  if (!contested.length) throw new Error(`expected a contender for ${what.join(', ')}, got none`);
  for (const name of contested) {
    say(`${name}: reference in f64`);
    results.push(await compare({ kind: WORKLOADS[name].kind, ...WORKLOADS[name].make() }, rounds, context));
  }
  return {
    browser: navigator.userAgent,
    threads: navigator.hardwareConcurrency,
    isolated: crossOriginIsolated,
    adapter: adapterOf(results),
    rounds,
    results,
  };
}
