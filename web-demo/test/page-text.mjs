// Tests of the section "Text": the page's own model and a visitor's model write, and stop when they should. Most tests
// replace the page's own model by a small one.
import assert from 'node:assert/strict';

import { generateNatively, gguf, olmoe, serve } from './models.mjs';
import { describe, picture } from './pictures.mjs';

export const tests = [
  theShippedModelWrites,
  theModelWritesTokenByToken,
  precisionsAreSwitched,
  aTextStopsAtOnce,
  aDroppedModelIsTalkedTo,
  filesThatAreNoModelAreToldOf,
  aLostDeviceIsToldAndTheModelLoadedAgain,
];

const PROMPT = 'w3 w14 w15 w92 w65';

const textIs = (page, ...states) =>
  page.waitForFunction((wanted) => wanted.includes(document.querySelector('#text').dataset.textState), states);

const state = (page) => page.evaluate(() => globalThis.moebiusDemo.state().text);

const tokensAtLeast = (page, count) =>
  page.waitForFunction((least) => Number(document.querySelector('#text').dataset.tokens) >= least, count);

/** The demo page with a small model as its own. */
async function withModel(lab, options) {
  serve(lab, 'model', olmoe());
  const page = await lab.demo(options);
  await page.locator('#text-prompt').fill(PROMPT);
  await page.locator('#text-temperature').selectOption('0');
  await page.locator('#text-length').fill('16');
  return page;
}

/** Makes the page write, within `timeout` ms or else the tests' usual limit. @returns what the page shows */
export async function write(page, timeout) {
  await page.locator('#text-write').click();
  const done = () => ['ready', 'failed'].includes(document.querySelector('#text').dataset.textState);
  await page.waitForFunction(done, null, { timeout });
  const shown = await state(page);
  assert.equal(shown?.state, 'ready', await page.locator('#text-status').textContent());
  return { ...shown, said: await page.locator('#text-output .answer').last().textContent() };
}

/**
 * Tokens per second below which something is wrong, however busy the machine; when idle, two cores write more than ten.
 */
const SLOW = 0.3;

async function theShippedModelWrites(lab) {
  const page = await lab.demo();
  const prompt = 'The captain looked at the sea';
  await page.locator('#text-prompt').fill(prompt);
  await page.locator('#text-temperature').selectOption('0');
  // The first text is short, to compile the kernels.
  await page.locator('#text-length').fill('4');
  await write(page);
  await page.locator('#text-length').fill('32');
  const { ids, text, tokensPerSecond } = await write(page);
  const native = generateNatively(lab, null, ['--prompt', prompt, '--max-tokens', '32']);
  assert.deepEqual([ids, text], [native.ids, native.text]);
  lab.note(`the shipped model: ${tokensPerSecond.toFixed(1)} tokens a second`);
  assert.ok(tokensPerSecond >= SLOW, `${tokensPerSecond} tokens a second`);
}

async function theModelWritesTokenByToken(lab) {
  const page = await withModel(lab);
  const { ids, text, said, experts, tokensPerSecond } = await write(page);
  const native = generateNatively(lab, olmoe(), ['--prompt', PROMPT, '--max-tokens', '16']);
  assert.deepEqual(ids, native.ids);
  assert.deepEqual([text, said], [native.text, native.text]);
  assert.ok(tokensPerSecond > 0);
  const number = (name) => page.locator(`#text-numbers dd[data-number="${name}"]`).textContent();
  assert.deepEqual([await number('tokens'), await number('prompt')], ['16', '5']);
  assert.equal(await number('speed'), tokensPerSecond.toFixed(1));
  // Every token reports its experts: three of eight in each of three layers.
  assert.equal(experts.length, 16);
  for (const layers of experts) assert.deepEqual(layers.map((of) => new Set(of).size), [3, 3, 3]);
  assert.equal(await page.locator('#text-output [data-token]').count(), 16);
  const last = describe(await picture(page.locator('#text-experts'), 'text-experts'));
  assert.ok(last.covered > 0.1 && last.colours >= 4, JSON.stringify(last));
  await page.locator('#text-token').fill('2');
  const detail = await page.locator('#text-token-detail').textContent();
  assert.ok(detail.startsWith('Token 2 “'), detail);
  assert.ok(detail.includes(`layer 1: ${experts[2][1].join(', ')}`), detail);
  await picture(page.locator('#text'), 'text');
}

async function precisionsAreSwitched(lab) {
  const page = await withModel(lab);
  const found = {};
  for (const precision of ['f32', 'fp8']) {
    await page.locator('#text-precision').selectOption(precision);
    found[precision] = await write(page);
    assert.equal(found[precision].report.precision, precision);
    const dtype = ['--dtype', precision];
    const native = generateNatively(lab, olmoe(), ['--prompt', PROMPT, '--max-tokens', '16', ...dtype]);
    assert.deepEqual(found[precision].ids, native.ids, precision);
  }
  const [values, codes] = [found.f32, found.fp8].map(({ report }) => report.weightBytes);
  assert.ok(codes < 0.6 * values, `${codes} bytes in FP8, ${values} in f32`);
}

