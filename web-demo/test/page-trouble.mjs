// Tests of the page in trouble: it says what is wrong and stays as usable as it can.
import assert from 'node:assert/strict';

import { crashTheGpu } from './chromium.mjs';
import { picture } from './pictures.mjs';
import { withFlippedBit } from './safetensors.mjs';

export const tests = [
  aWrongCaseStopsThePage,
  aCaseThatIsMissingStopsThePage,
  checkingAgainNoticesAChange,
  wrongGradientsStopTheTraining,
  withoutWebGpuThePageSaysSo,
  aModuleThatIsMissingIsToldOf,
  aLostDeviceCanBeOpenedAgain,
  aCrashOfTheGpuProcessIsSurvived,
  aWorkerThatDiesIsReplaced,
];
export const long = [aDeviceCanBeLostAgain];

const stateIs = (page, state) =>
  page.waitForFunction((wanted) => document.documentElement.dataset.state === wanted, state);

const gates = (page) =>
  page.locator('fieldset.gate').evaluateAll((list) => list.map(({ disabled }) => (disabled ? 'off' : 'on')));

const OFF = ['off', 'off', 'off', 'off', 'off'];
const ON = ['on', 'on', 'on', 'on', 'on'];

const CASE = 'cases/balance_losses.safetensors';

/** Checks that nothing has been computed for the sections behind the self-check. */
async function assertNothingRan(page) {
  assert.deepEqual(await gates(page), OFF);
  const { layer, bench, training, tuning } = await page.evaluate(() => globalThis.moebiusDemo.state());
  assert.deepEqual([layer, bench, training, tuning], [null, null, null, null]);
  assert.equal(await page.locator('#layer').getAttribute('data-runs'), '0');
  assert.equal(await page.evaluate(() => performance.getEntriesByName('moebius-ready').length), 0);
}

async function aWrongCaseStopsThePage(lab) {
  lab.replace(CASE, withFlippedBit(lab.siteFile(CASE), 'out.z'));
  const page = await lab.demo({ state: 'failed' });
  await assertNothingRan(page);
  assert.match(await page.locator('#check-alert').textContent(), /balance_losses/);
  assert.equal(await page.locator('#check-table tr[data-verdict="fail"]').count(), 1);
  await picture(page, 'failed');
  await page.locator('#go-on').click();
  assert.deepEqual(await gates(page), ON);
  assert.ok(await page.locator('#accepted-banner').isVisible());
  await page.waitForFunction(() => Number(document.querySelector('#layer').dataset.runs) > 0);
  const { state, accepted } = await page.evaluate(() => globalThis.moebiusDemo.state());
  assert.deepEqual([state, accepted], ['failed', true]);
}

async function aCaseThatIsMissingStopsThePage(lab) {
  lab.replace(CASE, null);
  const page = await lab.demo({ state: 'failed', allow: [/404/] });
  await assertNothingRan(page);
  assert.match(await page.locator('#check-alert').textContent(), /balance_losses/);
  assert.equal(await page.locator('#check-table tr[data-verdict="error"]').count(), 1);
}

async function checkingAgainNoticesAChange(lab) {
  const page = await lab.demo();
  lab.replace(CASE, withFlippedBit(lab.siteFile(CASE), 'out.z'));
  await page.locator('#check-again').click();
  await stateIs(page, 'failed');
  assert.deepEqual(await gates(page), OFF);
  lab.replace(CASE, lab.siteFile(CASE));
  await page.locator('#check-again').click();
  await stateIs(page, 'ready');
  assert.deepEqual(await gates(page), ON);
  assert.ok(await page.locator('#check-failed').isHidden());
}

async function wrongGradientsStopTheTraining(lab) {
  const file = 'cases/moe_layer_backward_unbiased.safetensors';
  lab.replace(file, withFlippedBit(lab.siteFile(file), 'out.d_x'));
  const page = await lab.demo();
  const status = page.locator('#train-status');
  await page.locator('#train-step').click();
  await page.waitForFunction(() => document.querySelector('#train').dataset.trainState === 'paused');
  assert.match(await status.textContent(), /gradients are wrong on this device: moe_layer_backward_unbiased: d_x/);
  assert.equal(await page.locator('#train').getAttribute('data-steps'), '0');
  lab.replace(file, lab.siteFile(file));
  await page.locator('#train-step').click();
  await page.waitForFunction(() => document.querySelector('#train').dataset.steps === '1');
}

async function withoutWebGpuThePageSaysSo(lab) {
  const page = await lab.demo({ state: 'unsupported', own: { webgpu: false }, allow: [/No available adapters/] });
  await assertNothingRan(page);
  assert.match(await page.locator('#unsupported').textContent(), /WebGPU/);
  await picture(page, 'unsupported');
}

async function aModuleThatIsMissingIsToldOf(lab) {
  lab.replace('moebius/moebius_bg.wasm', null);
  const page = await lab.demo({ state: 'lost', allow: [/404/] });
  await assertNothingRan(page);
  assert.ok((await page.locator('#loss-message').textContent()).length > 20);
  lab.replace('moebius/moebius_bg.wasm', undefined);
  await page.locator('#reopen').click();
  await stateIs(page, 'ready');
}

/** Checks that the page reports a lost device, opens it again, and then works as before. */
async function assertRecovers(page) {
  await stateIs(page, 'lost');
  assert.deepEqual(await gates(page), OFF);
  assert.ok(await page.locator('#loss-banner').isVisible());
  assert.ok((await page.locator('#loss-message').textContent()).length > 20);
  const runs = Number(await page.locator('#layer').getAttribute('data-runs'));
  await page.locator('#reopen').click();
  await stateIs(page, 'ready');
  assert.deepEqual(await gates(page), ON);
  assert.ok(await page.locator('#loss-banner').isHidden());
  await page.waitForFunction((before) => Number(document.querySelector('#layer').dataset.runs) > before, runs);
}

/** A page with a benchmark in progress. */
async function busy(lab, options) {
  const page = await lab.demo(options);
  await page.locator('#bench-repeats').selectOption('30');
  await page.locator('#bench-run').click();
  await page.waitForFunction(() => document.querySelector('#bench-progress').value > 0);
  return page;
}

async function aLostDeviceCanBeOpenedAgain(lab) {
  await assertLossesAreSurvived(lab, 1);
}

async function aDeviceCanBeLostAgain(lab) {
  await assertLossesAreSurvived(lab, 2);
}

/** Checks that the page survives `times` losses of the device during a training. */
async function assertLossesAreSurvived(lab, times) {
  const page = await lab.demo();
  await page.locator('#train-start').click();
  await page.waitForFunction(() => Number(document.querySelector('#train').dataset.steps) >= 3);
  for (let time = 0; time < times; time++) {
    await page.evaluate(() => globalThis.moebiusDemo.loseDevice());
    await stateIs(page, 'lost');
    if (time === 0) await picture(page, 'lost');
    await assertRecovers(page);
    assert.equal(
      await page.locator('#train').getAttribute('data-steps'),
      '0',
      'a training goes on without its weights',
    );
  }
  await page.locator('#train-step').click();
  await page.waitForFunction(() => document.querySelector('#train').dataset.steps === '1');
}

async function aCrashOfTheGpuProcessIsSurvived(lab) {
  const page = await busy(lab, { own: {}, allow: [/external Instance reference/] });
  await crashTheGpu(page);
  await assertRecovers(page);
}

async function aWorkerThatDiesIsReplaced(lab) {
  const page = await busy(lab, { allow: [/thrown on request/] });
  await page.evaluate(() => globalThis.moebiusDemo.breakWorker());
  await assertRecovers(page);
}
