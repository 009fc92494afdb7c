// Tests of devices and objects that go away: memory is freed, later calls are refused, and a lost device is noticed.
import assert from 'node:assert/strict';

import { crashTheGpu } from './chromium.mjs';

export const tests = [
  forwardPassesDoNotAddUp,
  freedObjectsGiveTheirMemoryBack,
  callsOnWhatIsGoneAreRefused,
  freeingDuringACallIsSafe,
  destroyingADeviceEndsItsWork,
  aCrashOfTheGpuProcessIsNoticed,
];
export const long = [aDeviceTakenAwayIsNoticed, devicesDoNotAddUp];

/**
 * Runs in a page or worker: forward passes of a layer; returns the memory of the device and of the module in between.
 */
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

/** Runs in a page: makes, uses and frees layers of all kinds; returns the memory held after each round. */
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

/** Runs in a page: calls on disposed and on freed objects. */
async function callsAfterDisposal() {
  const { device, moebius, normal, spirals, attempt } = globalThis.bench;
  const opened = await device();
  const { points, labels } = spirals(16);
  const layer = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  const linear = new moebius.Fp8Linear(opened, { inputs: 32, outputs: 16 }, normal(1, 512));
  const training = new moebius.MoeTraining(opened, { classes: 2 }, points, labels);
  const calls = {
    layer: () => layer.forward(normal(1, 16)),
    linear: () => linear.forward(normal(1, 32)),
    step: () => training.step(1),
    predict: () => training.predict(points),
  };
  const tried = async () => {
    const results = {};
    for (const [name, call] of Object.entries(calls)) results[name] = await attempt(call);
    return results;
  };
  for (const object of [layer, linear, training]) object.dispose();
  const disposed = { ...(await tried()), 'dispose again': await attempt(() => layer.dispose()) };
  for (const object of [layer, linear, training]) object.free();
  const freed = await tried();
  const other = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  return { disposed, freed, after: (await other.forward(normal(1, 16))).y.length };
}

async function callsOnWhatIsGoneAreRefused(lab) {
  const page = await lab.bench();
  const { disposed, freed, after } = await page.evaluate(callsAfterDisposal);
  const { 'dispose again': again, ...calls } = disposed;
  assert.ok(again.ok, `dispose again: ${again.message}`);
  for (const [call, { ok, name, code, message }] of Object.entries(calls)) {
    assert.deepEqual({ ok, name, code }, { ok: false, name: 'MoebiusError', code: 'disposed' }, `${call}: ${message}`);
  }
  // After free(), no object is left to answer; the bindings throw their own error.
  for (const [call, { ok, name }] of Object.entries(freed)) {
    assert.ok(!ok && name !== 'RuntimeError', `${call}: ${name}`);
  }
  assert.equal(after, 16);
}

/** Runs in a page: frees objects while their calls are in progress. */
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

/** Checks that a call succeeds or reports that its object is gone, and never crashes the module. */
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

/** Runs in a page: loses a device with work in progress; returns how every call and promise ends. */
async function loseWhileBusy(how) {
  const { ready, moebius, normal, spirals, attempt, bytes } = globalThis.bench;
  await ready;
  const device = await moebius.Device.open();
  const { points, labels } = spirals(256);
  const layer = new moebius.MoeLayer(device, { hidden: 64, inter: 128, experts: 8 });
  const training = new moebius.MoeTraining(device, { classes: 2 }, points, labels);
  await layer.forward(normal(1, 64 * 16));
  const failure = async (call) => {
    const { value, ...rest } = await attempt(call);
    return rest;
  };
  const matmul = { what: 'matmul', m: 256, n: 256, k: 256, repeats: 10_000 };
  const pending = {
    forward: failure(() => layer.forward(normal(1, 64 * 512))),
    step: failure(() => training.step(100_000)),
    bench: failure(() => moebius.bench(device, matmul)),
  };
  const ended = new Set();
  for (const [call, promise] of Object.entries(pending)) promise.then(() => ended.add(call));
  await new Promise((later) => setTimeout(later, 100));
  const underWay = Object.keys(pending).filter((call) => !ended.has(call));
  const ways = {
    destroy: () => device.destroy(),
    takeAway: () => globalThis.gpuDevices.at(-1).destroy(),
    crash: () => globalThis.crashTheGpu(),
  };
  await ways[how]();
  const none = (end) => setTimeout(end, 30_000, { ok: true, message: 'nothing after 30 s' });
  const soon = (promise) => Promise.race([promise, new Promise(none)]);
  const loss = await soon(device.lost);
  const failures = {};
  for (const call of underWay) failures[`pending ${call}`] = await soon(pending[call]);
  const file = await bytes('/all-cases/balance_losses.safetensors');
  const later = {
    forward: () => layer.forward(normal(1, 64)),
    step: () => training.step(1),
    verify: () => device.verify(file),
    memory: () => device.memory(),
    'new layer': () => new moebius.MoeLayer(device, { hidden: 16, inter: 16, experts: 2 }),
  };
  for (const [call, work] of Object.entries(later)) failures[`later ${call}`] = await soon(failure(work));
  for (const object of [layer, training, device]) object.free();
  return { loss, failures };
}

