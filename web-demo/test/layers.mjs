// Tests of the layers: against formulas in f64, against a native run, and FP8 weights against f32.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { CASES, NATIVE } from './lab.mjs';
import { moeLayer, relativeError } from './reference.mjs';
import { build, f32, parse } from './safetensors.mjs';

export const tests = [
  theLayerIsItsFormula,
  theRouterReportsWhatItDid,
  capacityDropsSlots,
  otherRoutersKeepTheirRules,
  outputsEqualThoseOfANativeRun,
  seedsGiveWhatTheyGiveNatively,
  aSeedGivesTheSameLayer,
  fp8ExpertsAreCloseToF32,
  fp8LinearIsCloseToF32,
  callsMayOverlap,
  benchmarksCheckAndReport,
];

/** Runs in a page: one forward pass with generated weights; returns everything as plain arrays. */
async function forward({ options, tokens, given = true, seed = 1 }) {
  const { device, moebius, normal } = globalThis.bench;
  const { hidden, inter, experts, gated = false, bias = false } = options;
  const rows = gated ? 2 * inter : inter;
  const weights = {
    // A hash router takes no weights; the package refuses them.
    ...(options.router === 'hash' ? {} : { router: normal(seed, experts * hidden, 0.3) }),
    wIn: normal(seed + 1, experts * rows * hidden, 1 / Math.sqrt(hidden)),
    wOut: normal(seed + 2, experts * hidden * inter, 1 / Math.sqrt(inter)),
    ...(bias ? { bIn: normal(seed + 3, experts * rows, 0.5), bOut: normal(seed + 4, experts * hidden, 0.5) } : {}),
  };
  const x = normal(seed + 5, tokens * hidden);
  const layer = new moebius.MoeLayer(await device(), options, given ? weights : undefined);
  const output = await layer.forward(x);
  const plain = (record) => Object.fromEntries(Object.entries(record).map(([key, value]) => [key, Array.from(value)]));
  const result = {
    x: [...x],
    given: plain(weights),
    y: [...output.y],
    experts: [...output.experts],
    weights: [...output.weights],
    topK: output.topK,
    load: [...output.load],
    capacity: output.capacity,
    dropped: output.dropped,
    losses: { ...output.losses },
    bytes: layer.bytes,
  };
  layer.free();
  return result;
}

const SMALL = { hidden: 24, inter: 40, experts: 5, topK: 2 };

/** Every activation, with and without a gate and biases. Each of them compiles its own kernel. */
const FORMULAS = [
  { activation: 'relu', gated: false, bias: false },
  { activation: 'gelu', gated: false, bias: true },
  { activation: 'silu', gated: true, bias: false },
  { activation: 'mish', gated: true, bias: true },
];

async function theLayerIsItsFormula(lab) {
  const page = await lab.bench();
  for (const formula of FORMULAS) {
    const options = { ...SMALL, ...formula };
    const got = await page.evaluate(forward, { options, tokens: 19 });
    const { y, routes } = moeLayer(options, got.given, got.x);
    const what = JSON.stringify(formula);
    assert.deepEqual(
      got.experts,
      routes.flatMap((routed) => routed.experts),
      what,
    );
    const weights = routes.flatMap((routed) => routed.weights);
    const [ofY, ofWeights] = [relativeError(got.y, y), relativeError(got.weights, weights)];
    assert.ok(ofY < 2e-6, `${what}: expected y within 2e-6 of the formula, got ${ofY}`);
    assert.ok(ofWeights < 2e-6, `${what}: expected weights within 2e-6 of the formula, got ${ofWeights}`);
  }
}

