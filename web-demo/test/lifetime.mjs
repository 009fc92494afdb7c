// Devices and objects that go away: memory that comes back, calls on what is gone, a device that is lost.
import assert from 'node:assert/strict';

import { crashTheGpu } from './chromium.mjs';

export const tests = [
  forwardPassesDoNotAddUp,
  freedObjectsGiveTheirMemoryBack,
  calledAfterFreeItSaysSo,
  freeingDuringACallIsSafe,
  destroyingADeviceEndsItsWork,
  aDeviceTakenAwayIsNoticed,
  aCrashOfTheGpuProcessIsNoticed,
  devicesDoNotAddUp,
];

/** Runs in a page or worker: forward passes of a layer, with what the device and the module hold in between. */
async function passes({ count, every }) {
  const { device, moebius, normal, ready } = globalThis.bench;
  const opened = await device();
  const { memory } = await ready;
  const layer = new moebius.MoeLayer(opened, {
    hidden: 64,
    inter: 128,
    experts: 8,
    topK: 2,
    seed: 1,
    capacityFactor: 1,
  });
  const x = normal(1, 128 * 64);
  const held = [];
  for (let i = 0; i <= count; i++) {
    if (i % every === 0) held.push({ ...(await opened.memory()), module: memory.buffer.byteLength });
    await layer.forward(x);
  }
  layer.free();
  return held;
}

async function forwardPassesDoNotAddUp(lab) {
  const worker = await lab.benchInWorker();
  const held = await worker.evaluate(passes, { count: 200, every: 20 });
  lab.note(
    held.map(({ inUse, reserved, module }) => `${inUse} in use, ${reserved} reserved, module ${module}`).join('\n'),
  );
  const [, settled, ...later] = held;
  assert.equal(later.length, 9);
  assert.ok(settled.inUse > 0 && settled.reserved >= settled.inUse, JSON.stringify(settled));
  for (const { inUse, reserved, module } of later) {
    assert.ok(inUse <= settled.inUse, `expected at most ${settled.inUse} bytes in use, got ${inUse}`);
    assert.ok(reserved <= settled.reserved, `expected at most ${settled.reserved} bytes reserved, got ${reserved}`);
    assert.ok(module <= settled.module, `expected at most ${settled.module} bytes of the module, got ${module}`);
  }
}

/** Runs in a page: layers of all kinds made, used and freed, and what is held after each round. */
async function rounds(count) {
  const { device, moebius, normal, spirals } = globalThis.bench;
  const opened = await device();
  const { points, labels } = spirals(32);
  const weight = normal(1, 256 * 64);
  const held = [];
  for (let i = 0; i < count; i++) {
    const layer = new moebius.MoeLayer(opened, { hidden: 64, inter: 128, experts: 8, seed: i });
    const codes = new moebius.MoeLayer(opened, { hidden: 64, inter: 128, experts: 8, seed: i, precision: 'fp8' });
    const linear = new moebius.Fp8Linear(opened, { inputs: 256, outputs: 64 }, weight);
    const training = new moebius.MoeTraining(opened, { classes: 2, seed: i }, points, labels);
    await layer.forward(normal(i, 64 * 8));
    await codes.forward(normal(i, 64 * 8));
    await linear.forward(normal(i, 256 * 4));
    await training.step(2);
    for (const object of [layer, codes, linear, training]) object.free();
    held.push(await opened.memory());
  }
  return held;
}

async function freedObjectsGiveTheirMemoryBack(lab) {
  const page = await lab.bench();
  const held = await page.evaluate(rounds, 10);
  lab.note(held.map(({ inUse, reserved }) => `${inUse} in use, ${reserved} reserved`).join('\n'));
  const settled = held[3];
  for (const { inUse, reserved } of held.slice(4)) {
    assert.ok(inUse <= settled.inUse, `expected at most ${settled.inUse} bytes in use, got ${inUse}`);
    assert.ok(reserved <= settled.reserved, `expected at most ${settled.reserved} bytes reserved, got ${reserved}`);
  }
}

