// Tests of published models in the package: same tokens as transformers and the native command, weights read in pieces.
import assert from 'node:assert/strict';

import { generateNatively, gguf, likeliest, olmoe, serve } from './models.mjs';

export const tests = [
  theLikeliestTokensAreThoseOfTransformers,
  textsAreThoseOfTheNativeCommand,
  aGgufFileWritesAndChats,
  specialTokensInATextAreTextOnRequest,
  weightsInABlobAreReadInPieces,
  theExpertsOfEachTokenAreTold,
  stoppingWorksAtOnce,
  aLoadingCanBeStopped,
  whatDoesNotFitIsRefused,
  wordsThatDoNotComeAreToldOf,
  aModelGivesItsMemoryBack,
  aLostDeviceEndsAText,
];

const PROMPT = 'w3 w14 w15 w92 w65';

/** Runs in a page or worker: loads a model from the server and generates once for each of `asked`. */
async function run({ folder, options = {}, asked, blobs = false }) {
  const { device, moebius, bytes, attempt } = globalThis.bench;
  const names = JSON.parse(new TextDecoder().decode(await bytes(`../${folder}/files.json`)));
  const files = {};
  for (const name of names) {
    const data = await bytes(`../${folder}/${name}`);
    files[name] = blobs ? new File([data], name) : data;
  }
  const read = [];
  const onProgress = (done, of) => read.push([done, of]);
  const opened = await device();
  const loaded = await attempt(() => moebius.TextModel.load(opened, files, { ...options, onProgress }));
  if (!loaded.ok) return { loaded };
  const model = loaded.value;
  const answers = [];
  for (const options of asked) {
    const tokens = [];
    const onToken = ({ id, text, experts }) => tokens.push({ id, text, experts: experts && [...experts] });
    const answer = await attempt(() => model.generate({ ...options, onToken }));
    if (answer.ok) answer.value = { ...answer.value, ids: [...answer.value.ids] };
    answers.push({ ...answer, tokens });
  }
  const { report } = model;
  model.dispose();
  const gone = await attempt(() => model.generate({ prompt: 'w1' }));
  model.free();
  return { report, read, answers, gone };
}

const words = (ids) => ids.map((id) => `w${id}`).join(' ');

async function theLikeliestTokensAreThoseOfTransformers(lab) {
  serve(lab, 'tiny', olmoe());
  const { tokens, next } = likeliest();
  const lengths = [1, 2, 7, 16, 17, 40];
  const asked = lengths.map((length) => ({ prompt: words(tokens.slice(0, length)), maxTokens: 1 }));
  // A fresh page, since memory is counted here: in a shared one, the objects of other tests may be freed at any time.
  const page = await lab.freshBench();
  const { report, answers, gone, read } = await page.evaluate(run, { folder: 'tiny', asked });
  answers.forEach(({ value, message }, at) => {
    assert.deepEqual(value?.ids, [next[lengths[at] - 1]], `after ${lengths[at]} tokens: ${message}`);
    assert.deepEqual([value.promptTokens, value.finish, value.tokensPerSecond], [lengths[at], 'length', null]);
  });
  const { weightBytes, ...rest } = report;
  assert.deepEqual(rest, {
    layers: 3,
    experts: [0, 1, 2].map((layer) => ({ layer, experts: 8, topK: 3 })),
    hidden: 48,
    vocabulary: 199,
    positions: 256,
    context: 256,
    chat: false,
    family: 'olmoe',
    precision: 'stored',
  });
  const [done, of] = read.at(-1);
  assert.equal(done, of);
  // All weights are f32; buffers are padded.
  assert.ok(weightBytes >= of && weightBytes < 1.2 * of, `${weightBytes} bytes for ${of}`);
  assert.equal(gone.code, 'disposed');
}