async function theRouterReportsWhatItDid(lab) {
  const page = await lab.bench();
  const [tokens, { experts, topK }] = [33, SMALL];
  const got = await page.evaluate(forward, { options: SMALL, tokens });
  const { routes } = moeLayer({ ...SMALL, activation: 'relu', gated: false }, got.given, got.x);
  assert.equal(got.topK, topK);
  assert.equal(got.capacity, null);
  assert.equal(got.dropped, 0);
  const load = Array.from({ length: experts }, (_, e) => got.experts.filter((expert) => expert === e).length);
  assert.deepEqual(got.load, load);
  const mean = load.map((_, e) => routes.reduce((total, { probabilities }) => total + probabilities[e] / tokens, 0));
  const first = load.map((_, e) => routes.filter((routed) => routed.experts[0] === e).length);
  const entropy = mean.reduce((total, p) => total - p * Math.log(p), 0);
  const expected = {
    switch: mean.reduce((total, p, e) => total + (experts * p * load[e]) / (tokens * topK), 0),
    gshard: mean.reduce((total, p, e) => total + (experts * p * first[e]) / tokens, 0),
    entropy: 1 - entropy / Math.log(experts),
    z: routes.reduce((total, { logSum }) => total + logSum ** 2 / tokens, 0),
  };
  for (const [name, value] of Object.entries(expected)) {
    const loss = got.losses[name];
    assert.ok(Math.abs(loss - value) < 1e-5 * Math.max(value, 0.1), `expected a ${name} loss of ${value}, got ${loss}`);
  }
}

async function capacityDropsSlots(lab) {
  const page = await lab.bench();
  const tokens = 64;
  const options = { ...SMALL, capacityFactor: 0.75, minCapacity: 1 };
  const got = await page.evaluate(forward, { options, tokens });
  const capacity = Math.ceil((0.75 * tokens * SMALL.topK) / SMALL.experts);
  assert.ok(Math.abs(got.capacity - capacity) <= 1, `expected a capacity of about ${capacity}, got ${got.capacity}`);
  const over = got.load.reduce((sum, load) => sum + Math.max(0, load - got.capacity), 0);
  assert.ok(over > 0, `expected an expert with more than ${got.capacity} slots, got a load of ${got.load}`);
  assert.equal(got.dropped, over);
  assert.equal(
    got.load.reduce((a, b) => a + b),
    tokens * SMALL.topK,
  );
}

async function otherRoutersKeepTheirRules(lab) {
  const page = await lab.bench();
  const tokens = 40;
  const run = (router, more = {}) => page.evaluate(forward, { options: { ...SMALL, router, ...more }, tokens });
  const one = await run('switch', { topK: 1 });
  assert.equal(one.topK, 1);
  assert.equal(one.experts.length, tokens);
  assert.equal(
    one.load.reduce((a, b) => a + b),
    tokens,
  );
  const [hash, again] = [await run('hash'), await run('hash')];
  assert.deepEqual(hash.experts, again.experts);
  const inRange = (expert) => Number.isInteger(expert) && expert >= -1 && expert < SMALL.experts;
  assert.ok(hash.experts.every(inRange), `hash chose ${hash.experts}`);
  const choice = await run('expert-choice');
  assert.ok(choice.experts.every(inRange), `expert-choice chose ${choice.experts}`);
  // By design, every expert takes the same number of tokens.
  assert.ok(
    choice.load.every((load) => load === choice.load[0] && load > 0),
    `expert-choice gave loads ${choice.load}`,
  );
  for (const { y } of [one, hash, choice]) assert.ok(y.every(Number.isFinite) && y.some((value) => value !== 0));
}

/** Verdicts of the `moebius` command on case files, from its JSON. */
function verifyNatively(lab, files) {
  assert.ok(lab.native, 'no native command to compare with: --native PATH names it');
  const { status, stdout, stderr } = spawnSync(lab.native, ['verify', ...files, '--device', 'wgpu', '--json'], {
    encoding: 'utf8',
  });
  assert.ok([0, 1].includes(status), `${lab.native} ended with ${status}: ${stderr}`);
  return JSON.parse(stdout.trim().split('\n').at(-1)).files;
}

/** Runs in a page: computes y for the inputs of a committed case. */
async function caseOutput({ options, weights, x }) {
  const { device, moebius } = globalThis.bench;
  const floats = Object.fromEntries(Object.entries(weights).map(([key, values]) => [key, Float32Array.from(values)]));
  const layer = new moebius.MoeLayer(await device(), options, floats);
  const { y } = await layer.forward(Float32Array.from(x));
  layer.free();
  return [...y];
}

