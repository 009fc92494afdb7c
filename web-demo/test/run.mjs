// Runs the browser tests. The last line has the form of cargo's: "test result: ok. 3 passed; 0 failed; 0 ignored;".
//
//   node web-demo/test/run.mjs [size|package|page|deno|real]... [--only TEXT] [--native PATH] [--model FILE.gguf]
//
// Without a group, it runs all but `real`, which uses the published model that --model names. --only selects tests
// whose names contain TEXT; --native names the moebius command, which some tests compare with. MOEBIUS_TEST_DEEP=1 adds
// tests that take long. The variable CHROMIUM names another browser. The site has to exist: scripts/demo --build-only
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';

import { Lab } from './lab.mjs';

const GROUPS = {
  size: ['size'],
  package: ['types', 'npm', 'cases', 'errors', 'layers', 'attention', 'training', 'text', 'adapters', 'lifetime'],
  page: [
    ...['page', 'page-sections', 'page-text', 'page-tune', 'page-folder', 'page-trouble'],
    ...['page-certificate', 'page-served'],
  ],
  deno: ['deno'],
  real: ['text-real'],
};
// Longer than any test takes, even with several waits that each have a limit, so that a hang ends in a message.
const LIMIT_MS = 300_000;
const deep = process.env.MOEBIUS_TEST_DEEP === '1';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: '' }, native: { type: 'string' }, model: { type: 'string' } },
});
const groups = positionals.length > 0 ? positionals : Object.keys(GROUPS).filter((group) => group !== 'real');
for (const group of groups) {
  assert.ok(group in GROUPS, `expected a group of ${Object.keys(GROUPS).join(', ')}, got ${group}`);
}

class Late extends Error {}

/** Whether a test ran into a time limit, rather than finding something wrong. */
const hung = (error) => error instanceof Late || error?.name === 'TimeoutError';

/**
 * Runs a test. @param {Lab} lab @param {(lab: Lab) => Promise<void>} test
 * @returns what went wrong, or null; and whether the test hung
 */
async function outcome(lab, test) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Late(`not done after ${LIMIT_MS / 1000} s`)), LIMIT_MS);
  });
  let failure = null;
  let inVain = false;
  try {
    await Promise.race([test(lab), late]);
  } catch (error) {
    inVain = hung(error);
    failure = [error.stack ?? String(error), ...(await lab.states())].join('\n');
  }
  clearTimeout(timer);
  const problems = await lab.endTest();
  if (problems.length === 0) return [failure, inVain];
  return [[failure, 'the page had problems:', ...problems].filter(Boolean).join('\n  '), false];
}

/**
 * Runs a test, and again in another browser if it hung. Once in some hundred tests, a page on Chromium's
 * software adapter stands still, for an unknown reason; the hang is reported with what the pages show.
 * @returns {Promise<boolean>} whether the test passed
 */
async function run(lab, name, test) {
  const start = performance.now();
  let [failure, inVain] = await outcome(lab, test);
  if (inVain) {
    console.log(`test ${name} waited in vain, and runs again in another browser\n${failure}`.replace(/\n/g, '\n  '));
    await lab.restart();
    [failure, inVain] = await outcome(lab, test);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`test ${name} ... ${failure === null ? 'ok' : 'FAILED'} (${seconds} s)`);
  if (failure !== null) console.log(failure.replace(/^/gm, '  '));
  return failure === null;
}

const lab = new Lab(values);
let passed = 0;
let failed = 0;
try {
  await lab.start();
  for (const file of groups.flatMap((group) => GROUPS[group])) {
    const { tests, long = [] } = await import(`./${file}.mjs`);
    for (const test of (deep ? long : tests).filter(({ name }) => name.includes(values.only))) {
      if (await run(lab, `${file}::${test.name}`, test)) passed += 1;
      else failed += 1;
    }
  }
} finally {
  await lab.stop();
}
console.log(`\ntest result: ${failed === 0 ? 'ok' : 'FAILED'}. ${passed} passed; ${failed} failed; 0 ignored;`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
