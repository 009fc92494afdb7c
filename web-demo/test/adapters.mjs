// Tests of trainings of adapters in the package: the loss falls, the files are PEFT's, a model that is loaded with them
// is the one that was trained, and a training stops when told.
import assert from 'node:assert/strict';

import { gguf, olmoe, serve } from './models.mjs';
import { build, f32, parse } from './safetensors.mjs';

export const tests = [
  anAdapterLearnsAndComesBack,
  aTrainingStopsAndEnds,
  aTrainingGivesItsMemoryBack,
  whatCannotBeTrainedOrAddedIsRefused,
];

/** A text that repeats itself, so that all batches are alike. */
const TEXT = 'w11 w12 '.repeat(40);

/** Runs in a page: makes `globalThis.filesIn`, which fetches the files of a served model. */
function helpers() {
  globalThis.filesIn = async (folder) => {
    const { bytes } = globalThis.bench;
    const names = JSON.parse(new TextDecoder().decode(await bytes(`../${folder}/files.json`)));
    const files = {};
    for (const name of names) files[name] = await bytes(`../${folder}/${name}`);
    return files;
  };
}

/** Runs in a page: trains an adapter, and asks the model with it before and after it was saved. */
async function train({ folder, options, ids }) {
  const { device, moebius } = globalThis.bench;
  const [files, opened] = [await globalThis.filesIn(folder), await device()];
  const head = async (model) => [...(await model.compute(Uint32Array.from(ids))).head];
  const read = [];
  const onProgress = (done, of) => read.push(done / of);
  const training = await moebius.AdapterTraining.load(opened, files, { ...options, onProgress });
  const start = await head(training);
  const steps = [];
  while (training.steps < options.steps) {
    const { losses, loads, ...rest } = await training.step();
    steps.push({ ...rest, losses: [...losses], loads: loads.map((of) => [...of]) });
  }
  const end = await head(training);
  const saved = await training.adapter();
  const { report } = training;
  training.free();
  const ask = async (adapter) => {
    const model = await moebius.TextModel.load(opened, files, { precision: options.precision, adapter });
    const logits = await head(model);
    model.free();
    return logits;
  };
  const [plain, adapted] = [await ask(), await ask(saved)];
  const bytes = Object.entries(saved).map(([name, data]) => [name, [...data]]);
  return { report, read, steps, start, end, plain, adapted, saved: Object.fromEntries(bytes) };
}

/** The largest difference of two lists of numbers, divided by the largest number. */
function apart(a, b) {
  assert.equal(a.length, b.length);
  const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return largest(a.map((value, at) => value - b[at])) / largest(a);
}

/** The names and shapes that PEFT has for an adapter of all linear modules. */
function factors(files, rank) {
  const { tensors } = parse(files['model.safetensors']);
  const modules = Object.entries(tensors).filter(([name]) => name.endsWith('_proj.weight'));
  const named = modules.flatMap(([name, { shape }]) => {
    const module = `base_model.model.${name.slice(0, -'.weight'.length)}`;
    return [
      [`${module}.lora_A.weight`, [rank, shape[1]]],
      [`${module}.lora_B.weight`, [shape[0], rank]],
    ];
  });
  return Object.fromEntries(named);
}

