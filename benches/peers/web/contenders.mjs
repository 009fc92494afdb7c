// Contenders of each workload. Those marked `more` are other settings of a peer that gained nothing on the software
// adapter; on a GPU, where launches weigh more than products, they may.

const OURS = { id: 'moebius', label: 'Moebius', module: './ours.mjs' };
const TFJS = { id: 'tfjs', label: 'tfjs WebGPU', module: './tfjs.mjs' };

/** A contender on onnxruntime-web; `settings` are the arguments of `open` in ort.mjs. */
const ort = (id, label, settings, more = false) => ({
  id, label: `onnxruntime-web ${label}`, module: './ort.mjs', more,
  settings: { build: 'webgpu', provider: 'webgpu', ...settings },
});

const WASM = { build: 'wasm', provider: 'wasm' };
/**
 * Setting that turns subgroups of fewer than 8 units off: with subgroups of four, as on SwiftShader, MultiHeadAttention
 * of onnxruntime-web 1.30.0 gives wrong results, as the check found. Without subgroups, it shares tiles in workgroup
 * memory.
 */
const WIDE = { leastSubgroup: 8 };
const CAPTURED = { capture: true, gates: 'compare' };

const CONTENDERS = {
  matmul: [
    OURS,
    TFJS,
    ort('ort', 'WebGPU', {}),
    ort('ort-capture', 'WebGPU, captured', CAPTURED, true),
    ort('ort-jspi', 'WebGPU, JSPI build', { build: 'jspi' }, true),
    ort('ort-jsep', 'WebGPU, kernels in JS', { build: 'all' }, true),
    ort('ort-wasm', 'wasm', WASM),
  ],
  moe: [
    OURS,
    ort('ort', 'WebGPU, two products', { form: 'wide' }),
    ort('ort-slotted', 'WebGPU, capacity 1.25', { form: 'slotted' }),
    ort('ort-batched', 'WebGPU, batched', { form: 'batched' }, true),
    ort('ort-capture', 'WebGPU, two products, captured', { form: 'wide', ...CAPTURED }, true),
    ort('ort-slotted-capture', 'WebGPU, capacity 1.25, captured', { form: 'slotted', ...CAPTURED }, true),
    ort('ort-jspi', 'WebGPU, two products, JSPI build', { build: 'jspi', form: 'wide' }, true),
    ort('ort-wasm', 'wasm, two products', { ...WASM, form: 'wide' }),
    ort('ort-wasm-slotted', 'wasm, capacity 1.25', { ...WASM, form: 'slotted' }, true),
  ],
  attention: [
    OURS,
    { ...TFJS, label: 'tfjs WebGPU, products and softmax' },
    ort('ort', 'WebGPU, MultiHeadAttention', { form: 'fused', ...WIDE }),
    ort('ort-subgroups', 'WebGPU, MultiHeadAttention, any subgroups', { form: 'fused' }, true),
    ort('ort-composed', 'WebGPU, products and Softmax', { form: 'composed' }),
    ort('ort-capture', 'WebGPU, MultiHeadAttention, captured', { form: 'fused', capture: true, ...WIDE }, true),
    ort('ort-jspi', 'WebGPU, MultiHeadAttention, JSPI build', { build: 'jspi', form: 'fused', ...WIDE }, true),
    ort('ort-jsep', 'WebGPU, MultiHeadAttention, kernels in JS', { build: 'all', form: 'fused' }, true),
    ort('ort-wasm', 'wasm, MultiHeadAttention', { ...WASM, form: 'fused' }),
  ],
};

/**
 * Contenders of a workload: those whose ids are in `only`; without any there, the usual ones, or all of them with
 * `all`.
 */
export function contendersOf(kind, { only, all }) {
  const wanted = ({ id, more }) => (only.length ? only.includes(id) : all || !more);
  return CONTENDERS[kind].filter(wanted);
}

export const ids = [...new Set(Object.values(CONTENDERS).flat().map(({ id }) => id))];
