// Tests of wrong or impossible calls: the package always gives an error with a code, and the page stays usable.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { ROOT } from './lab.mjs';

export const tests = [
  withoutWebGpuItSaysSo,
  withoutAnAdapterItSaysSo,
  badOptionsAreRefused,
  sizesBeyondTheDeviceAreRefused,
  memoryThatRunsOutIsSaid,
  theReportDescribesTheDevice,
  theVersionIsTheWorkspaces,
];

/** Runs in a page: opens a device. */
async function openDevice() {
  const { ready, moebius, attempt } = globalThis.bench;
  await ready;
  const { value, ...rest } = await attempt(() => moebius.Device.open());
  return rest;
}

function assertNoWebGpu({ ok, name, code, message }) {
  assert.deepEqual({ ok, name, code }, { ok: false, name: 'MoebiusError', code: 'no-webgpu' }, message);
  assert.match(message, /WebGPU|adapter|navigator\.gpu/i);
}

async function withoutWebGpuItSaysSo(lab) {
  const hide = () => Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });
  const page = await lab.freshBench({ script: hide });
  assertNoWebGpu(await page.evaluate(openDevice));
  assertNoWebGpu(await page.evaluate(openDevice));
}

async function withoutAnAdapterItSaysSo(lab) {
  // The browser itself warns about the missing adapter.
  const page = await lab.freshBench({ own: { webgpu: false }, allow: [/No available adapters/] });
  assertNoWebGpu(await page.evaluate(openDevice));
}

/** Runs in a page: makes calls that must all be refused. The keys say what is wrong. */
async function badCalls() {
  const { device, moebius, normal, spirals, attempt } = globalThis.bench;
  const { MoeLayer, Fp8Linear, MoeTraining, attention, bench } = moebius;
  const opened = await device();
  const sizes = { hidden: 16, inter: 16, experts: 4 };
  const weights = () => ({ router: normal(1, 64), wIn: normal(2, 1024), wOut: normal(3, 1024) });
  const layer = (more, given) => () => new MoeLayer(opened, { ...sizes, ...more }, given);
  const linear =
    (more, weight = normal(1, 512), bias) =>
    () =>
      new Fp8Linear(opened, { inputs: 32, outputs: 16, ...more }, weight, bias);
  const { points, labels } = spirals(16);
  const training =
    (more, p = points, l = labels) =>
    () =>
      new MoeTraining(opened, { classes: 2, ...more }, p, l);
  const measure = (more) => () => bench(opened, { what: 'matmul', m: 8, n: 8, k: 8, repeats: 1, ...more });
  const attend =
    (more, [q, k, v] = [64, 32, 48].map((count) => normal(1, count))) =>
    () =>
      attention(opened, q, k, v, { heads: 2, kvHeads: 1, queries: 4, headDim: 8, valueDim: 12, ...more });
  const rule = (...rules) => attend({ rules });
  const good = { layer: layer()(), linear: linear()(), training: training()() };
  const calls = {
    'layer, hidden 0': layer({ hidden: 0 }),
    'layer, hidden -1': layer({ hidden: -1 }),
    'layer, hidden 1.5': layer({ hidden: 1.5 }),
    'layer, hidden "16"': layer({ hidden: '16' }),
    'layer, hidden NaN': layer({ hidden: NaN }),
    'layer, no hidden': layer({ hidden: undefined }),
    'layer, no experts': layer({ experts: 0 }),
    'layer, top-k 0': layer({ topK: 0 }),
    'layer, top-k beyond experts': layer({ topK: 5 }),
    'layer, unknown router': layer({ router: 'best' }),
    'layer, unknown activation': layer({ activation: 'step' }),
    'layer, unknown precision': layer({ precision: 'f8' }),
    'layer, unknown option': layer({ topk: 1 }),
    'layer, capacity factor -1': layer({ capacityFactor: -1 }),
    'layer, capacity factor NaN': layer({ capacityFactor: NaN }),
    'layer, options null': () => new MoeLayer(opened, null),
    'layer, no options': () => new MoeLayer(opened),
    'layer, router weights too short': layer({}, { ...weights(), router: normal(1, 63) }),
    'layer, wIn too long': layer({}, { ...weights(), wIn: normal(1, 1025) }),
    'layer, no wOut': layer({}, { router: normal(1, 64), wIn: normal(2, 1024) }),
    'layer, a bias that is not announced': layer({}, { ...weights(), bIn: normal(1, 64), bOut: normal(1, 64) }),
    'layer, wIn for a gate that is not there': layer({}, { ...weights(), wIn: normal(1, 2048) }),
    'forward, part of a token': () => good.layer.forward(normal(1, 17)),
    'linear, inputs 0': linear({ inputs: 0 }),
    'linear, unknown format': linear({ format: 'e3m4' }),
    'linear, unknown granularity': linear({ granularity: 'column' }),
    'linear, weight too short': linear({}, normal(1, 511)),
    'linear, bias too long': linear({}, normal(1, 512), normal(1, 17)),
    'linear forward, part of a row': () => good.linear.forward(normal(1, 33)),
    'training, one class': training({ classes: 0 }),
    'training, more labels than points': training({}, points.slice(2)),
    'training, half a point': training({}, points.slice(1)),
    'training, a label beyond the classes': training(
      {},
      points,
      labels.map((label, i) => (i === 3 ? 2 : label)),
    ),
    'training, no points': training({}, new Float32Array(0), new Uint32Array(0)),
    'training, learning rate NaN': training({ learningRate: NaN }),
    'predict, half a point': () => good.training.predict(normal(1, 3)),
    'attention, heads 0': attend({ heads: 0 }),
    'attention, no heads': attend({ heads: undefined }),
    'attention, no queries': attend({ queries: undefined }),
    'attention, headDim 8.5': attend({ headDim: 8.5 }),
    'attention, key heads that do not divide': attend({ heads: 3, kvHeads: 2 }),
    'attention, a head of 257': attend({ heads: 1, queries: 1, headDim: 257 }, [257, 257, 12].map((n) => normal(1, n))),
    'attention, q too short': attend({}, [63, 32, 48].map((n) => normal(1, n))),
    'attention, k too long': attend({}, [64, 33, 48].map((n) => normal(1, n))),
    'attention, v as an array': attend({}, [normal(1, 64), normal(1, 32), [1, 2, 3]]),
    'attention, scale NaN': attend({ scale: NaN }),
    'attention, scale beyond f32': attend({ scale: 1e39 }),
    'attention, unknown option': attend({ mask: [] }),
    'attention, rules that are no list': attend({ rules: 'causal' }),
    'attention, unknown rule': rule('acausal'),
    'attention, unknown rule with a number': rule({ span: 4 }),
    'attention, a rule without a property': rule({}),
    'attention, a rule that is a number': rule(4),
    'attention, two rules in one': rule({ window: 2, prefix: 1 }),
    'attention, a rule twice': rule({ window: 2 }, { window: 3 }),
    'attention, window 0': rule({ window: 0 }),
    'attention, window -1': rule({ window: -1 }),
    'attention, window without a number': rule('window'),
    'attention, softcap 0': rule({ softcap: 0 }),
    'attention, softcap NaN': rule({ softcap: NaN }),
    'attention, half a global': rule({ global: { tokens: 1 } }),
    'attention, a signal that is none': attend({ signal: {} }),
    'bench, unknown': measure({ what: 'sort' }),
    'bench, m 0': measure({ m: 0 }),
    'bench, repeats 0': measure({ repeats: 0 }),
    'bench, unknown precision': measure({ precision: 'int4' }),
    'bench, attention in FP8': () => bench(opened, { what: 'attention', precision: 'fp8' }),
    'bench, attention of a head of 300': () => bench(opened, { what: 'attention', headDim: 300 }),
  };
  const results = {};
  for (const [what, call] of Object.entries(calls)) {
    const { value, ...rest } = await attempt(call);
    results[what] = rest;
  }
  const after = (await good.layer.forward(normal(1, 32))).y.length;
  return { results, after };
}

