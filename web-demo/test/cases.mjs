// Tests of the committed cases on real WebGPU, and of files that are no cases.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { CASES, caseNames, mayBeRefused } from './lab.mjs';
import { build, parse, withFlippedBit, withHeader } from './safetensors.mjs';

export const tests = [
  everyCasePasses,
  casesPassInAWorker,
  aWrongOutputFails,
  truncatedFilesAreRefused,
  arbitraryBytesAreRefused,
  brokenHeadersAreRefused,
  casesThatLackSomethingAreRefused,
];

const read = (name) => fs.readFileSync(path.join(CASES, name));

/** Runs in a page or worker: verifies the named cases. @param {string[]} names */
async function verifyAll(names) {
  const { device, bytes, attempt } = globalThis.bench;
  const opened = await device();
  const results = [];
  for (const name of names) {
    // An error has a name, too.
    results.push({ ...(await attempt(async () => opened.verify(await bytes(`/all-cases/${name}`)))), name });
  }
  return results;
}

async function assertAllPass(lab, place, names) {
  const results = await place.evaluate(verifyAll, names);
  const refused = results.filter(({ name, ok, code }) => !ok && code === 'unsupported' && mayBeRefused(name));
  const ran = results.filter((result) => !refused.includes(result));
  for (const { name, ok, value, code, message } of ran) {
    assert.ok(ok, `${name}: ${code}: ${message}`);
    assert.equal(value.verdict, 'pass', `${name}: ${JSON.stringify(value)}`);
    const { metadata, tensors } = parse(read(name));
    assert.equal(value.op, metadata.op, name);
    const expected = Object.keys(tensors).filter((tensor) => tensor.startsWith('out.'));
    assert.deepEqual(value.outputs.map((output) => `out.${output.name}`).sort(), expected.sort(), name);
    assert.ok(
      value.outputs.every((output) => output.verdict === 'pass'),
      `${name}: ${JSON.stringify(value)}`,
    );
  }
  const time = ran.reduce((sum, { value }) => sum + value.milliseconds, 0);
  lab.note(`${ran.length} cases in ${(time / 1000).toFixed(1)} s, ${refused.length} refused for their dtype`);
}

async function everyCasePasses(lab) {
  await assertAllPass(lab, await lab.bench(), caseNames());
}

/** Checks a few cases in a worker; the page's self-check also runs in one. */
async function casesPassInAWorker(lab) {
  const names = caseNames().filter((name) => /^(route|balance|fp8_cast)/.test(name));
  await assertAllPass(lab, await lab.benchInWorker(), names);
}

/** Runs in a page: verifies files given in base64, since text crosses over fastest. @param {string[]} files */
async function verifyBytes(files) {
  const { device, attempt } = globalThis.bench;
  const opened = await device();
  const results = [];
  for (const file of files) {
    const bytes = Uint8Array.from(atob(file), (character) => character.charCodeAt(0));
    results.push(await attempt(() => opened.verify(bytes)));
  }
  return results;
}

/** The smallest case file of each operation that every device runs. */
function oneOfEach() {
  const smallest = new Map();
  for (const name of caseNames().filter((one) => !mayBeRefused(one))) {
    const file = read(name);
    const { op } = parse(file).metadata;
    if (file.length < (smallest.get(op)?.file.length ?? Infinity)) smallest.set(op, { name, file });
  }
  return [...smallest.values()];
}

async function aWrongOutputFails(lab) {
  const page = await lab.bench();
  const wrong = [];
  for (const { name, file } of oneOfEach()) {
    const outputs = Object.keys(parse(file).tensors).filter((tensor) => tensor.startsWith('out.'));
    for (const output of outputs) wrong.push({ name, output, file: withFlippedBit(file, output) });
  }
  const results = await page.evaluate(
    verifyBytes,
    wrong.map(({ file }) => file.toString('base64')),
  );
  wrong.forEach(({ name, output }, i) => {
    const { ok, value, message } = results[i];
    assert.ok(ok, `${name} with another ${output}: ${message}`);
    assert.equal(value.verdict, 'fail', `${name} with another ${output}: ${JSON.stringify(value)}`);
    const failing = value.outputs.filter(({ verdict }) => verdict === 'fail').map((failed) => `out.${failed.name}`);
    assert.deepEqual(failing, [output], name);
  });
  lab.note(`${wrong.length} wrong outputs of ${oneOfEach().length} operations`);
}

