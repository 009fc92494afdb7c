// onnxruntime-web, on its WebGPU provider or its wasm provider.

import { matmulModel, moeModel } from './onnx.mjs';

const FOLDER = new URL('./node_modules/onnxruntime-web/dist/', import.meta.url).href;

/**
 * `build` names the bundle, `provider` is 'webgpu' or 'wasm'. `form` and `gates` choose the graph of the MoE layer;
 * `capture` records a run's commands and repeats them.
 */
export async function open({ build, provider, ...settings }) {
  const ort = await import(`${FOLDER}ort.${build}.bundle.min.mjs`);
  ort.env.wasm.wasmPaths = FOLDER;
  ort.env.wasm.numThreads = navigator.hardwareConcurrency;
  ort.env.webgpu.powerPreference = 'high-performance';
  const version = ort.env.versions.web ?? ort.env.versions.common;
  if (provider === 'wasm') return { version, prepare: (work) => onCpu(ort, work, settings) };
  // The device lives from the first session to the last, so this one stays.
  await session(ort, matmulModel({ m: 4, n: 4, k: 4 }), gpuOptions({}));
  const device = await ort.env.webgpu.device;
  const { vendor, architecture } = device.adapterInfo;
  return { version, adapter: { vendor, architecture }, prepare: (work) => onGpu(ort, device, work, settings) };
}

function session(ort, model, options) {
  return ort.InferenceSession.create(model, { graphOptimizationLevel: 'all', ...options });
}

function gpuOptions({ capture = false }) {
  return {
    executionProviders: [{ name: 'webgpu', validationMode: 'disabled' }],
    preferredOutputLocation: 'gpu-buffer',
    enableGraphCapture: capture,
    // Operators without a WebGPU kernel would run on the CPU and not say so.
    extra: { session: { disable_cpu_ep_fallback: '1' } },
  };
}

function modelOf(work, { form, gates = 'scatter' }) {
  return work.kind === 'moe' ? moeModel(work, form, gates) : matmulModel(work);
}

function dimsOf(work) {
  const { m, n, k, tokens, hidden } = work;
  return work.kind === 'moe' ? { x: [tokens, hidden], y: [tokens, hidden] } : { a: [m, k], b: [k, n], y: [m, n] };
}

async function onCpu(ort, work, settings) {
  const created = await session(ort, modelOf(work, settings), { executionProviders: ['wasm'] });
  const dims = dimsOf(work);
  const feed = (name, values) => new ort.Tensor('float32', values, dims[name]);
  const fixed = Object.fromEntries(created.inputNames.filter((name) => name !== 'x').map((n) => [n, feed(n, work[n])]));
  const run = async (x) => (await created.run(x ? { x: feed('x', x) } : fixed)).y.data;
  return { run, close: () => created.release() };
}

/** A tensor in a buffer of its own. */
function held(ort, device, dims) {
  const size = 4 * dims.reduce((a, b) => a * b);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  const buffer = device.createBuffer({ size, usage });
  return { size, buffer, tensor: ort.Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims }) };
}

/** Copies the buffer to the host, once all work before is done. */
async function download(device, { buffer, size }, staging) {
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(staging.getMappedRange().slice(0));
  staging.unmap();
  return values;
}

/** Inputs and output stay in buffers of their own; x is written into its buffer before each run. */
async function onGpu(ort, device, work, settings) {
  const created = await session(ort, modelOf(work, settings), gpuOptions(settings));
  const dims = dimsOf(work);
  const inputs = Object.fromEntries(created.inputNames.map((name) => [name, held(ort, device, dims[name])]));
  for (const [name, { buffer }] of Object.entries(inputs)) {
    if (name !== 'x') device.queue.writeBuffer(buffer, 0, work[name]);
  }
  const feeds = Object.fromEntries(Object.entries(inputs).map(([name, { tensor }]) => [name, tensor]));
  const y = held(ort, device, dims.y);
  const staging = device.createBuffer({ size: y.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const run = async (x) => {
    if (x) device.queue.writeBuffer(inputs.x.buffer, 0, x);
    await created.run(feeds, { y: y.tensor });
    return download(device, y, staging);
  };
  const close = async () => {
    await created.release();
    for (const buffer of [...Object.values(inputs).map((input) => input.buffer), y.buffer, staging]) buffer.destroy();
  };
  return { run, close };
}