const floatsOf = ({ bytes }) => [
  ...new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
];

/** Weights with the gate rows of each expert followed by its up rows. */
function stacked(gate, up) {
  const [experts, rows, columns] = gate.shape;
  const [gates, ups] = [floatsOf(gate), floatsOf(up)];
  const part = (values, e) => values.slice(e * rows * columns, (e + 1) * rows * columns);
  return Array.from({ length: experts }, (_, e) => [...part(gates, e), ...part(ups, e)]).flat();
}

/** Options, weights and inputs of a layer for the package, from a case file. */
function layerOfCase(file) {
  const { metadata, tensors } = parse(file);
  const params = JSON.parse(metadata.params);
  const [experts, hidden] = tensors['in.router'].shape;
  const { gated, activation, top_k: topK } = params;
  const weights = { router: floatsOf(tensors['in.router']) };
  if (gated) {
    weights.wIn = stacked(tensors['in.w_gate'], tensors['in.w_up']);
    weights.wOut = floatsOf(tensors['in.w_down']);
  } else {
    weights.wIn = floatsOf(tensors['in.w_in']);
    weights.bIn = floatsOf(tensors['in.b_in']);
    weights.wOut = floatsOf(tensors['in.w_out']);
    weights.bOut = floatsOf(tensors['in.b_out']);
  }
  const inter = (gated ? tensors['in.w_gate'] : tensors['in.w_in']).shape[1];
  const capacity = params.capacity_factor
    ? { capacityFactor: params.capacity_factor, minCapacity: params.min_capacity }
    : {};
  const options = { hidden, inter, experts, topK, activation, gated, bias: !gated, ...capacity };
  return { metadata, tensors, options, weights, x: floatsOf(tensors['in.x']), expected: floatsOf(tensors['out.y']) };
}

/**
 * Makes the browser's output the expected one of a case file, which the native command then verifies, so that the
 * rounding of no third program takes part in the comparison.
 */
async function outputsEqualThoseOfANativeRun(lab) {
  const page = await lab.bench();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-native-'));
  const files = [];
  for (const name of ['relu', 'gelu', 'glu_silu', 'capacity']) {
    const { metadata, tensors, options, weights, x, expected } = layerOfCase(
      fs.readFileSync(path.join(CASES, `moe_layer_${name}.safetensors`)),
    );
    const y = await page.evaluate(caseOutput, { options, weights, x });
    assert.ok(relativeError(y, expected) < 2e-5, `${name}: PyTorch's y is ${relativeError(y, expected)} away`);
    const { 'out.indices': _, 'out.dropped_slots': __, ...rest } = tensors;
    const own = { ...rest, 'out.y': f32(y, tensors['out.y'].shape) };
    const file = path.join(folder, `${name}.safetensors`);
    fs.writeFileSync(file, build({ ...metadata, tol: JSON.stringify({ y: { rel_l2: 1e-6 } }) }, own));
    files.push(file);
  }
  const reports = verifyNatively(lab, files);
  fs.rmSync(folder, { recursive: true });
  assert.equal(reports.length, files.length);
  for (const { file, verdict, outputs } of reports) {
    const [{ rel_l2: relative, max_abs: largest }] = outputs;
    lab.note(`${path.basename(file)}: native y differs by ${largest} at most, ${relative} relative`);
    assert.equal(verdict, 'pass', `${file}: ${JSON.stringify(outputs)}`);
  }
}

/** Runs in a page: the layer and the training of tests/browser_reference.rs, which writes their native results. */
async function drawnFromSeeds({ tokens, layer: options, training: seeds, losses }) {
  const { device, moebius } = globalThis.bench;
  const opened = await device();
  const value = (i) => ((i * 7919) % 1000) / 500 - 1;
  const numbers = (count) => Float32Array.from({ length: count }, (_, i) => value(i));
  const layer = new moebius.MoeLayer(opened, options);
  const { y } = await layer.forward(numbers(tokens * options.hidden));
  layer.free();
  const labels = Uint32Array.from({ length: 64 }, (_, i) => (value(2 * i) > 0 ? 1 : 0));
  const training = new moebius.MoeTraining(opened, seeds, numbers(128), labels);
  const reports = [];
  while (reports.length < losses.length) reports.push((await training.step()).loss);
  training.free();
  return { y: [...y], losses: reports };
}

