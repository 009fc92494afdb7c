// Compiled, never run: a program against the package's types, in which every use that is wrong has to be an error.
import init, {
  AdapterTraining,
  attention,
  bench,
  Device,
  Fp8Linear,
  MoeLayer,
  MoeTraining,
  TextModel,
  version,
} from '../../dist/moebius/moebius.js';
import type {
  AdapterBytes,
  AdapterSteps,
  AttentionOutput,
  AttentionRule,
  BenchReport,
  CaseReport,
  DeviceReport,
  ErrorCode,
  MoebiusError,
  MoeOutput,
  TextModelReport,
  TextToken,
} from '../../dist/moebius/moebius.js';

await init();
const name: string = version();

const device: Device = await Device.open({ powerPreference: 'low-power' });
// @ts-expect-error no such preference
await Device.open({ powerPreference: 'fast' });
const report: DeviceReport = device.report;
const [least, most]: [number, number] = report.subgroups ?? [0, 0];
const kernels: (string | null)[] = report.runs.map(({ kernel }) => kernel);
const bindings: number = report.limits.maxBindings;
const { reason, message }: { reason: 'destroyed' | 'unknown'; message: string } = await device.lost;
const { inUse, reserved }: { inUse: number; reserved: number } = await device.memory();

const checked: CaseReport = await device.verify(new Uint8Array());
const wrong = checked.outputs.filter(({ verdict }) => verdict === 'fail').map(({ maxAbs, relL2 }) => maxAbs + relL2);
// @ts-expect-error a file is bytes
await device.verify('file');

const weights = { router: new Float32Array(4), wIn: new Float32Array(4), wOut: new Float32Array(4) };
const layer = new MoeLayer(device, { hidden: 2, inter: 1, experts: 2, router: 'switch', activation: 'silu' }, weights);
// @ts-expect-error no such router
new MoeLayer(device, { hidden: 2, inter: 1, experts: 2, router: 'best' });
// @ts-expect-error the number of experts is needed
new MoeLayer(device, { hidden: 2, inter: 1 });
// @ts-expect-error no such option
new MoeLayer(device, { hidden: 2, inter: 1, experts: 2, topk: 1 });
const output: MoeOutput = await layer.forward(new Float32Array(2), { signal: new AbortController().signal });
const { y, experts, load }: { y: Float32Array; experts: Int32Array; load: Uint32Array } = output;
const capacity: number | null = output.capacity;
const balance: number = output.losses.switch + output.losses.gshard + output.losses.entropy + (output.losses.z ?? 0);
// @ts-expect-error tokens are numbers in an array that says so
await layer.forward([1, 2]);
const held: number = layer.bytes;
layer.free();

const linear = new Fp8Linear(device, { inputs: 4, outputs: 2, format: 'e5m2', granularity: 'mx' }, new Float32Array(8));
const product: Float32Array = await linear.forward(new Float32Array(4));
// @ts-expect-error no such format
new Fp8Linear(device, { inputs: 4, outputs: 2, format: 'e3m4' }, new Float32Array(8));
linear.free();

const rules: AttentionRule[] = ['alibi', { softcap: 30 }, { global: { tokens: 1, window: 4 } }];
const one = new Float32Array(4);
const attended: AttentionOutput = await attention(device, one, one, one, { heads: 1, queries: 2, headDim: 2, rules });
// @ts-expect-error the size of a head is needed
await attention(device, one, one, one, { heads: 1, queries: 2 });
// @ts-expect-error no such rule
await attention(device, one, one, one, { heads: 1, queries: 2, headDim: 2, rules: ['masked'] });
// @ts-expect-error a window has a size
await attention(device, one, one, one, { heads: 1, queries: 2, headDim: 2, rules: ['window'] });

const training = new MoeTraining(device, { classes: 2, learningRate: 0.1 }, new Float32Array(4), new Uint32Array(2));
const { loss, accuracy } = await training.step(10, {});
const { classes, probabilities } = await training.predict(new Float32Array(4));
const parameters: number = training.steps + training.parameters;
// @ts-expect-error what has been counted can't be set
training.steps = 0;
training.free();

const onToken = ({ id, text, experts }: TextToken): void => void [id, text, experts?.length];
const writer = await TextModel.load(device, { 'a.gguf': new Blob([]) }, { precision: 'fp8', context: 64 });
const { family, experts: layersOfExperts, chat }: TextModelReport = writer.report;
const { text, ids, tokensPerSecond } = await writer.generate({ prompt: 'a', temperature: 0.5, experts: true, onToken });
await writer.generate({ messages: [{ role: 'user', content: 'a' }], logitBias: { 3: -1 }, stop: ['.'] });
// @ts-expect-error files have names
await TextModel.load(device, [new Uint8Array(1)]);
// @ts-expect-error no such precision
await TextModel.load(device, {}, { precision: 'int4' });
// @ts-expect-error a message has a role
await writer.generate({ messages: [{ content: 'a' }] });
const { states, routers, head } = await writer.compute(new Uint32Array([1, 2]));
const firstExpert: number = routers[0].experts[0] + states[0].length + head.length;
// @ts-expect-error tokens are numbers of the vocabulary
await writer.compute('a');
writer.dispose();

const modules = ['all-linear'];
const tuning = await AdapterTraining.load(device, {}, { text: 'a', rank: 4, targets: modules, precision: 'fp8' });
// @ts-expect-error a text is needed
await AdapterTraining.load(device, {}, { rank: 4 });
const { loads, losses, learningRate }: AdapterSteps = await tuning.step(2, { signal: new AbortController().signal });
const tuned: AdapterBytes = await tuning.adapter();
const size: number = tuned['adapter_model.safetensors'].length + tuning.steps + tuning.report.parameters + learningRate;
await tuning.compute(new Uint32Array([1]));
await TextModel.load(device, {}, { adapter: tuned });
// @ts-expect-error an adapter has two files
await TextModel.load(device, {}, { adapter: { 'adapter_config.json': new Blob([]) } });
tuning.dispose();

const onProgress = (done: number, of: number): void => void (done / of);
const measured: BenchReport = await bench(device, { what: 'moe', precision: 'fp8', tokens: 8, onProgress });
// @ts-expect-error no such benchmark
await bench(device, { what: 'sort' });
device.destroy();
device.free();

function told(error: unknown): ErrorCode {
  const { code } = error as MoebiusError;
  // @ts-expect-error no such code
  if (code === 'lost') return 'device';
  return code === 'no-webgpu' ? 'device-lost' : code;
}

export const used = {
  name,
  least,
  most,
  kernels,
  bindings,
  reason,
  message,
  inUse,
  reserved,
  wrong,
  y,
  experts,
  load,
  capacity,
};
export const more = { balance, held, product, loss, accuracy, classes, probabilities, parameters, measured, told };
export const adapted = { loads, losses, size };
export const last = { attended, family, layersOfExperts, firstExpert, chat, text, ids, tokensPerSecond };
