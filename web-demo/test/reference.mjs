// A mixture-of-experts layer in plain JavaScript and f64, written from the formulas, to compare the package with.

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

/** erf by its series at 0, and by the continued fraction of erfc far from it; good to 1e-14. */
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

/** Row `row` of a row-major matrix times a vector. */
function dot(matrix, row, vector) {
  return vector.reduce((sum, value, i) => sum + matrix[row * vector.length + i] * value, 0);
}

/** Softmax over all experts, the best `topK`, weights that sum to 1. A tie goes to the lower expert. */
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

/** @param {Sizes} sizes @param {Weights} weights @param {number[]} x [tokens, hidden] */
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

/** ‖got − expected‖ / ‖expected‖. @param {ArrayLike<number>} got @param {ArrayLike<number>} expected */
export function relativeError(got, expected) {
  if (got.length !== expected.length) return Infinity;
  let [difference, norm] = [0, 0];
  for (let i = 0; i < got.length; i++) {
    difference += (got[i] - expected[i]) ** 2;
    norm += expected[i] ** 2;
  }
  return Math.sqrt(difference / norm);
}
