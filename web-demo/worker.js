// The worker: loads the package, opens the device, and owns every object on it. One operation at a time uses the
// device, and others wait, so that measured times are of one operation alone.
import init, { AdapterTraining, Device, MoeLayer, MoeTraining, TextModel, bench, version } from './moebius/moebius.js';

let loaded = null;
let device = null;
let layer = null;
let training = null;
let text = null;
let tuning = null;
let queue = Promise.resolve();
/** @type {Map<number, AbortController>} */
const running = new Map();
/** Functions that reject the operations in progress, since work on a lost device may never end by itself. */
const pending = new Set();

/** Operations by name, each a function of `(values, {signal, progress})`; their results go to the page. */
const operations = {
  async open({ powerPreference }) {
    release();
    loaded ??= init();
    await loaded.catch((error) => {
      loaded = null; // the next attempt loads again
      throw error;
    });
    const opened = await Device.open({ powerPreference });
    device = opened;
    opened.lost.then((detail) => {
      // The later loss of an older device doesn't matter.
      if (device !== opened) return;
      postMessage({ event: 'lost', detail });
      const error = Object.assign(new Error(`the device was lost: ${detail.message}`), { code: 'device-lost' });
      for (const reject of pending) reject(error);
    });
    return { report: opened.report, version: version() };
  },

  // Checks one list of cases: `start` for the self-check, `training`, or `all`.
  async check({ of }, { signal, progress }) {
    const list = await (await load(`./cases/${of}.json`)).json();
    if (list.length === 0) throw new Error('the list of cases is empty');
    const files = list.map(({ file }) => load(`./cases/${file}`).then((answer) => answer.arrayBuffer()));
    for (const file of files) file.catch(() => {}); // awaited below, in order
    // Two cases overlap: one is compiled here while the browser's GPU process compiles the other.
    let next = checkOne(files[0]);
    for (const [at, { name }] of list.entries()) {
      signal.throwIfAborted();
      const current = next;
      next = at + 1 < list.length ? checkOne(files[at + 1]) : null;
      next?.catch(() => {}); // awaited in its turn
      progress({ of: list.length, done: at + 1, name, ...(await current) });
    }
  },

  async forward({ options, x }, { signal }) {
    const key = JSON.stringify(options);
    if (layer?.key !== key) {
      drop(layer?.layer);
      layer = null;
      layer = { key, layer: new MoeLayer(opened(), options), warm: 0 };
    }
    const first = layer.warm !== x.length;
    const started = performance.now();
    const output = await layer.layer.forward(x, { signal });
    const milliseconds = performance.now() - started;
    const { y, experts, weights, topK, load, capacity, dropped, losses } = output;
    const bytes = layer.layer.bytes;
    layer.warm = x.length;
    const routing = { experts, weights, topK, load, capacity: capacity ?? null, dropped, losses };
    return { y, ...routing, bytes, milliseconds, first };
  },

  async bench({ options }, { signal, progress }) {
    const onProgress = (done, of) => progress({ done, of });
    const report = await bench(opened(), { ...options, signal, onProgress });
    return { ...report, timesMs: [...report.timesMs] };
  },

  async trainCreate({ options, points, labels }) {
    drop(training);
    training = null;
    training = new MoeTraining(opened(), options, points, labels);
    return { parameters: training.parameters };
  },

  async trainStep({ count }, { signal }) {
    const started = performance.now();
    const report = await created().step(count, { signal });
    return { ...report, perStep: (performance.now() - started) / count };
  },

  async trainPredict({ points }) {
    const { classes, probabilities, experts } = await created().predict(points);
    return { classes, probabilities, experts };
  },

  // Loads a visitor's files, or those of the page's own model; they are read piece by piece where they are.
  async textLoad({ files, precision, adapter }, { signal, progress }) {
    drop(text);
    text = null;
    const onProgress = (read, of) => progress({ read, of });
    const options = { precision, adapter, signal, onProgress };
    text = await TextModel.load(opened(), files ?? (await shipped()), options);
    return text.report;
  },

  async textGenerate({ options }, { signal, progress }) {
    if (!text) throw new Error('expected a model, got none');
    return text.generate({ ...options, signal, onToken: progress });
  },

  // What the page's own model computes for a text, part by part.
  async textCompute({ ids }) {
    const model = await TextModel.load(opened(), await shipped());
    try {
      const started = performance.now();
      const computed = await model.compute(Uint32Array.from(ids));
      const milliseconds = performance.now() - started;
      return { ...computed, milliseconds, inUse: (await opened().memory()).inUse };
    } finally {
      drop(model);
    }
  },

  // Loads the model again to fine-tune it; the one that writes makes room, and so does an earlier training.
  async tuneCreate({ files, options }, { signal, progress }) {
    for (const object of [text, tuning]) drop(object);
    text = tuning = null;
    const onProgress = (read, of) => progress({ read, of });
    tuning = await AdapterTraining.load(opened(), files ?? (await shipped()), { ...options, signal, onProgress });
    return tuning.report;
  },

  async tuneStep({ count }, { signal }) {
    const { step, losses, milliseconds } = await begun().step(count, { signal });
    return { step, losses, perStep: milliseconds / losses.length };
  },

  async tuneAdapter() {
    return begun().adapter();
  },

  async tuneEnd() {
    drop(tuning);
    tuning = null;
  },

  async memory() {
    return opened().memory();
  },
};