async function seedsGiveWhatTheyGiveNatively(lab) {
  const page = await lab.bench();
  const native = JSON.parse(fs.readFileSync(NATIVE, 'utf8'));
  const { y, losses } = await page.evaluate(drawnFromSeeds, native);
  const error = relativeError(y, native.y);
  assert.ok(error < 1e-5, `expected the layer within 1e-5 of the native one, got ${error}`);
  const apart = losses.map((loss, i) => Math.abs(loss - native.losses[i]) / native.losses[i]);
  lab.note(`the layer is ${error.toPrecision(2)} from the native one, losses ${Math.max(...apart).toPrecision(2)}`);
  // Twelve steps amplify the rounding differences of sums.
  assert.ok(Math.max(...apart) < 1e-3, `expected losses ${native.losses}, got ${losses}`);
}

async function aSeedGivesTheSameLayer(lab) {
  const [page, other] = [await lab.bench(), await lab.benchInWorker()];
  const ask = (place, seed) => place.evaluate(forward, { options: { ...SMALL, seed }, tokens: 7, given: false });
  const [one, two, third] = [await ask(page, 11), await ask(other, 11), await ask(page, 12)];
  assert.deepEqual(one.y, two.y);
  assert.notDeepEqual(one.y, third.y);
}

async function fp8ExpertsAreCloseToF32(lab) {
  const page = await lab.bench();
  const options = { hidden: 64, inter: 128, experts: 4, topK: 2, activation: 'silu', gated: true };
  const full = await page.evaluate(forward, { options, tokens: 32 });
  const codes = await page.evaluate(forward, { options: { ...options, precision: 'fp8' }, tokens: 32 });
  assert.deepEqual(codes.experts, full.experts);
  const error = relativeError(codes.y, full.y);
  lab.note(`y of FP8 experts is ${error.toPrecision(2)} from f32's; ${codes.bytes} bytes for ${full.bytes}`);
  // E4M3 has three bits of mantissa: a weight is off by 2.6 % of itself on average, and many errors average out.
  assert.ok(error > 1e-4 && error < 0.06, `expected an error of FP8's size, got ${error}`);
  assert.ok(
    codes.bytes < 0.32 * full.bytes,
    `expected a quarter of ${full.bytes} bytes and scales, got ${codes.bytes}`,
  );
}

/** Runs in a page: the forward pass of a linear layer with FP8 weights. */
async function fp8Linear({ options, rows }) {
  const { device, moebius, normal } = globalThis.bench;
  const { inputs, outputs } = options;
  const [weight, bias, x] = [normal(1, inputs * outputs, 0.1), normal(2, outputs), normal(3, rows * inputs)];
  const layer = new moebius.Fp8Linear(await device(), options, weight, bias);
  const y = [...(await layer.forward(x))];
  const bytes = layer.bytes;
  layer.free();
  const expected = Array.from({ length: rows * outputs }, (_, i) => {
    const [row, column] = [Math.floor(i / outputs), i % outputs];
    let sum = bias[column];
    for (let k = 0; k < inputs; k++) sum += x[row * inputs + k] * weight[column * inputs + k];
    return sum;
  });
  return { y, expected, bytes };
}

async function fp8LinearIsCloseToF32(lab) {
  const page = await lab.bench();
  for (const [format, limit] of [
    ['e4m3', 0.04],
    ['e5m2', 0.08],
  ]) {
    for (const granularity of ['tensor', 'row', 'block128', 'mx']) {
      const options = { inputs: 256, outputs: 128, format, granularity };
      const { y, expected, bytes } = await page.evaluate(fp8Linear, { options, rows: 9 });
      const error = relativeError(y, expected);
      const what = `${format} per ${granularity}`;
      // A result without any rounding would mean that no FP8 codes were used.
      assert.ok(error > 1e-3 && error < limit, `${what}: expected an error between 0.001 and ${limit}, got ${error}`);
      const codes = options.inputs * options.outputs;
      assert.ok(
        bytes >= codes && bytes < 1.25 * codes + 1024,
        `${what}: expected little more than ${codes} bytes, got ${bytes}`,
      );
    }
  }
}