async function badOptionsAreRefused(lab) {
  const page = await lab.bench();
  const { results, after } = await page.evaluate(badCalls);
  const wrong = Object.entries(results)
    .filter(([, { ok, name, code }]) => ok || name !== 'MoebiusError' || code !== 'shape')
    .map(([what, { ok, name, code, message }]) => `${what}: ${ok ? 'no error' : `${name} ${code}: ${message}`}`);
  assert.deepEqual(wrong, [], "expected a MoebiusError with code 'shape' for each");
  assert.equal(after, 32);
  lab.note(`${Object.keys(results).length} calls refused, such as: ${results['layer, top-k beyond experts'].message}`);
}

/** Runs in a page: makes calls whose tensors no device here can hold. */
async function hugeCalls() {
  const { device, moebius, normal, attempt } = globalThis.bench;
  const { MoeLayer, attention, bench } = moebius;
  const opened = await device();
  const one = new Float32Array(1);
  const wide = { heads: 1, queries: 4194304, keys: 1, headDim: 1, valueDim: 256 };
  const run = (options) => async () => {
    const layer = new MoeLayer(opened, options);
    return (await layer.forward(normal(1, options.hidden))).y.length;
  };
  const results = {
    'a layer of 2^50 weights': await attempt(run({ hidden: 65536, inter: 1048576, experts: 16384 })),
    'sizes whose product overflows': await attempt(run({ hidden: 4294967295, inter: 4294967295, experts: 4294967295 })),
    'an output of 2^30 numbers': await attempt(() =>
      attention(opened, new Float32Array(wide.queries), one, new Float32Array(wide.valueDim), wide),
    ),
    'attention whose sizes overflow': await attempt(() =>
      attention(opened, one, one, one, { heads: 4294967295, queries: 4294967295, headDim: 1 }),
    ),
    'a product of 2^40 elements': await attempt(() =>
      bench(opened, { what: 'matmul', m: 1048576, n: 1048576, k: 8, repeats: 1 }),
    ),
  };
  const after = await attempt(run({ hidden: 16, inter: 16, experts: 2 }));
  return { results, after };
}