/** The files of the page's own model, by name; fetched once. */
let own = null;
async function shipped() {
  if (own) return own;
  const names = await (await load('./model/files.json')).json();
  if (names.length === 0) throw new Error('this page was built without a model: drop one of your own');
  const blobs = await Promise.all(names.map(async (name) => (await load(`./model/${name}`)).blob()));
  own = Object.fromEntries(names.map((name, at) => [name, blobs[at]]));
  return own;
}

/** Operations that run at once, without waiting for others. */
const immediate = {
  lose() {
    opened().destroy();
  },
  // Throws outside of any call, as a trap inside a callback of the module does.
  throwLater() {
    setTimeout(() => {
      throw new Error('thrown on request');
    });
  },
};

function opened() {
  if (!device) throw Object.assign(new Error('expected an open device, got none'), { code: 'disposed' });
  return device;
}

function created() {
  if (!training) throw new Error('expected a training, got none');
  return training;
}

function begun() {
  if (!tuning) throw new Error('expected a training of an adapter, got none');
  return tuning;
}

/** Frees the memory of an object on the device, and its handle. */
function drop(object) {
  object?.dispose();
  object?.free();
}

/** Frees everything on the device, and the device. */
function release() {
  const old = device;
  for (const object of [training, layer?.layer, text, tuning]) drop(object);
  training = layer = text = tuning = device = null;
  old?.destroy();
  old?.free();
}

async function load(path) {
  const answer = await fetch(new URL(path, import.meta.url));
  if (!answer.ok) throw new Error(`${path}: expected status 200, got ${answer.status}`);
  return answer;
}

/** Verifies one case and returns `{report}` or `{error}`; throws only if the device is gone or the module trapped. */
async function checkOne(file) {
  const device = opened();
  try {
    return { report: await device.verify(new Uint8Array(await file)) };
  } catch (error) {
    if (error.code === 'device-lost' || error.code === 'disposed' || isTrap(error)) throw error;
    return { error: fields(error) };
  }
}

/** The fields of an error that go to the page. The `code` of a DOMException is a number without meaning there. */
function fields(error) {
  const code = error?.name === 'AbortError' ? 'cancelled' : error?.code;
  return {
    name: error?.name ?? 'Error',
    code: typeof code === 'string' ? code : 'device',
    message: error?.message ?? String(error),
  };
}

const isTrap = (error) => error instanceof WebAssembly.RuntimeError;

/** Buffers of a result that are transferred to the page rather than copied. */
function buffersOf(result) {
  const arrays = Object.values(result ?? {}).filter((value) => ArrayBuffer.isView(value));
  return [...new Set(arrays.map((array) => array.buffer))];
}

async function serve({ id, operation, values }) {
  const controller = new AbortController();
  running.set(id, controller);
  const { signal } = controller;
  const progress = (value) => postMessage({ id, progress: value });
  const turn = queue.then(async () => {
    signal.throwIfAborted();
    return unlessLost(operations[operation](values, { signal, progress }));
  });
  queue = turn.catch(() => {});
  await answer(id, turn);
  running.delete(id);
}

/** Settles as `work` does, or rejects as soon as the device is lost. */
function unlessLost(work) {
  return new Promise((resolve, reject) => {
    pending.add(reject);
    work.then(resolve, reject).finally(() => pending.delete(reject));
  });
}

async function answer(id, outcome) {
  try {
    const result = await outcome;
    postMessage({ id, result }, buffersOf(result));
  } catch (error) {
    postMessage({ id, error: fields(error) });
    if (isTrap(error)) postMessage({ event: 'trap', message: error.message });
  }
}

addEventListener('message', ({ data }) => {
  if ('cancel' in data) running.get(data.cancel)?.abort();
  else if (data.operation in immediate) answer(data.id, (async () => immediate[data.operation]())());
  else serve(data);
});

// A rejected promise without a handler: the module's own tasks end like this after a trap.
addEventListener('unhandledrejection', ({ reason }) => {
  if (isTrap(reason)) postMessage({ event: 'trap', message: reason.message });
});
