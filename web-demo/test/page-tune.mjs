// Tests of the section "Fine-tune the language model": it learns, is used above and saved, pauses, and says what is
// wrong.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { generateNatively, gguf, olmoe, serve } from './models.mjs';
import { assertAccessible } from './page.mjs';
import { dropped, write } from './page-text.mjs';
import { describe, picture } from './pictures.mjs';

export const tests = [
  anAdapterIsTrainedUsedAndSaved,
  aFineTuningPausesAndIsDiscarded,
  whatCannotBeLearntFromIsToldOf,
  aLostDeviceEndsTheFineTuning,
];

const TEXT = 'w11 w12 '.repeat(20);
const PROMPT = 'w3 w14 w15';
/** Names of the files that a saved adapter has. */
const FILES = ['adapter_config.json', 'adapter_model.safetensors'];

const tuneIs = (page, ...states) =>
  page.waitForFunction((wanted) => wanted.includes(document.querySelector('#tune').dataset.tuneState), states);

const stepsAtLeast = (page, count) =>
  page.waitForFunction((least) => Number(document.querySelector('#tune').dataset.steps) >= least, count);

const status = (page) => page.locator('#tune-status').textContent();

/** The demo page with a small model as its own, and a single quick case before trainings. */
async function withModel(lab, steps, options) {
  serve(lab, 'model', olmoe());
  const cases = [{ name: 'balance_losses', file: 'balance_losses.safetensors' }];
  lab.replace('cases/training.json', Buffer.from(JSON.stringify(cases)));
  const page = await lab.demo(options);
  await page.locator('#tune-text').fill(TEXT);
  await page.locator('#tune-steps').fill(String(steps));
  await page.locator('#tune-rate').selectOption('0.01');
  await page.locator('#text-prompt').fill(PROMPT);
  await page.locator('#text-temperature').selectOption('0');
  await page.locator('#text-length').fill('8');
  return page;
}

/** Runs in the page: the files of the adapter that was saved, in base64, by name. */
async function savedFiles() {
  const files = {};
  for (const link of document.querySelectorAll('#tune-files a')) {
    const bytes = new Uint8Array(await (await fetch(link.href)).arrayBuffer());
    files[link.download] = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  }
  return files;
}

