// TensorFlow.js on its WebGPU backend.

import * as tf from '@tensorflow/tfjs-core';
import '@tensorflow/tfjs-backend-webgpu';

export async function open() {
  if (!await tf.setBackend('webgpu')) throw new Error('expected the webgpu backend, got none');
  await tf.ready();
  const { vendor, architecture } = tf.backend().device.adapterInfo;
  return { version: tf.version_core, adapter: { vendor, architecture }, prepare };
}

async function prepare({ m, n, k, a, b }) {
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