async function textsAreThoseOfTheNativeCommand(lab) {
  const files = olmoe();
  serve(lab, 'tiny', files);
  const worker = await lab.benchInWorker();
  const asked = [
    { prompt: PROMPT, maxTokens: 24 },
    {
      ...{ prompt: PROMPT, maxTokens: 24, seed: 7 },
      ...{ temperature: 0.9, topK: 20, topP: 0.9, minP: 0.01, repetitionPenalty: 1.2 },
    },
  ];
  const prompt = ['--prompt', PROMPT, '--max-tokens', '24'];
  const drawn = ['--temperature', '0.9', '--top-k', '20', '--top-p', '0.9', '--min-p', '0.01'];
  const more = [...drawn, '--repetition-penalty', '1.2', '--seed', '7'];
  for (const [precision, dtype] of [
    ['f32', 'f32'],
    ['fp8', 'fp8'],
  ]) {
    const { answers, report } = await worker.evaluate(run, { folder: 'tiny', asked, options: { precision } });
    assert.equal(report.precision, precision);
    const native = [prompt, [...prompt, ...more]].map((options) =>
      generateNatively(lab, files, [...options, '--dtype', dtype]),
    );
    answers.forEach(({ value, message, tokens }, at) => {
      assert.deepEqual(value?.ids, native[at].ids, `${precision}, ${at}: ${message}`);
      assert.equal(value.text, native[at].text);
      assert.equal(tokens.map(({ text }) => text).join(''), value.text);
      assert.ok(value.tokensPerSecond > 0 && value.firstTokenMs > 0 && value.decodeMs > 0);
      assert.ok(tokens.every(({ experts }) => experts === null));
    });
    const speeds = answers.map(({ value }) => value.tokensPerSecond.toFixed(1));
    lab.note(`${precision}: ${speeds} tokens/s, ${report.weightBytes} bytes`);
    // A text ends before its stop string.
    const stop = ` ${native[0].text.split(' ')[5]}`;
    const stopped = await worker.evaluate(run, {
      folder: 'tiny',
      asked: [{ ...asked[0], stop: [stop] }],
      options: { precision },
    });
    const { text, finish } = stopped.answers[0].value;
    assert.equal(finish, 'stop');
    assert.equal(text, native[0].text.slice(0, native[0].text.indexOf(stop)));
  }
}

async function aGgufFileWritesAndChats(lab) {
  const files = gguf();
  serve(lab, 'gguf', files);
  const worker = await lab.benchInWorker();
  const text = 't0t1t0t2t1';
  const messages = [
    { role: 'user', content: 't0t1t0' },
    { role: 'assistant', content: 't2' },
    { role: 'user', content: 't1' },
  ];
  const asked = [
    { prompt: text, maxTokens: 9 },
    { messages, maxTokens: 9 },
  ];
  const { report, answers } = await worker.evaluate(run, { folder: 'gguf', asked, blobs: true });
  const native = generateNatively(lab, files, ['--prompt', text, '--max-tokens', '9']);
  assert.deepEqual([report.family, report.chat], ['olmoe', true]);
  assert.ok(native.ids.length > 0);
  for (const { value, message } of answers) {
    assert.deepEqual(value?.ids, native.ids, message);
    assert.equal(value.promptTokens, 5);
  }
  // Weights of 16 bits stay such on the device, and give the tokens of decoded ones.
  const page = await lab.freshBench();
  const sizes = [];
  for (const precision of ['stored', 'f32']) {
    const found = await page.evaluate(run, { folder: 'gguf', asked: asked.slice(0, 1), options: { precision } });
    assert.deepEqual(found.answers[0].value?.ids, native.ids, precision);
    sizes.push(found.report.weightBytes);
  }
  assert.ok(sizes[0] < 0.75 * sizes[1], `${sizes[0]} bytes as stored, ${sizes[1]} in f32`);
}

/** The word w1 is a special token here, which the word w14 contains. */
async function specialTokensInATextAreTextOnRequest(lab) {
  const files = olmoe({ chat: true });
  const tokenizer = JSON.parse(files['tokenizer.json']);
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  tokenizer.added_tokens = [{ id: 1, content: 'w1', special: true, ...plain }];
  serve(lab, 'special', { ...files, 'tokenizer.json': Buffer.from(JSON.stringify(tokenizer)) });
  const worker = await lab.benchInWorker();
  const messages = [{ role: 'user', content: 'w14 w3' }];
  const asked = [{ prompt: 'w14 w3' }, { messages }].flatMap((text) => [
    { ...text, maxTokens: 1 },
    { ...text, maxTokens: 1, special: false },
  ]);
  const { answers } = await worker.evaluate(run, { folder: 'special', asked });
  const tokens = answers.map(({ value, message }) => value?.promptTokens ?? message);
  // What is left of w14 without w1 is a token of its own.
  assert.deepEqual(tokens, [3, 2, 3, 2]);
}