/** Runs in a page. */
async function callsAfterFree() {
  const { device, moebius, normal, spirals, attempt } = globalThis.bench;
  const opened = await device();
  const { points, labels } = spirals(16);
  const layer = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  const linear = new moebius.Fp8Linear(opened, { inputs: 32, outputs: 16 }, normal(1, 512));
  const training = new moebius.MoeTraining(opened, { classes: 2 }, points, labels);
  for (const object of [layer, linear, training]) object.free();
  const results = {
    layer: await attempt(() => layer.forward(normal(1, 16))),
    linear: await attempt(() => linear.forward(normal(1, 32))),
    step: await attempt(() => training.step(1)),
    predict: await attempt(() => training.predict(points)),
    'free again': await attempt(() => layer.free()),
  };
  const other = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  return { results, after: (await other.forward(normal(1, 16))).y.length };
}

async function calledAfterFreeItSaysSo(lab) {
  const page = await lab.bench();
  const { results, after } = await page.evaluate(callsAfterFree);
  const { 'free again': again, ...calls } = results;
  for (const [call, { ok, name, code, message }] of Object.entries(calls)) {
    assert.deepEqual({ ok, name, code }, { ok: false, name: 'MoebiusError', code: 'disposed' }, `${call}: ${message}`);
  }
  assert.ok(again.ok || again.code === 'disposed', `free again: ${again.message}`);
  assert.equal(after, 16);
}

/** Runs in a page: an object freed while its call is under way. */
async function freeDuringCalls() {
  const { device, moebius, normal, spirals, attempt } = globalThis.bench;
  const opened = await device();
  const { points, labels } = spirals(64);
  const layer = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  const training = new moebius.MoeTraining(opened, { classes: 2 }, points, labels);
  const calls = [layer.forward(normal(1, 160)), training.step(20), training.predict(points)];
  const freed = [await attempt(() => layer.free()), await attempt(() => training.free())];
  const results = await Promise.all(calls.map((call) => attempt(async () => Boolean(await call))));
  const other = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  return { freed, results, after: (await other.forward(normal(1, 16))).y.length };
}

/** A call either ends well or says that its object is gone; never a crash of the module. */
async function freeingDuringACallIsSafe(lab) {
  const page = await lab.bench();
  const { freed, results, after } = await page.evaluate(freeDuringCalls);
  for (const { ok, name, code, message } of [...freed, ...results]) {
    assert.ok(
      ok || (name === 'MoebiusError' && ['disposed', 'cancelled'].includes(code)),
      `${name} ${code}: ${message}`,
    );
  }
  assert.equal(after, 16);
}

/** In a page: work under way, `lose` called, and everything anyone hears of it. Then a second device. */
const LOSS = `async (lose) => {
  const { ready, moebius, normal, spirals, attempt, bytes } = globalThis.bench;
  await ready;
  const opened = await moebius.Device.open();
  const { points, labels } = spirals(256);
  const layer = new moebius.MoeLayer(opened, { hidden: 64, inter: 128, experts: 8 });
  const training = new moebius.MoeTraining(opened, { classes: 2 }, points, labels);
  await layer.forward(normal(1, 64 * 16));
  await training.step(1);
  const plain = async (call) => { const { value, ...rest } = await attempt(() => call); return rest; };
  const pending = {
    step: plain(training.step(100000)),
    forward: plain(layer.forward(normal(1, 64 * 512))),
    bench: plain(moebius.bench(opened, { what: 'matmul', m: 256, n: 256, k: 256, repeats: 10000 })),
  };
  await new Promise((later) => setTimeout(later, 100));
  await lose(opened);
  const none = (end) => setTimeout(end, 20000, 'nothing after 20 s');
  const soon = (promise) => Promise.race([promise, new Promise(none)]);
  const loss = await soon(opened.lost);
  const during = {};
  for (const [call, promise] of Object.entries(pending)) during[call] = await soon(promise);
  const later = {
    forward: await plain(layer.forward(normal(1, 64))),
    step: await plain(training.step(1)),
    verify: await plain(opened.verify(await bytes('/all-cases/balance_losses.safetensors'))),
    memory: await plain(opened.memory()),
    'new layer': await plain((async () => new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 }))()),
  };
  for (const object of [layer, training, opened]) object.free();
  return { loss, during, later };
}`;

