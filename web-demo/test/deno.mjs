// Tests of the package in Deno, whose WebGPU is another implementation than Chromium's.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { CASES, caseNames, mayBeRefused, NATIVE, ROOT } from './lab.mjs';
import { relativeError } from './reference.mjs';

export const tests = [everyCasePassesInDeno];

/** Path of the Deno that the set-up script found or installed. */
function executable() {
  const found = execFileSync('bash', ['-c', '. scripts/places.sh; deno_binary'], {
    cwd: ROOT,
    encoding: 'utf8',
  }).trim();
  assert.notEqual(found, '', 'expected Deno, found none; scripts/setup unpacks it');
  return found;
}

async function everyCasePassesInDeno(lab) {
  const program = path.join(ROOT, 'web-demo/test/deno/verify.js');
  const flags = [
    'run',
    '--quiet',
    '--no-config',
    '--no-lock',
    '--no-prompt',
    '--unstable-webgpu',
    `--allow-read=${ROOT}`,
  ];
  const files = [path.join(ROOT, 'web-demo/dist/moebius'), CASES, NATIVE];
  const { status, stdout, stderr } = spawnSync(executable(), [...flags, program, ...files], { encoding: 'utf8' });
  assert.equal(status, 0, `Deno ended with ${status}: ${stderr}`);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const cases = lines.filter(({ verdict }) => verdict);
  assert.deepEqual(cases.map(({ name }) => name).sort(), caseNames().sort());
  const right = ({ name, verdict }) => verdict === 'pass' || (verdict === 'unsupported' && mayBeRefused(name));
  assert.deepEqual(
    cases.filter((one) => !right(one)),
    [],
  );
  const error = relativeError(lines.find(({ y }) => y).y, JSON.parse(fs.readFileSync(NATIVE, 'utf8')).y);
  assert.ok(error < 1e-5, `expected the layer within 1e-5 of the native one, got ${error}`);
  assert.equal(lines.at(-1).loss, 'destroyed');
  lab.note(`${cases.length} cases on ${lines[0].adapter}; the layer is ${error.toPrecision(2)} from the native one`);
}
