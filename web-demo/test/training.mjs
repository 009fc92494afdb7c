// Tests of training in a page: it learns, is repeatable, stops when told, and continues.
import assert from 'node:assert/strict';

export const tests = [
  theLossFallsAndRunsRepeat,
  predictionsAreConsistent,
  abortingStopsTraining,
  abortingStopsABenchmark,
  aSignalThatHasFiredStopsACallAtOnce,
  stepsMayOverlap,
];

/** Runs in a page or worker: a training with its reports and predictions. */
async function train({ seed, steps }) {
  const { device, moebius, spirals } = globalThis.bench;
  const { points, labels } = spirals(256);
  const options = { classes: 2, experts: 4, topK: 1, seed };
  const training = new moebius.MoeTraining(await device(), options, points, labels);
  const reports = [];
  const plain = (report) => reports.push({ ...report, load: [...report.load], milliseconds: 0 });
  plain(await training.step());
  while (training.steps < steps) plain(await training.step(Math.min(20, steps - training.steps)));
  const { classes, probabilities, experts } = await training.predict(points);
  const right = labels.reduce((count, label, i) => count + (classes[i] === label), 0);
  const result = {
    reports,
    steps: training.steps,
    parameters: training.parameters,
    right: right / labels.length,
    classes: [...classes],
    probabilities: [...probabilities],
    experts: [...experts],
  };
  training.free();
  return result;
}

async function theLossFallsAndRunsRepeat(lab) {
  const [page, worker] = [await lab.bench(), await lab.benchInWorker()];
  const steps = 101;
  const one = await page.evaluate(train, { seed: 5, steps });
  const { reports } = one;
  const [first, last] = [reports[0], reports.at(-1)];
  lab.note(
    `loss ${first.loss.toFixed(3)} at step 1, ${last.loss.toFixed(3)} at step ${last.step}, accuracy ${last.accuracy}`,
  );
  assert.equal(first.step, 1);
  assert.equal(last.step, steps);
  assert.equal(one.steps, steps);
  // Guessing between two classes costs ln 2.
  assert.ok(first.loss > 0.4 && first.loss < 2, `expected the first loss near ln 2, got ${first.loss}`);
  assert.ok(last.loss < 0.5 * first.loss, `expected less than half of ${first.loss}, got ${last.loss}`);
  assert.ok(last.accuracy > 0.9 && one.right > 0.9, `expected over 0.9 right, got ${last.accuracy} and ${one.right}`);
  for (const { load, balance } of reports) {
    assert.equal(
      load.reduce((a, b) => a + b),
      256,
      `load ${load}`,
    );
    assert.ok(Number.isFinite(balance) && balance > 0, `balance ${balance}`);
  }
  // The same seed gives the same training in another thread; another seed does not.
  const two = await worker.evaluate(train, { seed: 5, steps: 41 });
  assert.deepEqual(two.reports, reports.slice(0, two.reports.length));
  const other = await worker.evaluate(train, { seed: 6, steps: 1 });
  assert.notEqual(other.reports[0].loss, first.loss);
}

async function predictionsAreConsistent(lab) {
  const page = await lab.bench();
  const { classes, probabilities, experts, parameters } = await page.evaluate(train, { seed: 1, steps: 10 });
  assert.ok(parameters > 100, `${parameters} parameters`);
  classes.forEach((chosen, i) => {
    const [a, b] = probabilities.slice(2 * i, 2 * i + 2);
    assert.ok(Math.abs(a + b - 1) < 1e-5, `probabilities ${a} and ${b} of point ${i}`);
    assert.equal(chosen, a >= b ? 0 : 1, `class of point ${i} with ${a} and ${b}`);
    assert.ok(experts[i] >= 0 && experts[i] < 4, `expert ${experts[i]} of point ${i}`);
  });
}

/** Runs in a page: aborts a long training after a moment, then runs a short one. */
async function abortTraining() {
  const { device, moebius, spirals, attempt } = globalThis.bench;
  const { points, labels } = spirals(64);
  const training = new moebius.MoeTraining(await device(), { classes: 2, seed: 1 }, points, labels);
  await training.step(2);
  const controller = new AbortController();
  let aborted;
  setTimeout(() => {
    aborted = performance.now();
    controller.abort();
  }, 300);
  const cancelled = await attempt(() => training.step(100_000, { signal: controller.signal }));
  const late = performance.now() - aborted;
  const steps = training.steps;
  const next = await attempt(() => training.step(1));
  const predicted = await attempt(async () => (await training.predict(points)).classes.length);
  training.free();
  return { cancelled, late, steps, next: { ...next, value: next.value?.step }, predicted };
}

