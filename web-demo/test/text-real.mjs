// Tests a published model of some size, streamed from a Blob to the device, against the native command's answer.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { generateNatively } from './models.mjs';

export const tests = [aPublishedModelAnswers];
export const long = tests;

const QUESTION = 'Write one sentence about the sea.';
const TOKENS = 12;

/** Runs in a worker: loads the model and lets it answer. */
async function answer({ url, question, maxTokens }) {
  const { device, moebius, ready } = globalThis.bench;
  const { memory } = await ready;
  const opened = await device();
  const file = await (await fetch(url)).blob();
  const begun = performance.now();
  const before = memory.buffer.byteLength;
  const model = await moebius.TextModel.load(opened, { 'model.gguf': file });
  const loaded = performance.now() - begun;
  const module = memory.buffer.byteLength - before;
  const messages = [{ role: 'user', content: question }];
  const { text, ids, firstTokenMs, tokensPerSecond, promptTokens } = await model.generate({ messages, maxTokens });
  const { report } = model;
  model.free();
  return { text, ids: [...ids], firstTokenMs, tokensPerSecond, promptTokens, report, loaded, module, size: file.size };
}

async function aPublishedModelAnswers(lab) {
  assert.ok(lab.model, 'no published model: --model FILE.gguf names one');
  const bytes = fs.readFileSync(lab.model);
  lab.replace('real/model.gguf', bytes);
  const worker = await lab.benchInWorker();
  const asked = { url: '../real/model.gguf', question: QUESTION, maxTokens: TOKENS };
  const { text, ids, report, loaded, module, size, ...times } = await worker.evaluate(answer, asked);
  const name = path.basename(lab.model);
  const seconds = (loaded / 1000).toFixed(1);
  lab.note(`${name}: ${report.family}, ${size} bytes in ${seconds} s, ${report.weightBytes} on the device`);
  lab.note(`the module grew by ${module} bytes`);
  lab.note(`after ${times.promptTokens} tokens of a prompt the first in ${times.firstTokenMs.toFixed(0)} ms`);
  lab.note(`${times.tokensPerSecond.toFixed(2)} tokens/s: ${text}`);
  // The module holds at most the largest tensor twice, once decoded and once for the device, and never all weights.
  assert.ok(module < report.weightBytes * 0.6, `the module grew by ${module} of ${report.weightBytes} bytes`);
  const options = ['--chat', '--prompt', QUESTION, '--max-tokens', String(TOKENS)];
  const native = generateNatively(lab, { [name]: bytes }, options, 'flex');
  assert.deepEqual(ids, native.ids, `${text} natively: ${native.text}`);
}
