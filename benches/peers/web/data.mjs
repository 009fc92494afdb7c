// Inputs of the workloads, drawn from a fixed seed, and expected results, computed in f64 on the host.

/** Uniform random values in [-1, 1) with 24 bits, from Marsaglia's xorshift32. */
class Uniform {
  constructor(seed) {
    this.state = seed >>> 0 || 1;
  }

  next() {
    let s = this.state;
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    this.state = s >>> 0;
    return (this.state >>> 8) / 2 ** 23 - 1;
  }

  fill(length, scale = 1) {
    return Float32Array.from({ length }, () => this.next() * scale);
  }
}

/** out[m, n] += a[m, k] · b[k, n], in f64. */
function addProduct(out, a, b, [m, n, k]) {
  for (let i = 0; i < m; i++) {
    const row = out.subarray(i * n, (i + 1) * n);
    for (let p = 0; p < k; p++) {
      const factor = a[i * k + p];
      const from = p * n;
      for (let j = 0; j < n; j++) row[j] += factor * b[from + j];
    }
  }
}

/** Workload y = a · b with a and b [size, size]. The device holds a and b before any timed run. */
export function matmul(size) {
  const random = new Uniform(0x5eed0 + size);
  const a = random.fill(size * size);
  const b = random.fill(size * size);
  const y = new Float64Array(size * size);
  addProduct(y, a, b, [size, size, size]);
  return {
    name: `matmul ${size}³`,
    flops: 2 * size ** 3,
    m: size, n: size, k: size, a, b,
    cases: [{ input: undefined, expected: y }],
  };
}

/** Copy of `values` [count, rows, columns] with the last two dimensions swapped. */
export function transposed(values, [count, rows, columns]) {
  const out = new Float32Array(values.length);
  for (let e = 0; e < count; e++) {
    const at = e * rows * columns;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) out[at + c * rows + r] = values[at + r * columns + c];
    }
  }
  return out;
}