async function abortingStopsTraining(lab) {
  const page = await lab.bench();
  const { cancelled, late, steps, next, predicted } = await page.evaluate(abortTraining);
  lab.note(`stopped ${late.toFixed(0)} ms after the signal, at step ${steps}`);
  assert.equal(cancelled.ok, false);
  assert.equal(cancelled.name, 'MoebiusError');
  assert.equal(cancelled.code, 'cancelled', cancelled.message);
  assert.ok(steps > 2 && steps < 100_000, `${steps} steps`);
  assert.equal(next.value, steps + 1, `a step afterwards: ${next.code}: ${next.message}`);
  assert.equal(predicted.value, 64, `a prediction afterwards: ${predicted.code}: ${predicted.message}`);
}

/** Runs in a page: aborts a benchmark. */
async function abortBench() {
  const { device, moebius, attempt } = globalThis.bench;
  const opened = await device();
  const controller = new AbortController();
  const options = { what: 'matmul', m: 64, n: 64, k: 64 };
  let aborted;
  const onProgress = (done) => {
    if (done !== 2) return;
    aborted = performance.now();
    controller.abort();
  };
  const cancelled = await attempt(() =>
    moebius.bench(opened, { ...options, repeats: 10_000, signal: controller.signal, onProgress }),
  );
  const late = performance.now() - aborted;
  const next = await attempt(async () => (await moebius.bench(opened, { ...options, repeats: 2 })).timesMs.length);
  return { cancelled, late, next };
}

async function abortingStopsABenchmark(lab) {
  const page = await lab.bench();
  const { cancelled, late, next } = await page.evaluate(abortBench);
  lab.note(`stopped ${late.toFixed(0)} ms after the signal`);
  assert.equal(cancelled.code, 'cancelled', cancelled.message);
  assert.equal(next.value, 2, `a benchmark afterwards: ${next.code}: ${next.message}`);
}

/** Runs in a page: makes calls with signals that are already aborted. */
async function abortedBefore() {
  const { device, moebius, spirals, normal, attempt } = globalThis.bench;
  const opened = await device();
  const signal = AbortSignal.abort();
  const { points, labels } = spirals(16);
  const training = new moebius.MoeTraining(opened, { classes: 2 }, points, labels);
  const layer = new moebius.MoeLayer(opened, { hidden: 16, inter: 16, experts: 2 });
  const linear = new moebius.Fp8Linear(opened, { inputs: 32, outputs: 16 }, normal(1, 512));
  const results = {
    step: await attempt(() => training.step(1, { signal })),
    forward: await attempt(() => layer.forward(normal(1, 32), { signal })),
    linear: await attempt(() => linear.forward(normal(1, 64), { signal })),
    bench: await attempt(() => moebius.bench(opened, { what: 'matmul', m: 8, n: 8, k: 8, signal })),
  };
  const after = {
    steps: training.steps,
    forward: (await layer.forward(normal(1, 32))).y.length,
    linear: (await linear.forward(normal(1, 64))).length,
  };
  return { results, after };
}

async function aSignalThatHasFiredStopsACallAtOnce(lab) {
  const page = await lab.bench();
  const { results, after } = await page.evaluate(abortedBefore);
  for (const [call, { ok, name, code, message }] of Object.entries(results)) {
    assert.deepEqual({ ok, name, code }, { ok: false, name: 'MoebiusError', code: 'cancelled' }, `${call}: ${message}`);
  }
  assert.deepEqual(after, { steps: 0, forward: 32, linear: 32 });
}

/** Runs in a page: overlapping calls, as by an impatient visitor. */
async function overlappingSteps() {
  const { device, moebius, spirals, attempt } = globalThis.bench;
  const { points, labels } = spirals(32);
  const training = new moebius.MoeTraining(await device(), { classes: 2, seed: 2 }, points, labels);
  const calls = [training.step(2), training.predict(points), training.step(3), training.predict(points)];
  const results = await Promise.all(calls.map((call) => attempt(() => call)));
  const next = await attempt(async () => (await training.step(1)).step);
  return { results: results.map(({ ok, name, message }) => ({ ok, name, message })), next, steps: training.steps };
}

/**
 * Checks that overlapping calls either all happen, in some order, or are refused with an error of the package, not of
 * wasm-bindgen.
 */
async function stepsMayOverlap(lab) {
  const page = await lab.bench();
  const { results, next, steps } = await page.evaluate(overlappingSteps);
  for (const { ok, name, message } of results) assert.ok(ok || name === 'MoebiusError', `${name}: ${message}`);
  assert.ok(results[0].ok, `the first call: ${results[0].message}`);
  assert.equal(next.value, steps, `a step afterwards: ${next.message}`);
  const done = (results[0].ok ? 2 : 0) + (results[2].ok ? 3 : 0) + 1;
  assert.equal(steps, done);
}
