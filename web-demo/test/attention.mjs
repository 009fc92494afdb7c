// Tests of attention: its results against the formula in f64, rule by rule, and cancelled calls.
import assert from 'node:assert/strict';

import { attention, relativeError } from './reference.mjs';

export const tests = [attentionIsItsFormula, headsAndSizesMayDiffer, queriesWithoutKeysAreZero, anAbortedCallIsRefused];

/** Runs in a page: computes one attention of generated q, k and v; returns everything as plain arrays. */
async function attended(options) {
  const { device, moebius, normal } = globalThis.bench;
  const { batch, heads, kvHeads, queries, keys, headDim, valueDim } = options;
  const q = normal(1, batch * heads * queries * headDim);
  const k = normal(2, batch * kvHeads * keys * headDim);
  const v = normal(3, batch * kvHeads * keys * valueDim);
  const { o, lse } = await moebius.attention(await device(), q, k, v, options);
  return { q: [...q], k: [...k], v: [...v], o: [...o], lse: [...lse] };
}

const SMALL = { batch: 1, heads: 2, kvHeads: 2, queries: 19, keys: 21, headDim: 8, valueDim: 8 };

/** Checks that the package's result is that of the formula. @returns {Promise<object>} the result */
async function compare(page, options) {
  const got = await page.evaluate(attended, options);
  const expected = attention(options, got);
  const what = JSON.stringify(options);
  assert.equal(got.o.length, expected.o.length, what);
  assert.equal(got.lse.length, expected.lse.length, what);
  const [ofO, ofLse] = [relativeError(got.o, expected.o), relativeError(got.lse, expected.lse)];
  assert.ok(ofO < 3e-6, `${what}: expected o within 3e-6 of the formula, got ${ofO}`);
  assert.ok(ofLse < 3e-6, `${what}: expected lse within 3e-6 of the formula, got ${ofLse}`);
  return got;
}

async function attentionIsItsFormula(lab) {
  const page = await lab.bench();
  const lists = [
    [],
    ['causal'],
    ['causalTopLeft'],
    [{ window: 5 }],
    [{ symmetricWindow: 3 }],
    [{ prefix: 4 }],
    [{ global: { tokens: 2, window: 3 } }],
    [{ dilated: 3 }, 'causal'],
    ['alibi', { softcap: 1.5 }],
    // The reverse order: slopes are added to capped scores.
    [{ softcap: 1.5 }, 'alibi', 'causal'],
  ];
  const results = new Map();
  for (const rules of lists) {
    const { o } = await compare(page, { ...SMALL, rules });
    results.set(o.join(), rules);
  }
  assert.equal(results.size, lists.length, 'expected another result of each list of rules');
}

async function headsAndSizesMayDiffer(lab) {
  const page = await lab.bench();
  // Few queries, many queries, grouped heads, a longer value head, odd sizes, and a scale.
  const rules = ['alibi', 'causal'];
  await compare(page, { ...SMALL, batch: 2, heads: 6, kvHeads: 2, valueDim: 24, scale: 0.2, rules });
  await compare(page, { ...SMALL, queries: 1, keys: 70 });
  await compare(page, { ...SMALL, heads: 3, kvHeads: 1, queries: 5, keys: 5, headDim: 7, valueDim: 3, rules });
  await compare(page, { ...SMALL, heads: 1, kvHeads: 1, queries: 150, keys: 130, headDim: 64, valueDim: 64 });
}

async function queriesWithoutKeysAreZero(lab) {
  const page = await lab.bench();
  const options = { ...SMALL, heads: 1, kvHeads: 1, queries: 21, keys: 19, rules: ['causal'] };
  const { o, lse } = await page.evaluate(attended, options);
  // Query i has position i + 19 − 21, so the first two queries lie before all keys.
  assert.deepEqual(o.slice(0, 16), new Array(16).fill(0));
  assert.ok(lse[0] < -3.4e38 && lse[1] < -3.4e38 && lse[2] > -100, `got log-sum-exps of ${lse.slice(0, 3)}`);
  assert.ok(o.slice(16).every((value) => value !== 0));
}

/** Runs in a page: calls attention with aborted signals. */
async function aborted() {
  const { device, moebius, attempt } = globalThis.bench;
  const opened = await device();
  const one = new Float32Array(8);
  const run = (signal) => () => moebius.attention(opened, one, one, one, { heads: 1, queries: 1, headDim: 8, signal });
  const later = new AbortController();
  const before = attempt(run(AbortSignal.abort()));
  const during = attempt(run(later.signal));
  later.abort();
  const outcomes = [await before, await during, await attempt(run(new AbortController().signal))];
  return outcomes.map(({ ok, name, code }) => ({ ok, name, code }));
}

async function anAbortedCallIsRefused(lab) {
  const page = await lab.bench();
  const [before, during, never] = await page.evaluate(aborted);
  for (const one of [before, during]) assert.deepEqual(one, { ok: false, name: 'MoebiusError', code: 'cancelled' });
  assert.equal(never.ok, true);
}