/**
 * Runs in a page: opens a new device and uses it. After a crash, the browser may take a moment until it has an adapter
 * again.
 */
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
  const { verdict } = await device.verify(await bytes('/all-cases/balance_losses.safetensors'));
  const layer = new moebius.MoeLayer(device, { hidden: 16, inter: 16, experts: 2 });
  const { y } = await layer.forward(normal(1, 16));
  return { ok: true, verdict, length: y.length };
}

/**
 * Checks that all calls end when a device is lost. @param {'destroy' | 'takeAway' | 'crash'} how
 * @param {string[]} reasons that the browser may give
 */
async function assertLossIsHandled(page, how, reasons) {
  const { loss, failures } = await page.evaluate(loseWhileBusy, how);
  assert.ok(reasons.includes(loss.reason), `expected a loss with reason ${reasons}, got ${JSON.stringify(loss)}`);
  assert.equal(typeof loss.message, 'string');
  assert.ok('pending step' in failures && 'pending bench' in failures, `failures of ${Object.keys(failures)}`);
  for (const [call, { ok, name, code, message }] of Object.entries(failures)) {
    // One pass may still finish, since a crash takes a moment; the other calls would go on for minutes.
    if (ok && call === 'pending forward') continue;
    const fine = !ok && name === 'MoebiusError' && ['device-lost', 'disposed'].includes(code);
    assert.ok(fine, `${call}: expected 'device-lost' or 'disposed', got ${name} ${code}: ${message}`);
  }
  assert.deepEqual(await page.evaluate(reopen), { ok: true, verdict: 'pass', length: 16 });
}

async function destroyingADeviceEndsItsWork(lab) {
  await assertLossIsHandled(await lab.bench(), 'destroy', ['destroyed']);
}

/** Runs in a page, before its scripts: keeps every GPUDevice, so that a test can destroy one without the package. */
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
  const page = await lab.freshBench({ script: keepDevices, allow: [/destroyed|device.*lost/i] });
  await assertLossIsHandled(page, 'takeAway', ['destroyed', 'unknown']);
}

async function aCrashOfTheGpuProcessIsNoticed(lab) {
  // The test has its own browser, since the GPU process serves all pages. The browser warns about the lost instance.
  const page = await lab.freshBench({ own: {}, allow: [/external Instance reference/] });
  await page.exposeFunction('crashTheGpu', () => crashTheGpu(page));
  await assertLossIsHandled(page, 'crash', ['unknown']);
}

/** Runs in a page: opens, uses and destroys more devices than a browser would hold at a time. */
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
  const open = (device) => Promise.race([device.lost.then(() => 0), new Promise((end) => setTimeout(end, 1000, 1))]);
  const stillOpen = await Promise.all(globalThis.gpuDevices.map(open));
  return { module, opened: stillOpen.length, stillOpen: stillOpen.reduce((a, b) => a + b) };
}

/** Largest growth of the module's memory per device, of which CubeCL keeps a little; nothing stays on the GPU. */
const MODULE_BYTES_OF_A_DEVICE = 384 * 1024;

async function devicesDoNotAddUp(lab) {
  const page = await lab.freshBench({ script: keepDevices });
  const { module, opened, stillOpen } = await page.evaluate(openMany, 12);
  assert.ok(opened >= 12, `${opened} devices were opened`);
  assert.equal(stillOpen, 0, 'devices that were never given back');
  const each = (module.at(-1) - module[3]) / 8;
  lab.note(`${each} bytes of the module stay for each device`);
  assert.ok(each <= MODULE_BYTES_OF_A_DEVICE, `expected at most ${MODULE_BYTES_OF_A_DEVICE} bytes, got ${each}`);
}