/** Runs in a page: several calls at the same time, then the same calls one after the other. */
async function overlap() {
  const { device, moebius, normal } = globalThis.bench;
  const opened = await device();
  const options = { hidden: 16, inter: 32, experts: 4, seed: 3 };
  const [one, two] = [new moebius.MoeLayer(opened, options), new moebius.MoeLayer(opened, { ...options, seed: 4 })];
  const inputs = [1, 2, 3].map((seed) => normal(seed, 16 * 8));
  const calls = [one, two].flatMap((layer) => inputs.map((x) => () => layer.forward(x)));
  const together = await Promise.all(calls.map((call) => call()));
  const apart = [];
  for (const call of calls) apart.push(await call());
  const ys = (outputs) => outputs.map(({ y }) => [...y]);
  return { together: ys(together), apart: ys(apart) };
}

async function callsMayOverlap(lab) {
  const page = await lab.bench();
  const { together, apart } = await page.evaluate(overlap);
  assert.deepEqual(together, apart);
}

/** Runs in a page: a benchmark of the package. */
async function benchmark(options) {
  const { device, moebius } = globalThis.bench;
  const progress = [];
  const report = await moebius.bench(await device(), {
    ...options,
    onProgress: (done, of) => progress.push([done, of]),
  });
  return { ...report, timesMs: [...report.timesMs], progress };
}

async function benchmarksCheckAndReport(lab) {
  const page = await lab.bench();
  const shapes = [
    [{ what: 'matmul', m: 128, n: 96, k: 64 }, 2 * 128 * 96 * 64, 96 * 64],
    [{ what: 'linear', m: 16, n: 128, k: 256 }, 2 * 16 * 128 * 256, 128 * 256],
    [{ what: 'moe', tokens: 64, hidden: 64, inter: 128, experts: 4, topK: 2 }, 4 * 64 * 2 * 64 * 128, 2 * 4 * 64 * 128],
    [{ what: 'attention', heads: 3, tokens: 70, headDim: 16 }, 4 * 3 * 70 * 70 * 16, 2 * 3 * 70 * 16],
    [{ what: 'attention', batch: 2, heads: 2, tokens: 33, headDim: 8, causal: true }, 4 * 4 * 33 * 17 * 8, 8 * 33 * 8],
  ];
  for (const [shape, flops, weights] of shapes) {
    const reports = {};
    for (const precision of ['matmul', 'attention'].includes(shape.what) ? ['f32'] : ['f32', 'fp8']) {
      const report = await page.evaluate(benchmark, { ...shape, precision, repeats: 3 });
      const what = `${shape.what} in ${precision}`;
      const sorted = [...report.timesMs].sort((a, b) => a - b);
      assert.equal(report.timesMs.length, 3, what);
      assert.ok(sorted[0] > 0, `${what}: a run took ${sorted[0]} ms`);
      assert.equal(report.medianMs, sorted[1], what);
      assert.ok(
        report.flops >= flops && report.flops < 1.2 * flops,
        `${what}: expected ${flops} operations, got ${report.flops}`,
      );
      assert.ok(Math.abs(report.gflops - report.flops / report.medianMs / 1e6) < 1e-6 * report.gflops, what);
      assert.ok(
        report.error > 0 && report.error < 1e-5,
        `${what}: expected an error of f32's rounding, got ${report.error}`,
      );
      assert.deepEqual(report.progress.at(-1), [3, 3], what);
      assert.ok(report.kernel.length > 0, what);
      reports[precision] = report;
    }
    const { f32: full, fp8: codes } = reports;
    assert.equal(full.weightBytes, 4 * weights, `${shape.what}: bytes of weights`);
    if (codes)
      assert.ok(
        codes.weightBytes < 0.4 * full.weightBytes,
        `${shape.what}: ${codes.weightBytes} bytes in FP8, ${full.weightBytes} in f32`,
      );
  }
}