async function anAdapterLearnsAndComesBack(lab) {
  const files = olmoe();
  serve(lab, 'tiny', files);
  const page = await lab.bench();
  await page.evaluate(helpers);
  const numbers = { rank: 3, alpha: 6, steps: 3, learningRate: 0.02, batch: 2, sequence: 16 };
  for (const precision of ['f32', 'fp8']) {
    const options = { text: TEXT, targets: ['all-linear'], precision, ...numbers };
    const found = await page.evaluate(train, { folder: 'tiny', options, ids: [3, 14, 15, 92, 65] });
    const { report, read, steps, saved } = found;
    const losses = steps.flatMap((of) => of.losses);
    lab.note(`${precision}: losses ${losses.map((loss) => loss.toFixed(3))}`);
    assert.deepEqual(
      steps.map(({ step, loss }) => [step, loss]),
      losses.map((loss, at) => [at + 1, loss]),
    );
    assert.ok(losses.length === 3 && losses[2] < losses[0], `${precision}: ${losses}`);
    // Three layers, of whose experts each token takes three.
    for (const { loads, auxiliary, learningRate } of steps) {
      assert.deepEqual(loads.map((of) => of.reduce((a, b) => a + b)), [96, 96, 96]);
      assert.ok(auxiliary > 0 && learningRate > 0 && learningRate <= 0.0200001, `${auxiliary}, ${learningRate}`);
    }
    const { 'adapter_config.json': config, 'adapter_model.safetensors': weights, ...others } = saved;
    assert.deepEqual(others, {});
    const expected = factors(files, 3);
    const { metadata, tensors } = parse(Buffer.from(weights));
    assert.equal(metadata.format, 'pt');
    assert.deepEqual(Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, shape])), expected);
    const { peft_type: kind, r, lora_alpha: alpha, target_modules: targets } = JSON.parse(Buffer.from(config));
    assert.deepEqual([kind, r, alpha, targets], ['LORA', 3, 6, 'all-linear']);
    const parameters = Object.values(expected).reduce((sum, [rows, columns]) => sum + rows * columns, 0);
    const { tokens, ...rest } = report;
    const { learningRate: _, ...told } = numbers;
    assert.deepEqual(rest, { ...told, family: 'olmoe', precision, targets: ['all-linear'], parameters });
    assert.equal(tokens, 80);
    assert.equal(read.at(-1), 1);
    // Nothing changes before the first step; then the saved adapter gives what the trained one gave.
    assert.ok(apart(found.plain, found.start) < 1e-4, `${precision}: ${apart(found.plain, found.start)} at first`);
    assert.ok(apart(found.end, found.adapted) < 1e-4, `${precision}: ${apart(found.end, found.adapted)} when loaded`);
    assert.ok(apart(found.plain, found.adapted) > 1e-3, `${precision}: nothing was learnt`);
  }
}

/** Runs in a page: stops a training, goes on to its end and beyond, and disposes of it. */
async function stop({ folder, text }) {
  const { device, moebius, attempt } = globalThis.bench;
  const files = await globalThis.filesIn(folder);
  const options = { text, steps: 12, batch: 1, sequence: 8 };
  const opened = await device();
  const training = await moebius.AdapterTraining.load(opened, files, options);
  const controller = new AbortController();
  const { signal } = controller;
  const first = attempt(() => training.step(12, { signal }));
  let ended = false;
  first.then(() => (ended = true));
  while (!ended && training.steps === 0) await new Promise((later) => setTimeout(later));
  controller.abort();
  const cancelled = await first;
  const kept = training.steps;
  const never = await attempt(() => training.step(1, { signal }));
  const rest = await attempt(async () => (await training.step(100)).losses.length);
  const over = await attempt(() => training.step());
  const none = await attempt(() => training.compute(new Uint32Array()));
  training.dispose();
  const gone = await attempt(() => training.adapter());
  training.free();
  const before = AbortSignal.abort();
  const unloaded = await attempt(() => moebius.AdapterTraining.load(opened, files, { ...options, signal: before }));
  return { kept, rest, codes: [cancelled, never, over, none, gone, unloaded].map(({ code }) => code) };
}

async function aTrainingStopsAndEnds(lab) {
  serve(lab, 'tiny', olmoe());
  const page = await lab.bench();
  await page.evaluate(helpers);
  const { kept, rest, codes } = await page.evaluate(stop, { folder: 'tiny', text: TEXT });
  assert.ok(kept >= 1 && kept < 12, `stopped after ${kept} steps`);
  assert.equal(rest.value, 12 - kept, rest.message);
  assert.deepEqual(codes, ['cancelled', 'cancelled', 'state', 'shape', 'disposed', 'cancelled']);
}

/** Runs in a page: returns the memory in use after each of several trainings that were disposed of. */
async function held({ folder, text, rounds }) {
  const { device, moebius } = globalThis.bench;
  const [files, opened] = [await globalThis.filesIn(folder), await device()];
  const all = [];
  for (let round = 0; round < rounds; round++) {
    const options = { text, steps: 2, batch: 1, sequence: 8 };
    const training = await moebius.AdapterTraining.load(opened, files, options);
    await training.step(2);
    await training.adapter();
    training.dispose();
    all.push((await opened.memory()).inUse);
    training.free();
  }
  return all;
}

