// Tests of the sections at work: the page computes and shows what a visitor sets.
import assert from 'node:assert/strict';

import { difference, picture } from './pictures.mjs';
import { onADesktop } from './visits.mjs';

export const tests = [
  theLayerFollowsItsControls,
  aTokenTellsItsExperts,
  trainingLearnsPausesAndStartsOver,
  trainingTakesItsSettings,
  benchmarksRun,
  benchmarksCanBeCancelled,
];
export const long = [thePageHoldsNoMoreAndMore];

/** Reads from the page what the layer's section shows. */
async function layerShown(page) {
  return page.evaluate(() => {
    const numbers = (name) =>
      [...document.querySelectorAll('#layer-load tbody tr')].map((row) => Number(row.dataset[name]));
    const number = (name) => document.querySelector(`#layer-numbers dd[data-number="${name}"]`).textContent;
    return {
      load: numbers('load'),
      dropped: numbers('dropped'),
      state: globalThis.moebiusDemo.state().layer,
      experts: [...document.querySelectorAll('#layer-plot [data-token]')].map((mark) => Number(mark.dataset.expert)),
      text: {
        dropped: number('dropped'),
        capacity: number('capacity'),
        switch: number('switch'),
        bytes: number('bytes'),
      },
    };
  });
}

/** Changes a control and waits for the result. */
async function setLayer(page, id, value) {
  const runs = await page.evaluate(() => document.querySelector('#layer').dataset.runs);
  const control = page.locator(`#layer-${id}`);
  if ((await control.evaluate(({ tagName }) => tagName)) === 'SELECT') await control.selectOption(value);
  else await control.fill(value);
  await page.waitForFunction((before) => Number(document.querySelector('#layer').dataset.runs) > Number(before), runs);
  return layerShown(page);
}