/** In a page: a new device at work. After a crash the browser may need a moment until it has an adapter again. */
async function reopen() {
  const { moebius, attempt, bytes, normal } = globalThis.bench;
  let opened;
  for (let tries = 0; tries < 50; tries++) {
    opened = await attempt(() => moebius.Device.open());
    if (opened.ok || opened.code !== 'no-webgpu') break;
    await new Promise((later) => setTimeout(later, 200));
  }
  if (!opened.ok) return opened;
  const device = opened.value;
  const { verdict } = await device.verify(await bytes('/all-cases/moe_layer_relu.safetensors'));
  const layer = new moebius.MoeLayer(device, { hidden: 16, inter: 16, experts: 2 });
  const { y } = await layer.forward(normal(1, 16));
  return { ok: true, verdict, length: y.length };
}

/** @param {string} lose source of a function of the device */
async function assertLossIsHandled(page, lose, reasons) {
  const { loss, during, later } = await page.evaluate(`(${LOSS})(${lose})`);
  assert.ok(reasons.includes(loss.reason), `expected a loss with reason ${reasons}, got ${JSON.stringify(loss)}`);
  assert.equal(typeof loss.message, 'string');
  for (const [call, { ok, name, code, message }] of Object.entries({ ...during, ...later })) {
    const fine = !ok && name === 'MoebiusError' && ['device-lost', 'disposed'].includes(code);
    assert.ok(
      fine,
      `${call}: expected 'device-lost' or 'disposed', got ${ok ? 'no error' : `${name} ${code}: ${message}`}`,
    );
  }
  assert.deepEqual(await page.evaluate(reopen), { ok: true, verdict: 'pass', length: 16 });
}

async function destroyingADeviceEndsItsWork(lab) {
  const page = await lab.bench();
  await assertLossIsHandled(page, '(device) => device.destroy()', ['destroyed']);
}

/** Keeps every GPUDevice, so that a test can end one behind the package's back. */
function keepDevices() {
  const { requestDevice } = GPUAdapter.prototype;
  globalThis.gpuDevices = [];
  GPUAdapter.prototype.requestDevice = async function (...options) {
    const device = await requestDevice.apply(this, options);
    globalThis.gpuDevices.push(device);
    return device;
  };
}

async function aDeviceTakenAwayIsNoticed(lab) {
  const page = await lab.bench({ script: keepDevices, allow: [/destroyed|device.*lost/i] });
  await assertLossIsHandled(page, '() => globalThis.gpuDevices.at(-1).destroy()', ['destroyed', 'unknown']);
}

async function aCrashOfTheGpuProcessIsNoticed(lab) {
  // In a browser of its own: the process serves all pages. The browser warns of the instance that went with it.
  const page = await lab.bench({ own: {}, allow: [/external Instance reference/] });
  await page.exposeFunction('crashTheGpu', () => crashTheGpu(page));
  await assertLossIsHandled(page, '() => globalThis.crashTheGpu()', ['unknown']);
}

/** Runs in a page: devices opened, used and destroyed, more than a browser would hold at a time. */
async function openMany(count) {
  const { ready, moebius, normal } = globalThis.bench;
  const { memory } = await ready;
  const module = [];
  for (let i = 0; i < count; i++) {
    const device = await moebius.Device.open();
    const layer = new moebius.MoeLayer(device, { hidden: 64, inter: 64, experts: 4 });
    await layer.forward(normal(i, 64));
    layer.free();
    device.destroy();
    await device.lost;
    device.free();
    module.push(memory.buffer.byteLength);
  }
  return module;
}

async function devicesDoNotAddUp(lab) {
  const page = await lab.bench({ script: keepDevices });
  const module = await page.evaluate(openMany, 12);
  assert.ok(module.at(-1) <= module[3], `bytes of the module: ${module}`);
}