async function aTrainingGivesItsMemoryBack(lab) {
  serve(lab, 'tiny', olmoe());
  const page = await lab.bench();
  await page.evaluate(helpers);
  const inUse = await page.evaluate(held, { folder: 'tiny', text: TEXT, rounds: 4 });
  lab.note(`${inUse} bytes in use`);
  const [, settled, ...later] = inUse;
  for (const bytes of later) assert.ok(bytes <= settled, `expected at most ${settled} bytes in use, got ${bytes}`);
}

/** Runs in a page: tries trainings with each of `options`, and models with each of `adapters`. */
async function refuse({ folder, options, adapters }) {
  const { device, moebius, attempt } = globalThis.bench;
  const [files, opened] = [await globalThis.filesIn(folder), await device()];
  const results = [];
  for (const of of options) results.push(await attempt(() => moebius.AdapterTraining.load(opened, files, of)));
  for (const of of adapters) {
    const bytes = Object.entries(of).map(([name, data]) => [name, Uint8Array.from(data)]);
    const adapter = Object.fromEntries(bytes);
    results.push(await attempt(() => moebius.TextModel.load(opened, files, { adapter })));
  }
  return results.map(({ ok, code, message }) => ({ ok, code, message }));
}

async function whatCannotBeTrainedOrAddedIsRefused(lab) {
  const page = await lab.bench();
  await page.evaluate(helpers);
  const assertRefused = async (folder, { options = [], adapters = [] }) => {
    const given = { folder, options: options.map(([of]) => of), adapters: adapters.map(([of]) => of) };
    const results = await page.evaluate(refuse, given);
    [...options, ...adapters].forEach(([, code, message], at) => {
      assert.deepEqual([results[at].ok, results[at].code], [false, code], results[at].message);
      assert.match(results[at].message, message);
    });
  };
  const name = 'base_model.model.model.layers.9.self_attn.q_proj.lora';
  const ones = (shape) => f32(new Array(48).fill(1), shape);
  const weights = [...build({}, { [`${name}_A.weight`]: ones([1, 48]), [`${name}_B.weight`]: ones([48, 1]) })];
  const numbers = { peft_type: 'LORA', r: 1, lora_alpha: 1, target_modules: ['q_proj'] };
  const [config, dora] = [numbers, { ...numbers, use_dora: true }].map((of) => [...Buffer.from(JSON.stringify(of))]);
  const files = (config, weights) => ({ 'adapter_config.json': config, 'adapter_model.safetensors': weights });
  serve(lab, 'tiny', olmoe());
  await assertRefused('tiny', {
    options: [
      [{}, 'shape', /text: expected a text, got none/],
      [{ text: 'w1' }, 'shape', /text: expected more than 1 tokens, got 1/],
      [{ text: TEXT, sequence: 80 }, 'shape', /text: expected more than 80 tokens, got 80/],
      [{ text: TEXT, targets: ['w1'] }, 'shape', /targets of an adapter: expected all-linear, or .*q_proj.* got `w1`/],
      [{ text: TEXT, targets: [1] }, 'shape', /targets: expected an array of texts/],
      [{ text: TEXT, rank: 0 }, 'shape', /rank/],
      [{ text: TEXT, alpha: -1 }, 'shape', /alpha of an adapter/],
      [{ text: TEXT, learningRate: 0 }, 'shape', /learning rate/],
      [{ text: TEXT, precision: 'stored' }, 'shape', /precision/],
      [{ text: TEXT, epochs: 1 }, 'shape', /epochs/],
    ],
    adapters: [
      [files(config, weights), 'bad-file', /module of the adapter: .*layers\.9/],
      [files(config, weights.slice(0, 40)), 'bad-file', /adapter_model\.safetensors/],
      [files([123], weights), 'bad-file', /adapter_config\.json: expected JSON/],
      [files(dora, weights), 'bad-file', /use_dora/],
      [{ 'adapter_config.json': config }, 'shape', /adapter_config\.json and adapter_model\.safetensors/],
    ],
  });
  serve(lab, 'gguf', gguf());
  await assertRefused('gguf', { options: [[{ text: 't0t1t0t2' }, 'shape', /safetensors with a config\.json/]] });
}