async function sizesBeyondTheDeviceAreRefused(lab) {
  const page = await lab.bench();
  const { results, after } = await page.evaluate(hugeCalls);
  for (const [what, { ok, name, code, message }] of Object.entries(results)) {
    assert.ok(!ok && name === 'MoebiusError', `${what}: ${ok ? 'no error' : `${name}: ${message}`}`);
    assert.ok(['shape', 'unsupported', 'out-of-memory'].includes(code), `${what}: ${code}: ${message}`);
  }
  assert.equal(after.value, 16, `a small layer afterwards: ${after.code}: ${after.message}`);
}

/** Runs in a page, before its scripts: buffers from 64 MiB on fail as in a browser that is out of memory. */
function exhaust() {
  const create = GPUDevice.prototype.createBuffer;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const tell = (error) =>
      this.dispatchEvent(new GPUUncapturedErrorEvent('uncapturederror', { error, cancelable: true }));
    if (descriptor.size >= 64 << 20) {
      tell(new GPUOutOfMemoryError('no memory left'));
      setTimeout(() => tell(new GPUValidationError('a buffer is invalid due to a previous error')), 30);
    }
    return create.call(this, descriptor);
  };
}

async function memoryThatRunsOutIsSaid(lab) {
  const page = await lab.freshBench({ script: exhaust });
  const { large, small } = await page.evaluate(async () => {
    const { ready, moebius, attempt } = globalThis.bench;
    await ready;
    const device = await moebius.Device.open();
    const run = (size) => () =>
      moebius.bench(device, { what: 'linear', m: 1, n: size, k: size, repeats: 1 }).then(({ what }) => what);
    return { large: await attempt(run(4096)), small: await attempt(run(64)) };
  });
  const { ok, name, code, message } = large;
  assert.deepEqual({ ok, name, code }, { ok: false, name: 'MoebiusError', code: 'out-of-memory' }, message);
  assert.equal(small.value, 'linear', `what follows of it is told with it: ${small.code}: ${small.message}`);
}

/** Runs in a page: returns the device's report as data, and what WebGPU itself says. */
async function reportAndAdapter() {
  const opened = await globalThis.bench.device();
  const { report } = opened;
  const adapter = await navigator.gpu.requestAdapter();
  return {
    report: JSON.parse(JSON.stringify(report)),
    info: { vendor: adapter.info.vendor, architecture: adapter.info.architecture },
    limits: {
      bindings: adapter.limits.maxStorageBuffersPerShaderStage,
      units: adapter.limits.maxComputeInvocationsPerWorkgroup,
    },
    f16: adapter.features.has('shader-f16'),
    swiftshader: adapter.info.architecture === 'swiftshader',
  };
}

async function theReportDescribesTheDevice(lab) {
  const page = await lab.bench();
  const { report, info, limits, f16, swiftshader } = await page.evaluate(reportAndAdapter);
  lab.note(JSON.stringify(report));
  assert.equal(report.vendor, info.vendor);
  assert.equal(report.architecture, info.architecture);
  assert.equal(report.software, swiftshader);
  if (swiftshader) assert.equal(report.kind, 'software adapter');
  assert.ok(report.name.length > 0);
  assert.equal(report.f16, f16);
  // A kernel needs one binding for the sizes of its other bindings.
  assert.ok([limits.bindings, limits.bindings - 1].includes(report.limits.maxBindings), `${report.limits.maxBindings}`);
  assert.equal(report.limits.maxUnitsPerCube, limits.units);
  // Software adapters alone bound the rounds of a loop.
  const { loopRounds, ...bounds } = report.limits;
  assert.ok(loopRounds === null || loopRounds > 0, `loopRounds is ${loopRounds}`);
  for (const [limit, value] of Object.entries(bounds)) assert.ok(value > 0, `${limit} is ${value}`);
  assert.ok(report.runs.length > 2, `what runs: ${JSON.stringify(report.runs)}`);
  for (const { what, kernel, reason } of report.runs) {
    assert.ok(
      what.length > 0 && (kernel === null) !== (reason === null),
      `${what}: kernel ${kernel}, reason ${reason}`,
    );
  }
  assert.ok(
    report.runs.some(({ kernel }) => kernel !== null),
    'nothing runs here',
  );
}

async function theVersionIsTheWorkspaces(lab) {
  const page = await lab.bench();
  const [, version] = fs.readFileSync(path.join(ROOT, 'Cargo.toml'), 'utf8').match(/^version = "(.*)"$/m);
  const got = await page.evaluate(async () => {
    await globalThis.bench.ready;
    return globalThis.bench.moebius.version();
  });
  assert.equal(got, version);
}
