// Contender onnxruntime-web, on its WebGPU provider or its wasm provider.

import { apart } from './data.mjs';
import { attentionModel, matmulModel, moeModel } from './onnx.mjs';

const FOLDER = new URL('./node_modules/onnxruntime-web/dist/', import.meta.url).href;

/**
 * Opens onnxruntime-web. `build` names the bundle; `provider` is 'webgpu' or 'wasm'. `form` and `gates` choose the
 * graph of the MoE layer, `form` also that of attention; `capture` records the commands of a run and repeats them. If
 * the adapter's subgroups have fewer than `leastSubgroup` units, the device gets no subgroups.
 */
export async function open({ build, provider, leastSubgroup, ...settings }) {
  const ort = await import(`${FOLDER}ort.${build}.bundle.min.mjs`);
  ort.env.wasm.wasmPaths = FOLDER;
  ort.env.wasm.numThreads = navigator.hardwareConcurrency;
  ort.env.webgpu.powerPreference = 'high-performance';
  const version = ort.env.versions.web ?? ort.env.versions.common;
  if (provider === 'wasm') return { version, prepare: (work) => onCpu(ort, work, settings) };
  const own = await withoutSubgroups(leastSubgroup);
  // onnxruntime's device lives from its first session to its last, so this session stays open.
  await session(ort, matmulModel({ m: 4, n: 4, k: 4 }), gpuOptions({ own }));
  const device = own ?? await ort.env.webgpu.device;
  const { vendor, architecture } = device.adapterInfo;
  const prepare = (work) => onGpu(ort, device, work, { ...settings, own });
  return { version, adapter: { vendor, architecture }, prepare };
}

/** A device with all features of its adapter but subgroups; undefined where subgroups have at least `least` units. */
async function withoutSubgroups(least = 0) {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter.info.subgroupMinSize >= least) return undefined;
  const requiredFeatures = [...adapter.features].filter((name) => !name.includes('subgroup'));
  const limits = Object.keys(Object.getPrototypeOf(adapter.limits)).map((name) => [name, adapter.limits[name]]);
  const requiredLimits = Object.fromEntries(limits.filter(([, value]) => typeof value === 'number'));
  return adapter.requestDevice({ requiredFeatures, requiredLimits });
}

function session(ort, model, options) {
  return ort.InferenceSession.create(model, { graphOptimizationLevel: 'all', ...options });
}

function gpuOptions({ own, capture = false }) {
  return {
    executionProviders: [{ name: 'webgpu', validationMode: 'disabled', ...(own && { device: own }) }],
    preferredOutputLocation: 'gpu-buffer',
    enableGraphCapture: capture,
    // Otherwise, operators without a WebGPU kernel would silently run on the CPU.
    extra: { session: { disable_cpu_ep_fallback: '1' } },
  };
}

function modelOf(work, { form, gates = 'scatter' }) {
  if (work.kind === 'attention') return attentionModel(work, form);
  return work.kind === 'moe' ? moeModel(work, form, gates) : matmulModel(work);
}

function dimsOf(work, { form }) {
  const { m, n, k, tokens, hidden, heads, headDim } = work;
  if (work.kind === 'matmul') return { a: [m, k], b: [k, n], y: [m, n] };
  if (work.kind === 'moe') return { x: [tokens, hidden], y: [tokens, hidden] };
  const dims = form === 'fused' ? [1, tokens, heads * headDim] : [heads, tokens, headDim];
  return { q: dims, k: dims, v: dims, y: dims };
}

/** Inputs that change with each run, by the model's names. The model's other inputs are properties of `work`. */
function given(work, input, { form }) {
  if (work.kind === 'attention') return form === 'fused' ? input.side : input.apart;
  return input ? { x: input } : {};
}

/**
 * Function that reorders a result to the reference's layout: MultiHeadAttention has the heads of a token side by side.
 */
const orderOf = (work, { form }) => (form === 'fused' ? (values) => apart(values, work) : undefined);

async function onCpu(ort, work, settings) {
  const created = await session(ort, modelOf(work, settings), { executionProviders: ['wasm'] });
  const dims = dimsOf(work, settings);
  const feeds = (values) => Object.fromEntries(Object.entries(values)
    .map(([name, one]) => [name, new ort.Tensor('float32', one, dims[name])]));
  const fixed = feeds(Object.fromEntries(created.inputNames.filter((name) => work[name]).map((n) => [n, work[n]])));
  const run = async (input) => (await created.run({ ...fixed, ...feeds(given(work, input, settings)) })).y.data;
  return { run, order: orderOf(work, settings), close: () => created.release() };
}

/** A tensor in its own GPU buffer. */
function held(ort, device, dims) {
  const size = 4 * dims.reduce((a, b) => a * b);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  const buffer = device.createBuffer({ size, usage });
  return { size, buffer, tensor: ort.Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims }) };
}

/** Copies a GPU buffer to the host, once all work before is done. */
async function download(device, { buffer, size }, staging) {
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(staging.getMappedRange().slice(0));
  staging.unmap();
  return values;
}

/**
 * Prepares runs on the GPU: inputs and output stay in their own buffers; each run first writes its inputs into them.
 */
async function onGpu(ort, device, work, settings) {
  const created = await session(ort, modelOf(work, settings), gpuOptions(settings));
  const dims = dimsOf(work, settings);
  const inputs = Object.fromEntries(created.inputNames.map((name) => [name, held(ort, device, dims[name])]));
  for (const [name, { buffer }] of Object.entries(inputs)) {
    if (work[name]) device.queue.writeBuffer(buffer, 0, work[name]);
  }
  const feeds = Object.fromEntries(Object.entries(inputs).map(([name, { tensor }]) => [name, tensor]));
  const y = held(ort, device, dims.y);
  const staging = device.createBuffer({ size: y.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const run = async (input) => {
    for (const [name, values] of Object.entries(given(work, input, settings))) {
      device.queue.writeBuffer(inputs[name].buffer, 0, values);
    }
    await created.run(feeds, { y: y.tensor });
    return download(device, y, staging);
  };
  const close = async () => {
    await created.release();
    for (const buffer of [...Object.values(inputs).map((input) => input.buffer), y.buffer, staging]) buffer.destroy();
  };
  return { run, order: orderOf(work, settings), close };
}
