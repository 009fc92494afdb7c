// What a visitor has to download until the page is ready.
import assert from 'node:assert/strict';

import { sizeOf, table, total } from '../../scripts/sizes.mjs';

export const tests = [thePageFitsItsBudget];

// Tokenizers and chat templates, with the tables of Unicode that their expressions need, come with the first text.
const BUDGET = 2_000_000;

/** Every file that the page asks for until its self-check has passed, each in brotli at its best. */
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
