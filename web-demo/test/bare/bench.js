// Workbench that tests reach as `globalThis.bench`, on a page or in a worker: the package, and helpers that most tests
// use.
import * as moebius from '../moebius/moebius.js';

/** Promise of the module's exports, once the module is compiled. */
const ready = moebius.default();
let opened = null;

/** The device of this workbench, opened once. */
async function device() {
  await ready;
  opened ??= moebius.Device.open();
  return opened;
}

/** Outcome of a call as plain data: its value or its error. */
async function attempt(call) {
  const start = performance.now();
  try {
    const value = await call();
    return { ok: true, value, milliseconds: performance.now() - start };
  } catch (error) {
    const { name, code, message } = error ?? {};
    return { ok: false, name, code, message: message ?? String(error), milliseconds: performance.now() - start };
  }
}

/** Normally distributed numbers that depend only on the seed, by mulberry32 and the Box–Muller transform. */
function normal(seed, count, scale = 1) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return Float32Array.from({ length: count }, () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    return scale * radius * Math.cos(2 * Math.PI * uniform());
  });
}

async function bytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Points of two interleaved spirals with their labels. */
function spirals(count) {
  const points = new Float32Array(2 * count);
  const labels = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const along = 0.15 + (0.85 * Math.floor(i / 2)) / (count / 2);
    const angle = 4.5 * along + Math.PI * (i % 2);
    points.set([along * Math.cos(angle), along * Math.sin(angle)], 2 * i);
    labels[i] = i % 2;
  }
  return { points, labels };
}

globalThis.bench = { moebius, ready, device, attempt, normal, bytes, spirals };
