// Contender TensorFlow.js, on its WebGPU backend.

import * as tf from '@tensorflow/tfjs-core';
import '@tensorflow/tfjs-backend-webgpu';

export async function open() {
  if (!await tf.setBackend('webgpu')) throw new Error('expected the webgpu backend, got none');
  await tf.ready();
  const { vendor, architecture } = tf.backend().device.adapterInfo;
  return { version: tf.version_core, adapter: { vendor, architecture }, prepare };
}

const prepare = async (work) => (work.kind === 'attention' ? attention(work) : matmul(work));

function matmul({ m, n, k, a, b }) {
  const left = tf.tensor2d(a, [m, k]);
  const right = tf.tensor2d(b, [k, n]);
  const run = async () => {
    const y = tf.matMul(left, right);
    const values = await y.data();
    y.dispose();
    return values;
  };
  const close = () => tf.dispose([left, right]);
  return { run, close };
}

/** Attention from products and a softmax, since TensorFlow.js has no operator for it. */
function attention({ heads, tokens, headDim }) {
  const tensor = (values) => tf.tensor3d(values, [heads, tokens, headDim]);
  const run = async ({ apart }) => {
    const y = tf.tidy(() => {
      const scores = tf.matMul(tf.mul(tensor(apart.q), 1 / Math.sqrt(headDim)), tensor(apart.k), false, true);
      return tf.matMul(tf.softmax(scores), tensor(apart.v));
    });
    const values = await y.data();
    y.dispose();
    return values;
  };
  return { run, close: () => {} };
}