/** Runs in a worker: returns the sizes of all reads while a model is loaded from Blobs. */
async function watched(options) {
  const { run } = globalThis.tried;
  const read = FileReaderSync.prototype.readAsArrayBuffer;
  const pieces = [];
  FileReaderSync.prototype.readAsArrayBuffer = function (blob) {
    pieces.push(blob.size);
    return read.call(this, blob);
  };
  try {
    return { ...(await run(options)), pieces };
  } finally {
    FileReaderSync.prototype.readAsArrayBuffer = read;
  }
}

async function weightsInABlobAreReadInPieces(lab) {
  const files = olmoe();
  serve(lab, 'tiny', files);
  const [page, worker] = [await lab.bench(), await lab.benchInWorker()];
  const asked = [{ prompt: PROMPT, maxTokens: 12 }];
  await worker.evaluate(`globalThis.tried = { run: ${run} }`);
  const { answers, pieces } = await worker.evaluate(watched, { folder: 'tiny', asked, blobs: true });
  const inMemory = await page.evaluate(run, { folder: 'tiny', asked });
  assert.deepEqual(answers[0].value.ids, inMemory.answers[0].value.ids);
  const all = files['model.safetensors'].length;
  const sum = pieces.reduce((a, b) => a + b);
  assert.equal(sum, all, 'each byte once');
  assert.ok(Math.max(...pieces) < all / 4, `expected small pieces of ${all} bytes, got ${Math.max(...pieces)}`);
  // Pages can't read pieces synchronously.
  const { loaded } = await page.evaluate(run, { folder: 'tiny', asked, blobs: true });
  assert.equal(loaded.code, 'unsupported');
  assert.match(loaded.message, /worker/);
}

async function theExpertsOfEachTokenAreTold(lab) {
  serve(lab, 'tiny', olmoe());
  const worker = await lab.benchInWorker();
  const asked = [
    { prompt: PROMPT, maxTokens: 20 },
    { prompt: PROMPT, maxTokens: 20, experts: true },
  ];
  const { answers } = await worker.evaluate(run, { folder: 'tiny', asked });
  const [without, told] = answers;
  assert.deepEqual(told.value.ids, without.value.ids);
  assert.equal(told.tokens.length, 20);
  const seen = new Set();
  for (const { experts } of told.tokens) {
    assert.equal(experts.length, 3 * 3);
    for (let layer = 0; layer < 3; layer++) {
      const chosen = experts.slice(3 * layer, 3 * layer + 3);
      assert.equal(new Set(chosen).size, 3, `${chosen} in layer ${layer}`);
      assert.ok(chosen.every((expert) => expert >= 0 && expert < 8));
      seen.add(`${layer}: ${chosen}`);
    }
  }
  assert.ok(seen.size > 6, 'all tokens took the same experts');
}

/** Runs in a page: stops a text after some tokens, then generates another. */
async function stop(folder) {
  const { device, moebius, bytes, attempt } = globalThis.bench;
  const names = JSON.parse(new TextDecoder().decode(await bytes(`../${folder}/files.json`)));
  const files = {};
  for (const name of names) files[name] = await bytes(`../${folder}/${name}`);
  const model = await moebius.TextModel.load(await device(), files);
  const prompt = 'w1 w2 w3';
  const whole = await model.generate({ prompt, maxTokens: 200 });
  const controller = new AbortController();
  let count = 0;
  let aborted = 0;
  const onToken = () => {
    count += 1;
    // Not within the callback: the signal is to come while a step is in progress.
    if (count === 5) setTimeout(() => ((aborted = performance.now()), controller.abort()), 1);
  };
  const first = attempt(() => model.generate({ prompt, maxTokens: 200, onToken, signal: controller.signal }));
  const second = await attempt(() => model.generate({ prompt }));
  const stopped = await first;
  const late = performance.now() - aborted;
  const after = await model.generate({ prompt, maxTokens: 8 });
  const never = await attempt(() => model.generate({ prompt, signal: AbortSignal.abort() }));
  model.free();
  return { stopped, second, late, count, never, after: [...after.ids], whole: [...whole.ids] };
}