async function aTextStopsAtOnce(lab) {
  const page = await withModel(lab);
  await page.locator('#text-length').fill('240');
  await page.locator('#text-write').click();
  await tokensAtLeast(page, 4);
  // Measured in the page, since messages of the test take time.
  const late = await page.evaluate(async () => {
    const begun = performance.now();
    document.querySelector('#text-stop').click();
    while (document.querySelector('#text').dataset.textState === 'writing') {
      await new Promise((later) => setTimeout(later));
    }
    return performance.now() - begun;
  });
  const { ids } = await state(page);
  lab.note(`stopped ${late.toFixed(0)} ms after the click, after ${ids.length} tokens`);
  assert.ok(late < 500, `${late} ms`);
  assert.ok(ids.length >= 4 && ids.length < 240, `${ids.length} tokens`);
  assert.match(await page.locator('#text-status').textContent(), /^Stopped after \d+ tokens/);
  await page.locator('#text-length').fill('5');
  const again = await write(page);
  assert.deepEqual(again.ids.slice(0, 4), ids.slice(0, 4), 'a text after one that was stopped');
}

/** Runs in the page: drops files onto the section with this id. */
function drop([id, files]) {
  const transfer = new DataTransfer();
  for (const [name, bytes] of files) {
    const data = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([data], name));
  }
  const section = document.getElementById(id);
  for (const type of ['dragenter', 'dragover', 'drop']) {
    section.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }
}

/** Drops files onto a section of the page. */
export const dropped = (page, files, id = 'text') =>
  page.evaluate(drop, [id, Object.entries(files).map(([name, bytes]) => [name, bytes.toString('base64')])]);

async function aDroppedModelIsTalkedTo(lab) {
  const page = await withModel(lab);
  const files = olmoe({ chat: true });
  await dropped(page, files);
  await page.waitForFunction(() => document.querySelector('#text-model').textContent.startsWith('model.safetensors'));
  const said = [];
  for (const message of ['w1 w2', 'w3']) {
    await page.locator('#text-prompt').fill(message);
    const { ids, messages, said: answer } = await write(page);
    said.push(message, answer);
    assert.deepEqual(
      messages.map(({ content }) => content),
      said,
    );
    // The template joins the messages with spaces.
    const before = said.slice(0, -1).join(' ');
    const native = generateNatively(lab, files, ['--prompt', before, '--max-tokens', '16']);
    assert.deepEqual(ids, native.ids);
  }
  assert.equal(await page.locator('#text-output .asked').count(), 2);
  await picture(page.locator('#text'), 'text-chat');
  // Then a GGUF file replaces the model, and after that the page's own model.
  await dropped(page, gguf());
  await page.locator('#text-prompt').fill('t0t1');
  const { report } = await write(page);
  assert.deepEqual([report.family, report.chat], ['olmoe', true]);
  await page.locator('#text-shipped').click();
  await page.locator('#text-prompt').fill(PROMPT);
  assert.equal((await write(page)).report.chat, false);
}

async function filesThatAreNoModelAreToldOf(lab) {
  const page = await withModel(lab);
  const good = olmoe();
  const told = async (files) => {
    await dropped(page, files);
    await page.waitForFunction(() => document.querySelector('#text-status').textContent.startsWith('These files'));
    const text = await page.locator('#text-status').textContent();
    await page.evaluate(() => (document.querySelector('#text-status').textContent = ''));
    return text;
  };
  assert.match(await told({ 'model.safetensors': good['model.safetensors'] }), /config\.json and tokenizer\.json/);
  assert.match(await told({ 'a.bin': Buffer.from('x') }), /\.gguf or \.safetensors file, got a\.bin/);
  // The page shows the package's error for a refused file, and the next model works.
  await dropped(page, { 'broken.gguf': Buffer.from('GGUFGGUF') });
  await page.locator('#text-write').click();
  await textIs(page, 'failed');
  assert.match(await page.locator('#text-status').textContent(), /broken\.gguf/);
  await dropped(page, good);
  await page.waitForFunction(() => document.querySelector('#text').dataset.textState === 'idle');
  assert.equal((await write(page)).ids.length, 16);
  // A page that was built without a model says so.
  serve(lab, 'model', {});
  const bare = await lab.demo();
  await bare.locator('#text-write').click();
  await textIs(bare, 'failed');
  assert.match(await bare.locator('#text-status').textContent(), /built without a model/);
}

async function aLostDeviceIsToldAndTheModelLoadedAgain(lab) {
  const page = await withModel(lab);
  const before = await write(page);
  await page.locator('#text-length').fill('240');
  await page.locator('#text-write').click();
  await tokensAtLeast(page, 3);
  await page.evaluate(() => globalThis.moebiusDemo.loseDevice());
  await textIs(page, 'lost');
  assert.match(await page.locator('#text-status').textContent(), /The device went away/);
  assert.ok(await page.locator('#loss-banner').isVisible());
  await page.locator('#reopen').click();
  await page.waitForFunction(() => document.documentElement.dataset.state === 'ready');
  await page.locator('#text-length').fill('16');
  assert.deepEqual((await write(page)).ids, before.ids);
}
