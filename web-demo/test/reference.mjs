// A mixture-of-experts layer and an attention in plain JavaScript and f64, written from the formulas, as references for
// the package.

/**
 * @typedef {{ hidden: number, inter: number, experts: number, topK: number, activation: string, gated: boolean }} Sizes
 * @typedef {{ router: number[], wIn: number[], bIn?: number[], wOut: number[], bOut?: number[] }} Weights
 */

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  silu: (x) => x / (1 + Math.exp(-x)),
  mish: (x) => x * Math.tanh(Math.log1p(Math.exp(x))),
};

/** erf by its series near 0 and by the continued fraction of erfc elsewhere, accurate to 1e-14. */
function erf(x) {
  if (Math.abs(x) > 3) {
    const z = Math.abs(x);
    let fraction = 0;
    for (let k = 60; k > 0; k--) fraction = k / 2 / (z + fraction);
    return Math.sign(x) * (1 - Math.exp(-z * z) / Math.sqrt(Math.PI) / (z + fraction));
  }
  let [term, sum] = [x, x];
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
    term *= (-x * x) / k;
    sum += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

/** Product of row `row` of a row-major matrix and a vector. */
function dot(matrix, row, vector) {
  return vector.reduce((sum, value, i) => sum + matrix[row * vector.length + i] * value, 0);
}

/** Routes a token: softmax over all experts, the best `topK`, weights that sum to 1. A tie goes to the lower expert. */
export function route(logits, topK) {
  const top = Math.max(...logits);
  const exponentials = logits.map((logit) => Math.exp(logit - top));
  const sum = exponentials.reduce((a, b) => a + b);
  const probabilities = exponentials.map((value) => value / sum);
  const experts = probabilities
    .map((_, i) => i)
    .sort((a, b) => probabilities[b] - probabilities[a] || a - b)
    .slice(0, topK);
  const chosen = experts.reduce((total, expert) => total + probabilities[expert], 0);
  return {
    experts,
    weights: experts.map((expert) => probabilities[expert] / chosen),
    logSum: top + Math.log(sum),
    probabilities,
  };
}

/** One expert applied to one token. @param {Sizes} sizes @param {Weights} weights */
function feedForward(sizes, weights, expert, token) {
  const { hidden, inter, gated } = sizes;
  const act = ACTIVATIONS[sizes.activation];
  const rows = gated ? 2 * inter : inter;
  const before = Array.from({ length: rows }, (_, row) => {
    const bias = weights.bIn ? weights.bIn[expert * rows + row] : 0;
    return dot(weights.wIn, expert * rows + row, token) + bias;
  });
  const middle = Array.from({ length: inter }, (_, row) =>
    gated ? act(before[row]) * before[inter + row] : act(before[row]),
  );
  return Array.from({ length: hidden }, (_, row) => {
    const bias = weights.bOut ? weights.bOut[expert * hidden + row] : 0;
    return dot(weights.wOut, expert * hidden + row, middle) + bias;
  });
}

/** Output of the layer for x. @param {Sizes} sizes @param {Weights} weights @param {number[]} x [tokens, hidden] */
export function moeLayer(sizes, weights, x) {
  const { hidden, experts, topK } = sizes;
  const tokens = x.length / hidden;
  const y = [];
  const routes = [];
  for (let t = 0; t < tokens; t++) {
    const token = x.slice(t * hidden, (t + 1) * hidden);
    const logits = Array.from({ length: experts }, (_, expert) => dot(weights.router, expert, token));
    const routed = route(logits, topK);
    const row = new Array(hidden).fill(0);
    routed.experts.forEach((expert, k) => {
      feedForward(sizes, weights, expert, token).forEach((value, i) => (row[i] += routed.weights[k] * value));
    });
    y.push(...row);
    routes.push(routed);
  }
  return { y, routes };
}

/**
 * ALiBi's slope of a head: powers of 2^(−8 / n) for n heads, a power of two; other counts add every second slope of 2n.
 */
function slope(head, heads) {
  const n = 2 ** Math.floor(Math.log2(heads));
  return head < n ? 2 ** ((-8 * (head + 1)) / n) : 2 ** ((-8 * (2 * (head - n) + 1)) / (2 * n));
}

/** A score as changed by a rule; −Infinity hides the key. `p` is the query's position among the keys. */
function ruled(s, rule, { i, j, p, head, heads }) {
  const [name, value] = typeof rule === 'string' ? [rule] : Object.entries(rule)[0];
  const only = (seen) => (seen ? s : -Infinity);
  switch (name) {
    case 'causal':
      return only(j <= p);
    case 'causalTopLeft':
      return only(j <= i);
    case 'alibi':
      return s + slope(head, heads) * (j - p);
    case 'window':
      return only(p - j >= 0 && p - j < value);
    case 'symmetricWindow':
      return only(Math.abs(p - j) < value);
    case 'prefix':
      return only(j < value || j <= p);
    case 'global':
      return only(Math.abs(p - j) < value.window || j < value.tokens || p < value.tokens);
    case 'dilated':
      return only((p - j) % value === 0);
    case 'softcap':
      return Number.isFinite(s) ? value * Math.tanh(s / value) : s;
    default:
      throw new Error(`no rule ${name}`);
  }
}

/** Output o and log-sum-exp of one query `q`, with the keys and values of its head as rows. */
function attend(q, { k, v }, valueDim, score) {
  const scores = k.map((key, j) => score(dot(q, 0, key), j));
  const most = Math.max(...scores);
  if (most === -Infinity) return { o: new Array(valueDim).fill(0), lse: -Infinity };
  const lse = most + Math.log(scores.reduce((sum, s) => sum + Math.exp(s - most), 0));
  const shares = scores.map((s) => Math.exp(s - lse));
  const o = Array.from({ length: valueDim }, (_, d) => shares.reduce((sum, p, j) => sum + p * v[j][d], 0));
  return { o, lse };
}

/** Attention with the package's `options`, all sizes given. @param {Record<string, number[]>} inputs */
export function attention(options, inputs) {
  const { batch, heads, kvHeads, queries, keys, headDim, valueDim, rules = [] } = options;
  const scale = options.scale ?? 1 / Math.sqrt(headDim);
  const rows = (values, from, count, width) =>
    Array.from({ length: count }, (_, row) => values.slice((from + row) * width, (from + row + 1) * width));
  const [o, lse] = [[], []];
  for (let b = 0; b < batch; b++) {
    for (let head = 0; head < heads; head++) {
      const from = (b * kvHeads + Math.floor((head * kvHeads) / heads)) * keys;
      const others = { k: rows(inputs.k, from, keys, headDim), v: rows(inputs.v, from, keys, valueDim) };
      rows(inputs.q, (b * heads + head) * queries, queries, headDim).forEach((q, i) => {
        const place = (j) => ({ i, j, p: i + keys - queries, head, heads });
        const score = (raw, j) => rules.reduce((s, rule) => ruled(s, rule, place(j)), scale * raw);
        const one = attend(q, others, valueDim, score);
        o.push(...one.o);
        lse.push(one.lse);
      });
    }
  }
  return { o, lse };
}

/**
 * Relative L2 error ‖got − expected‖ / ‖expected‖.
 * @param {ArrayLike<number>} got @param {ArrayLike<number>} expected
 */
export function relativeError(got, expected) {
  if (got.length !== expected.length) return Infinity;
  let [difference, norm] = [0, 0];
  for (let i = 0; i < got.length; i++) {
    difference += (got[i] - expected[i]) ** 2;
    norm += expected[i] ** 2;
  }
  return Math.sqrt(difference / norm);
}