/** Checks that every file is refused with one of `codes`, and that the device still works afterwards. */
async function assertRefused(lab, files, codes = ['bad-file']) {
  const page = await lab.bench();
  const good = read('balance_losses.safetensors');
  const results = await page.evaluate(
    verifyBytes,
    [...files.map(({ file }) => file), good].map((file) => file.toString('base64')),
  );
  const last = results.pop();
  files.forEach(({ what }, i) => {
    const { ok, value, name, code, message } = results[i];
    assert.ok(!ok, `${what}: expected an error, got ${JSON.stringify(value)}`);
    assert.equal(name, 'MoebiusError', `${what}: ${name}: ${message}`);
    assert.ok(codes.includes(code), `${what}: expected ${codes.join(' or ')}, got ${code}: ${message}`);
    assert.ok(message.length > 10, `${what}: expected a message, got "${message}"`);
  });
  assert.equal(last.value?.verdict, 'pass', `a good file afterwards: ${JSON.stringify(last)}`);
  lab.note(`${files.length} files refused, such as: ${results.at(-1).message}`);
}

async function truncatedFilesAreRefused(lab) {
  const whole = read('balance_losses.safetensors');
  const lengths = [0, 1, 7, 8, 9, whole.length - 1];
  for (let length = 32; length < whole.length; length += 61) lengths.push(length);
  await assertRefused(
    lab,
    lengths.map((length) => ({ what: `${length} bytes of ${whole.length}`, file: whole.subarray(0, length) })),
  );
}

async function arbitraryBytesAreRefused(lab) {
  let state = 7;
  const byte = () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) >>> 24;
  const files = [8, 9, 100, 1000, 5000].flatMap((length) =>
    [0, 1, 2, 3].map((seed) => {
      state = seed * 7919 + length;
      return { what: `${length} arbitrary bytes, seed ${state}`, file: Buffer.from(Array.from({ length }, byte)) };
    }),
  );
  // Lengths that unchecked sums would accept: 2^64 - 1, 2^63, 2^32, and one just beyond the file.
  for (const length of [0xffffffffffffffffn, 0x8000000000000000n, 0x100000000n, 93n]) {
    const file = Buffer.alloc(100, '{');
    file.writeBigUInt64LE(length);
    files.push({ what: `a header of ${length} bytes`, file });
  }
  await assertRefused(lab, files);
}

async function brokenHeadersAreRefused(lab) {
  const data = Buffer.alloc(64);
  const entry = (dtype, shape, from, to) => JSON.stringify({ dtype, shape, data_offsets: [from, to] });
  const route = '"__metadata__":{"op":"route","params":"{}","tol":"{}"}';
  const headers = [
    '',
    '[]',
    '{}',
    'null',
    '"x"',
    '{"a":1}',
    '{"__metadata__":5}',
    '{'.repeat(60_000),
    `${'['.repeat(5000)}${']'.repeat(5000)}`,
    `{"in.x":${entry('F32', [16], 0, 64)}}`, // no operation
    `{"__metadata__":{"op":"route","params":"{","tol":"{}"},"in.logits":${entry('F32', [16], 0, 64)}}`,
    `{${route},"in.logits":${entry('F32', [16], 0, 68)}}`,
    `{${route},"in.logits":${entry('F32', [4294967296, 4294967296], 0, 64)}}`,
    `{${route},"in.logits":${entry('F32', [-1], 0, 64)}}`,
    `{${route},"in.logits":${entry('F99', [16], 0, 64)}}`,
    `{${route},"in.logits":${entry('F32', [16], 64, 0)}}`,
  ];
  await assertRefused(
    lab,
    headers.map((text) => ({ what: `header ${text.slice(0, 150)}`, file: withHeader(text, data) })),
  );
}

/**
 * Checks that well-formed files with contents that no case has are refused; the code may also be `unsupported` or
 * `shape`.
 */
async function casesThatLackSomethingAreRefused(lab) {
  const files = [];
  for (const { name, file } of oneOfEach()) {
    const { metadata, tensors } = parse(file);
    for (const gone of Object.keys(tensors).filter((tensor) => tensor.startsWith('in.'))) {
      // Masks, biases and others are optional: a case without one runs, with right or wrong outputs.
      if (/mask|bias|\.b_|in\.sinks|key_document_ids|d_probs|d_logsumexp|in\.scale/.test(gone)) continue;
      const { [gone]: _, ...rest } = tensors;
      files.push({ what: `${name} without ${gone}`, file: build(metadata, rest) });
    }
    const outputs = Object.fromEntries(Object.entries(tensors).filter(([tensor]) => tensor.startsWith('in.')));
    files.push({ what: `${name} without outputs`, file: build(metadata, outputs) });
    files.push({ what: `${name} as another operation`, file: build({ ...metadata, op: 'divide' }, tensors) });
    files.push({ what: `${name} without tolerances`, file: build({ ...metadata, tol: '{}' }, tensors) });
  }
  await assertRefused(lab, files, ['bad-file', 'unsupported', 'shape']);
}