async function stoppingWorksAtOnce(lab) {
  serve(lab, 'tiny', olmoe());
  const page = await lab.bench();
  const { stopped, second, late, count, never, after, whole } = await page.evaluate(stop, 'tiny');
  lab.note(`stopped ${late.toFixed(1)} ms after the signal, after ${count} tokens`);
  assert.deepEqual([stopped.code, second.code, never.code], ['cancelled', 'unsupported', 'cancelled']);
  assert.ok(count >= 5 && count < 100, `${count} tokens`);
  assert.ok(late < 200, `${late} ms`);
  assert.deepEqual(after, whole.slice(0, 8), 'a text after one that was stopped');
}

/** Runs in a page: aborts the loading of a model. */
async function stopLoading(folder) {
  const { device, moebius, bytes, attempt } = globalThis.bench;
  const names = JSON.parse(new TextDecoder().decode(await bytes(`../${folder}/files.json`)));
  const files = {};
  for (const name of names) files[name] = await bytes(`../${folder}/${name}`);
  const controller = new AbortController();
  const read = [];
  const onProgress = (done, of) => {
    read.push(done / of);
    controller.abort();
  };
  const opened = await device();
  const stopped = await attempt(() => moebius.TextModel.load(opened, files, { signal: controller.signal, onProgress }));
  const thrown = await attempt(() =>
    moebius.TextModel.load(opened, files, {
      onProgress() {
        throw new Error('on purpose');
      },
    }),
  );
  return { stopped, thrown, last: read.at(-1) };
}

async function aLoadingCanBeStopped(lab) {
  serve(lab, 'tiny', olmoe());
  const { stopped, thrown, last } = await (await lab.bench()).evaluate(stopLoading, 'tiny');
  assert.equal(stopped.code, 'cancelled');
  assert.ok(last < 0.5, `${last} of it was read`);
  assert.match(thrown.message, /on purpose/);
}