/** A page whose layer section has run with its initial controls. */
async function layerReady(lab) {
  const page = await onADesktop(lab);
  await page.evaluate(() => document.querySelector('#layer-form').reset());
  await setLayer(page, 'seed', '2');
  await setLayer(page, 'seed', '1');
  return page;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

async function theLayerFollowsItsControls(lab) {
  const page = await layerReady(lab);
  const plot = page.locator('#layer-plot');
  const before = await picture(plot, 'layer-8-experts');
  const first = await layerShown(page);
  assert.equal(first.load.length, 8);
  assert.equal(sum(first.load), 128 * 2);
  assert.deepEqual([sum(first.dropped), first.text.capacity], [0, 'no limit']);

  const four = await setLayer(page, 'experts', '4');
  assert.deepEqual([four.load.length, sum(four.load), four.state.experts], [4, 128 * 2, 4]);
  assert.ok(four.experts.every((expert) => expert >= 0 && expert < 4));
  const changed = difference(before, await picture(plot, 'layer-4-experts'));
  assert.ok(changed > 0.01, `the picture is the same with 4 experts: ${changed}`);

  const one = await setLayer(page, 'topk', '1');
  assert.deepEqual([sum(one.load), one.state.topK], [128, 1]);

  const tight = await setLayer(page, 'capacity', '0.5');
  assert.ok(tight.state.dropped > 0, `nothing dropped at a load of ${tight.load}`);
  assert.equal(sum(tight.dropped), tight.state.dropped);
  assert.ok(tight.text.dropped.startsWith(String(tight.state.dropped)), tight.text.dropped);
  assert.equal(tight.text.capacity, String(tight.state.capacity));

  const tokens = await setLayer(page, 'tokens', '256');
  assert.deepEqual([tokens.experts.length, sum(tokens.load)], [256, 256]);

  const codes = await setLayer(page, 'precision', 'fp8');
  assert.equal(codes.state.precision, 'fp8');
  assert.notEqual(codes.text.bytes, tokens.text.bytes);

  const others = await setLayer(page, 'seed', '7');
  assert.notDeepEqual(others.experts, codes.experts);
  for (const router of ['switch', 'hash', 'expert-choice']) {
    const shown = await setLayer(page, 'router', router);
    assert.equal(shown.state.router, router);
    assert.ok(sum(shown.load) > 0, router);
  }
  assert.equal((await page.locator('#layer').getAttribute('data-runs')) >= 9, true);
}

async function aTokenTellsItsExperts(lab) {
  const page = await layerReady(lab);
  await page.locator('#layer-tokens-details').evaluate((details) => (details.open = true));
  assert.equal(await page.locator('#layer-tokens-table tbody tr').count(), 128);
  await page.locator('#layer-token').fill('17');
  const slots = await page.locator('#layer-token-detail .slot').allTextContents();
  assert.equal(slots.length, 2, slots.join());
  const expert = await page.locator('#layer-plot [data-token="17"]').getAttribute('data-expert');
  assert.ok(slots[0].trim().startsWith(expert), `expected expert ${expert} first, got ${slots}`);
  const words = await page.locator('#layer-token').getAttribute('aria-valuetext');
  assert.match(words, new RegExp(`^Token 17: expert ${expert} `));
  const weights = slots.map((slot) => Number(slot.match(/0\.\d+|1\.0+/)[0]));
  assert.ok(Math.abs(sum(weights) - 1) < 0.002, `weights ${weights}`);
}

const stepsAtLeast = (page, steps) =>
  page.waitForFunction((count) => Number(document.querySelector('#train').dataset.steps) >= count, steps);

const trainState = (page) =>
  page.evaluate(() => ({
    state: document.querySelector('#train').dataset.trainState,
    steps: Number(document.querySelector('#train').dataset.steps),
    loss: Number(document.querySelector('#train-numbers dd[data-number="loss"]')?.textContent),
    line: document.querySelector('#train-loss path')?.getAttribute('d') ?? '',
    load: [...document.querySelectorAll('#train-load tbody tr')].length,
  }));

const trainIs = (page, state) =>
  page.waitForFunction((wanted) => document.querySelector('#train').dataset.trainState === wanted, state);

/** Runs in the page: whether the training's loss is below `limit`. */
function lossBelow(limit) {
  return Number(document.querySelector('#train-numbers dd[data-number="loss"]').textContent) < limit;
}

async function trainingLearnsPausesAndStartsOver(lab) {
  const page = await onADesktop(lab);
  const canvas = page.locator('#train-canvas');
  await page.locator('#train-reset').click();
  await page.waitForFunction(() => document.querySelector('#train').dataset.steps === '0');
  await page.locator('#train-step').click();
  await stepsAtLeast(page, 1);
  const first = await trainState(page);
  assert.equal(first.steps, 1);
  assert.ok(first.loss > 0.3, `loss ${first.loss} after one step`);
  const untrained = await picture(canvas, 'train-1');
  await page.locator('#train-start').click();
  await trainIs(page, 'running');
  await page.waitForFunction(lossBelow, 0.5 * first.loss);
  await page.locator('#train-start').click();
  await trainIs(page, 'paused');
  const paused = await trainState(page);
  lab.note(`loss ${first.loss} after 1 step, ${paused.loss} after ${paused.steps}`);
  assert.ok(paused.loss < 0.5 * first.loss, `expected less than half of ${first.loss}, got ${paused.loss}`);
  assert.ok(paused.line.length > first.line.length, 'the chart of the loss has not grown');
  assert.equal(paused.load, 4);
  const changed = difference(untrained, await picture(canvas, 'train-paused'));
  assert.ok(changed > 0.02, `the picture has not changed: ${changed}`);
  await page.waitForTimeout(700);
  assert.deepEqual(await trainState(page), paused, 'it went on although paused');
  await page.locator('#train-start').click();
  await stepsAtLeast(page, paused.steps + 5);
  await page.locator('#train-reset').click();
  await page.waitForFunction(() => document.querySelector('#train').dataset.steps === '0');
  assert.equal((await trainState(page)).state, 'idle');
}

async function trainingTakesItsSettings(lab) {
  const page = await onADesktop(lab);
  await page.locator('#train-experts').fill('6');
  await page.locator('#train-dataset').selectOption('checkerboard');
  await page.locator('#train-topk').selectOption('2');
  await page.locator('#train-step').click();
  await stepsAtLeast(page, 1);
  const six = await trainState(page);
  assert.equal(six.load, 6);
  const parameters = page.locator('#train-numbers dd[data-number="parameters"]');
  const many = await parameters.textContent();
  await page.locator('#train-experts').fill('3');
  await page.locator('#train-step').click();
  await page.waitForFunction(() => document.querySelectorAll('#train-load tbody tr').length === 3);
  assert.notEqual(await parameters.textContent(), many);
}

const benchIs = (page, state) =>
  page.waitForFunction((wanted) => document.querySelector('#bench').dataset.benchState === wanted, state);

async function benchmarksRun(lab) {
  const page = await onADesktop(lab);
  await page.locator('#bench-size').selectOption('256');
  await page.locator('#bench-repeats').selectOption('5');
  await page.locator('#bench-linear-512').uncheck();
  await page.locator('#bench-run').click();
  await benchIs(page, 'done');
  const { bench } = await page.evaluate(() => globalThis.moebiusDemo.state());
  lab.note(JSON.stringify(bench));
  const rows = await page
    .locator('#bench-table tbody tr')
    .evaluateAll((list) =>
      list.map((row) => ({ ...row.dataset, cells: [...row.cells].map((cell) => cell.textContent) })),
    );
  assert.deepEqual(
    rows.map(({ what, precision }) => `${what} ${precision}`),
    ['linear f32', 'linear fp8', 'moe f32', 'moe fp8'],
  );
  for (const { cells } of rows)
    assert.ok(
      cells.every((text) => text.length > 0),
      cells.join(' | '),
    );
  assert.equal(await page.locator('#bench-charts svg').count(), 2);
  await picture(page.locator('#bench'), 'bench');
  assert.ok(await page.locator('#bench-software').isVisible(), 'nothing says that this is a software adapter');
  assert.ok(await page.locator('#bench-copy').isEnabled());
}

async function benchmarksCanBeCancelled(lab) {
  const page = await onADesktop(lab);
  await page.locator('#bench-size').selectOption('512');
  await page.locator('#bench-repeats').selectOption('30');
  await page.locator('#bench-linear-512').check();
  await page.locator('#bench-run').click();
  await page.waitForFunction(() => document.querySelector('#bench-progress').value > 1);
  const start = performance.now();
  await page.locator('#bench-cancel').click();
  await benchIs(page, 'cancelled');
  const milliseconds = performance.now() - start;
  lab.note(`cancelled after ${milliseconds.toFixed(0)} ms`);
  assert.ok(milliseconds < 5000, `expected an end within 5 s, got ${milliseconds} ms`);
  await page.locator('#bench-size').selectOption('256');
  await page.locator('#bench-repeats').selectOption('5');
  await page.locator('#bench-linear-512').uncheck();
  await page.locator('#bench-moe').uncheck();
  await page.locator('#bench-run').click();
  await benchIs(page, 'done');
}

/**
 * Checks that the page's memory stays bounded: every change makes a layer on the device, and the one it replaces must
 * go.
 */
async function thePageHoldsNoMoreAndMore(lab) {
  const page = await layerReady(lab);
  const held = [];
  for (let round = 0; round < 6; round++) {
    for (const experts of ['4', '8']) await setLayer(page, 'experts', experts);
    await page.locator('#train-reset').click();
    await page.locator('#train-step').click();
    await stepsAtLeast(page, 1);
    held.push(await page.evaluate(() => globalThis.moebiusDemo.memory()));
  }
  lab.note(held.map(({ inUse, reserved }) => `${inUse} in use, ${reserved} reserved`).join('\n'));
  const settled = held[2];
  for (const { inUse, reserved } of held.slice(3)) {
    assert.ok(inUse <= settled.inUse, `expected at most ${settled.inUse} bytes in use, got ${inUse}`);
    assert.ok(reserved <= settled.reserved, `expected at most ${settled.reserved} bytes reserved, got ${reserved}`);
  }
}