/** Router probabilities of one token: softmax over all experts, in f64. */
function probabilities(x, router, experts) {
  const hidden = x.length;
  const logits = Array.from({ length: experts }, (_, e) => {
    let sum = 0;
    for (let h = 0; h < hidden; h++) sum += x[h] * router[e * hidden + h];
    return sum;
  });
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

/** The top-k experts of one token, best first, with weights that add up to 1. */
function route(x, layer) {
  const { router, experts, topK } = layer;
  const share = probabilities(x, router, experts);
  const order = share.map((_, e) => e).sort((a, b) => share[b] - share[a]);
  const gap = share[order[topK - 1]] - share[order[topK]];
  // Rounding in f32 must not decide which experts are chosen, since contenders sum in different orders.
  if (!(gap > 1e-6)) throw new Error(`expected a clear choice of experts, got a gap of ${gap}`);
  const chosen = order.slice(0, topK);
  const total = chosen.reduce((sum, e) => sum + share[e], 0);
  return chosen.map((e) => ({ expert: e, weight: share[e] / total }));
}

/** Output y [tokens, hidden] of the layer in f64, and how many (token, expert) slots each expert got. */
function moeReference(layer, x) {
  const { tokens, hidden, inter, experts, columnsIn, columnsOut } = layer;
  const y = new Float64Array(tokens * hidden);
  const load = new Array(experts).fill(0);
  const rows = new Float64Array(inter);
  for (let t = 0; t < tokens; t++) {
    const token = x.subarray(t * hidden, (t + 1) * hidden);
    for (const { expert, weight } of route(token, layer)) {
      load[expert]++;
      const at = expert * hidden * inter;
      rows.fill(0);
      addProduct(rows, token, columnsIn.subarray(at, at + hidden * inter), [1, inter, hidden]);
      for (let f = 0; f < inter; f++) rows[f] = weight * Math.max(rows[f], 0);
      const out = y.subarray(t * hidden, (t + 1) * hidden);
      addProduct(out, rows, columnsOut.subarray(at, at + hidden * inter), [1, hidden, inter]);
    }
  }
  return { y, load };
}

/**
 * Workload of one mixture-of-experts layer: dropless, relu, top-k of a softmax with renormalised weights. Weights are
 * on the device before any timed run; x [tokens, hidden] is uploaded in every run. `columnsIn` [experts, hidden, inter]
 * and `columnsOut` [experts, inter, hidden] are wIn and wOut transposed, as a plain matrix product reads them.
 */
export function moe({ tokens, hidden, inter, experts, topK }) {
  const random = new Uniform(0x5eed);
  const router = random.fill(experts * hidden, 3 / Math.sqrt(hidden));
  const wIn = random.fill(experts * inter * hidden, 1 / Math.sqrt(hidden));
  const wOut = random.fill(experts * hidden * inter, 1 / Math.sqrt(inter));
  const layer = {
    tokens, hidden, inter, experts, topK, router, wIn, wOut,
    columnsIn: transposed(wIn, [experts, inter, hidden]),
    columnsOut: transposed(wOut, [experts, hidden, inter]),
  };
  // Two different inputs, so that a run that returns the result of the previous run fails the check.
  const cases = [random.fill(tokens * hidden), random.fill(tokens * hidden)].map((input) => {
    const { y, load } = moeReference(layer, input);
    return { input, expected: y, load };
  });
  return {
    name: `MoE layer ${tokens} × ${hidden}, inter ${inter}, ${experts} experts, top-${topK}`,
    flops: 4 * tokens * topK * hidden * inter,
    ...layer,
    load: cases.map((one) => one.load),
    cases,
  };
}

/** Reorders values [heads, tokens, headDim] to [tokens, heads, headDim]. */
function side(values, { heads, tokens, headDim }) {
  const out = new Float32Array(values.length);
  for (let h = 0; h < heads; h++) {
    for (let t = 0; t < tokens; t++) {
      const from = (h * tokens + t) * headDim;
      out.set(values.subarray(from, from + headDim), (t * heads + h) * headDim);
    }
  }
  return out;
}

/** Reorders values [tokens, heads, headDim] to [heads, tokens, headDim]. */
export const apart = (values, { heads, tokens, headDim }) => side(values, { heads: tokens, tokens: heads, headDim });

/** Attention output o [heads, tokens, headDim] in f64. */
function attentionReference({ heads, tokens, headDim }, { q, k, v }) {
  const y = new Float64Array(heads * tokens * headDim);
  const columns = transposed(k, [heads, tokens, headDim]);
  for (let h = 0; h < heads; h++) {
    const [from, to] = [h * tokens * headDim, (h + 1) * tokens * headDim];
    for (let at = from; at < to; at += headDim) {
      const scores = new Float64Array(tokens);
      addProduct(scores, q.subarray(at, at + headDim), columns.subarray(from, to), [1, tokens, headDim]);
      const most = scores.reduce((a, b) => Math.max(a, b));
      const powers = scores.map((score) => Math.exp((score - most) / Math.sqrt(headDim)));
      const total = powers.reduce((a, b) => a + b);
      const shares = powers.map((power) => power / total);
      addProduct(y.subarray(at, at + headDim), shares, v.subarray(from, to), [1, headDim, tokens]);
    }
  }
  return y;
}

/**
 * Workload of attention: every query attends to every key of its head, in one sequence, with scores scaled by
 * 1/√headDim. q, k and v are uploaded in every run; `apart` has them as [heads, tokens, headDim], `side` as [tokens,
 * heads, headDim].
 */
export function attention({ heads, tokens, headDim }) {
  const random = new Uniform(0x5eed);
  const sizes = { heads, tokens, headDim };
  const count = heads * tokens * headDim;
  const cases = [0, 1].map(() => {
    // Queries are scaled up, so that some keys get far larger weights than others.
    const own = { q: random.fill(count, 4), k: random.fill(count), v: random.fill(count) };
    const beside = Object.fromEntries(Object.entries(own).map(([name, values]) => [name, side(values, sizes)]));
    return { input: { apart: own, side: beside }, expected: attentionReference(sizes, own) };
  });
  return {
    name: `attention, ${heads} heads, ${tokens} × ${tokens}, head ${headDim}`,
    flops: 4 * heads * tokens * tokens * headDim,
    ...sizes,
    cases,
  };
}

/** Relative L2 error, and the largest absolute error as a share of the root mean square of the expected values. */
export function difference(actual, expected) {
  if (!(actual instanceof Float32Array) || actual.length !== expected.length) {
    throw new Error(`expected ${expected.length} values, got ${actual?.length} in a ${actual?.constructor?.name}`);
  }
  let off = 0;
  let all = 0;
  let largest = 0;
  for (let i = 0; i < expected.length; i++) {
    const error = Math.abs(actual[i] - expected[i]);
    if (error > largest) largest = error;
    // A NaN in the results makes this sum NaN.
    off += error * error;
    all += expected[i] * expected[i];
  }
  return { relL2: Math.sqrt(off / all), largest: largest / Math.sqrt(all / expected.length) };
}