/** What the native command writes with the model and an adapter of it. */
function natively(lab, adapter) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-adapter-'));
  try {
    for (const [name, bytes] of Object.entries(adapter)) fs.writeFileSync(path.join(folder, name), bytes);
    return generateNatively(lab, olmoe(), ['--prompt', PROMPT, '--max-tokens', '8', '--adapter', folder]);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

async function anAdapterIsTrainedUsedAndSaved(lab) {
  // Whether the browser keeps the second of two files at once is up to its settings; the page lists both.
  const page = await withModel(lab, 4, { allow: [/request failed: blob:/] });
  const before = await write(page);
  await page.locator('#tune-targets').selectOption('all-linear');
  await page.locator('#tune-rank').selectOption('4');
  await page.locator('#tune-start').click();
  await tuneIs(page, 'done', 'idle', 'paused');
  const { tuning } = await page.evaluate(() => globalThis.moebiusDemo.state());
  assert.equal(tuning?.state, 'done', await status(page));
  lab.note(`losses ${tuning.losses.map((loss) => loss.toFixed(3))}`);
  assert.ok(tuning.losses.length === 4 && tuning.losses[3] < tuning.losses[0], `${tuning.losses}`);
  assert.deepEqual([tuning.report.tokens, tuning.report.rank, tuning.report.alpha], [40, 4, 8]);
  assert.match(await status(page), /^Done after 4 steps\. The loss went from /);
  const number = (name) => page.locator(`#tune-numbers dd[data-number="${name}"]`).textContent();
  assert.deepEqual([await number('step'), await number('tokens')], ['4 of 4', '40']);
  assert.ok((await page.locator('#tune-loss path').getAttribute('d')).length > 10, 'the chart has no line');
  await page.locator('#tune-history-details').evaluate((details) => (details.open = true));
  await page.waitForFunction(() => document.querySelectorAll('#tune-history tbody tr').length === 4);
  // Saved, the adapter has the two files of PEFT.
  const downloaded = page.waitForEvent('download');
  await page.locator('#tune-save').click();
  assert.ok(FILES.includes((await downloaded).suggestedFilename()));
  await page.waitForFunction(() => document.querySelectorAll('#tune-files a').length === 2);
  const saved = Object.entries(await page.evaluate(savedFiles));
  assert.deepEqual(saved.map(([name]) => name).sort(), FILES);
  const files = Object.fromEntries(saved.map(([name, bytes]) => [name, Buffer.from(bytes, 'base64')]));
  const seen = describe(await picture(page.locator('#tune'), 'tune'));
  assert.ok(seen.covered > 0.02 && seen.colours >= 4, JSON.stringify(seen));
  await assertAccessible(page, 'fine-tuned');
  // The text above is written with it, as by the native command, and with the same adapter from its files.
  await page.locator('#tune-use').click();
  const named = (text) =>
    page.waitForFunction((start) => document.querySelector('#text-model').textContent.startsWith(start), text);
  await named('The page’s own model with the adapter after 4 steps');
  const native = natively(lab, files);
  assert.deepEqual((await write(page)).ids, native.ids);
  await page.locator('#text-shipped').click();
  assert.deepEqual((await write(page)).ids, before.ids);
  await dropped(page, files);
  await named('The page’s own model with an adapter');
  assert.deepEqual((await write(page)).ids, native.ids);
}

async function aFineTuningPausesAndIsDiscarded(lab) {
  const page = await withModel(lab, 2000);
  await page.locator('#tune-start').click();
  await stepsAtLeast(page, 2);
  assert.ok(await page.locator('#tune-text').isDisabled());
  assert.ok(await page.locator('#tune-save').isDisabled());
  await page.locator('#tune-start').click();
  await tuneIs(page, 'paused');
  const paused = Number(await page.locator('#tune').getAttribute('data-steps'));
  assert.match(await status(page), new RegExp(`^Paused after ${paused} of 2000 steps`));
  assert.ok(await page.locator('#tune-save').isEnabled());
  await page.waitForTimeout(500);
  assert.equal(Number(await page.locator('#tune').getAttribute('data-steps')), paused, 'it went on although paused');
  await page.locator('#tune-start').click();
  await stepsAtLeast(page, paused + 1);
  await page.locator('#tune-reset').click();
  await tuneIs(page, 'idle');
  assert.equal(await page.locator('#tune').getAttribute('data-steps'), '0');
  assert.ok(await page.locator('#tune-text').isEnabled());
  assert.ok(await page.locator('#tune-save').isDisabled());
  // The section above loads its model again, which had made room.
  assert.equal((await write(page)).ids.length, 8);
}

async function whatCannotBeLearntFromIsToldOf(lab) {
  const page = await withModel(lab, 2);
  await dropped(page, { 'log.txt': Buffer.from('w5 w6 w7') }, 'tune');
  await page.waitForFunction(() => document.querySelector('#tune-text').value === 'w5 w6 w7');
  assert.match(await status(page), /log\.txt/);
  await dropped(page, { 'log.bin': Buffer.from([0xff, 0xfe, 0x00]) }, 'tune');
  await page.waitForFunction(() => document.querySelector('#tune-status').textContent.startsWith('log.bin can’t'));
  // An adapter's first file would be a text, too.
  await dropped(page, Object.fromEntries(FILES.map((name) => [name, Buffer.from('w8')])), 'tune');
  await page.waitForFunction(() => document.querySelector('#tune-status').textContent.startsWith('Expected one text'));
  assert.ok((await status(page)).includes(FILES.join(', ')), await status(page));
  assert.equal(await page.locator('#tune-text').inputValue(), 'w5 w6 w7');
  const told = async (message) => {
    await page.locator('#tune-start').click();
    await page.waitForFunction(() => document.querySelector('#tune-status').textContent.startsWith('It could not'));
    assert.match(await status(page), message);
    assert.equal(await page.locator('#tune').getAttribute('data-tune-state'), 'idle');
    await page.evaluate(() => (document.querySelector('#tune-status').textContent = ''));
  };
  await page.locator('#tune-text').fill('w5');
  await told(/text: expected more than 1 tokens, got 1/);
  await page.locator('#tune-text').fill(TEXT);
  await dropped(page, gguf());
  await page.waitForFunction(() => document.querySelector('#text-model').textContent.startsWith('olmoe.gguf'));
  await told(/expected safetensors with a config\.json, got a GGUF file/);
}

async function aLostDeviceEndsTheFineTuning(lab) {
  const page = await withModel(lab, 2000);
  await page.locator('#tune-start').click();
  await stepsAtLeast(page, 1);
  await page.evaluate(() => globalThis.moebiusDemo.loseDevice());
  await tuneIs(page, 'lost');
  assert.match(await status(page), /The device went away/);
  assert.match(await page.locator('#loss-message').textContent(), /training starts over/);
  await page.locator('#reopen').click();
  await page.waitForFunction(() => document.documentElement.dataset.state === 'ready');
  await page.locator('#tune-steps').fill('1');
  await page.locator('#tune-start').click();
  await tuneIs(page, 'done');
}
