// Tests the size of the download until the page is ready.
import assert from 'node:assert/strict';

import { sizeOf, table, total } from '../../scripts/sizes.mjs';

export const tests = [thePageFitsItsBudget];

// Largest size in bytes. Tokenizers, chat templates and their Unicode tables don't count: they come with the first
// text.
const BUDGET = 2_100_000;

/**
 * Checks the size of all files that the page requests until its self-check has passed, each with brotli at its best.
 */
async function thePageFitsItsBudget(lab) {
  await lab.demo({ all: true });
  const { served } = lab;
  for (const name of ['index.html', 'worker.js', 'moebius/moebius.js', 'moebius/moebius_bg.wasm', 'cases/start.json']) {
    assert.ok(served.includes(name), `expected the page to load ${name}, got ${served}`);
  }
  const isCase = (name) => name.startsWith('cases/');
  const rest = served.filter((name) => !isCase(name)).map((name) => sizeOf(name, lab.siteFile(name)));
  const cases = served.filter(isCase).map((name) => sizeOf(name, lab.siteFile(name)));
  lab.note(table([...rest, { ...total(cases), name: `cases/ (${cases.length} files)` }]));
  const { brotli } = total([...rest, ...cases]);
  assert.ok(brotli <= BUDGET, `expected at most ${BUDGET} bytes, got ${brotli}`);
}