async function whatDoesNotFitIsRefused(lab) {
  const page = await lab.bench();
  const good = olmoe();
  const loading = async (files, options) => {
    serve(lab, 'odd', files);
    return (await page.evaluate(run, { folder: 'odd', options, asked: [] })).loaded;
  };
  const config = JSON.parse(good['config.json']);
  const other = (change) => ({ ...good, 'config.json': Buffer.from(JSON.stringify({ ...config, ...change })) });
  const { 'config.json': _, ...without } = good;
  const cases = [
    [without, 'bad-file', /config\.json/],
    [other({ model_type: 'mamba' }), 'bad-file', /mamba/],
    [other({ num_experts: 9 }), 'bad-file', /experts/],
    [{ ...good, 'tokenizer.json': Buffer.from('{}') }, 'bad-file', /tokenizer\.json/],
    [{ ...good, 'config.json': Buffer.from('{') }, 'bad-file', /config\.json: expected JSON/],
    [{ ...good, 'model.safetensors': good['model.safetensors'].subarray(0, 4000) }, 'bad-file', /model\.safetensors/],
    [{ 'x.gguf': Buffer.from('GGUF') }, 'bad-file', /x\.gguf/],
    [{ ...gguf(), 'config.json': good['config.json'] }, 'shape', /a GGUF file alone/],
    [{ 'config.json': good['config.json'] }, 'shape', /weights in \.safetensors or \.gguf/],
  ];
  for (const [files, code, message] of cases) {
    const loaded = await loading(files);
    assert.ok(loaded, `${message}: it was loaded`);
    assert.deepEqual([loaded.name, loaded.code], ['MoebiusError', code], loaded.message);
    assert.match(loaded.message, message);
  }
  assert.match((await loading(good, { context: 257 })).message, /at most the model's 256, got 257/);
  assert.match((await loading(good, { precision: 'int4' })).message, /precision/);
  serve(lab, 'tiny', good);
  const asked = [
    {},
    { prompt: 'w1', messages: [] },
    { prompt: '' },
    { messages: [{ role: 'user', content: 'w1' }] },
    { prompt: 'w1', temperature: -1 },
    { prompt: 'w1', stop: [''] },
    { prompt: 'w1', logitBias: { w1: 2 } },
    { prompt: 'w1', maxTokens: 300 },
    { prompt: 'w1', tokens: 3 },
  ];
  const { answers } = await page.evaluate(run, { folder: 'tiny', asked });
  answers.forEach(({ ok, code, message }, at) => {
    const about = `${JSON.stringify(asked[at])}: ${message}`;
    // A conversation needs a template, which this model's files lack.
    const template = 'messages' in asked[at] && !('prompt' in asked[at]);
    assert.deepEqual([ok, code], [false, template ? 'bad-file' : 'shape'], about);
  });
}

/** Runs in a page: returns the memory held after each of several models. */
async function held({ folder, rounds }) {
  const { run } = globalThis.tried;
  const opened = await globalThis.bench.device();
  const all = [];
  for (let round = 0; round < rounds; round++) {
    await run({ folder, asked: [{ prompt: 'w1 w2', maxTokens: 6, experts: true }] });
    all.push(await opened.memory());
  }
  return all;
}

/** Checks that a failed load of the tokenizers' module is reported, and that the next model loads the module again. */
async function wordsThatDoNotComeAreToldOf(lab) {
  serve(lab, 'tiny', olmoe());
  const asked = { folder: 'tiny', asked: [{ prompt: PROMPT, maxTokens: 1 }] };
  const page = await lab.freshBench({ allow: [/404/, /moebius_words/] });
  assert.ok(!lab.served.some((name) => name.includes('moebius_words')), lab.served.join(' '));
  lab.replace('moebius/moebius_words_bg.wasm', null);
  const { loaded } = await page.evaluate(run, asked);
  assert.deepEqual([loaded.name, loaded.code], ['MoebiusError', 'device'], loaded.message);
  assert.match(loaded.message, /moebius_words/);
  lab.replace('moebius/moebius_words_bg.wasm', undefined);
  const { answers } = await page.evaluate(run, asked);
  assert.equal(answers[0].value.ids.length, 1);
}

async function aModelGivesItsMemoryBack(lab) {
  serve(lab, 'tiny', olmoe());
  const page = await lab.bench();
  await page.evaluate(`globalThis.tried = { run: ${run} }`);
  const [, settled, ...later] = await page.evaluate(held, { folder: 'tiny', rounds: 6 });
  for (const { inUse } of later) {
    assert.ok(inUse <= settled.inUse, `expected at most ${settled.inUse} bytes in use, got ${inUse}`);
  }
}

/** Runs in a page of its own: loses the device during a text. */
async function lose(folder) {
  const { device, moebius, bytes, attempt } = globalThis.bench;
  const names = JSON.parse(new TextDecoder().decode(await bytes(`../${folder}/files.json`)));
  const files = {};
  for (const name of names) files[name] = await bytes(`../${folder}/${name}`);
  const opened = await device();
  const model = await moebius.TextModel.load(opened, files);
  let count = 0;
  const onToken = () => {
    count += 1;
    if (count === 3) setTimeout(() => opened.destroy());
  };
  const lost = await attempt(() => model.generate({ prompt: 'w1', maxTokens: 200, onToken }));
  const after = await attempt(() => model.generate({ prompt: 'w1' }));
  return { lost, after, count };
}

async function aLostDeviceEndsAText(lab) {
  serve(lab, 'tiny', olmoe());
  const page = await lab.freshBench();
  const { lost, after, count } = await page.evaluate(lose, 'tiny');
  assert.ok(count >= 3 && count < 200, `${count} tokens`);
  assert.deepEqual([lost.code, after.code], ['device-lost', 'device-lost'], `${lost.message}; ${after.message}`);
}
