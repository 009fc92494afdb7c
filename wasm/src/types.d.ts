/**
 * What an error is about:
 * - `no-webgpu`: the page has no WebGPU, or the browser gives it no adapter
 * - `device-lost`: the device went away, with everything on it; open another
 * - `out-of-memory`: a buffer doesn't fit on the device
 * - `bad-file`: no case file, or one of an operation this version doesn't know; files of a model that don't fit
 * - `shape`: a size, an option or a typed array doesn't fit; the message says what was expected
 * - `state`: a call too early or too late, such as with scales that weren't calibrated
 * - `unsupported`: the device can't run it, or what was asked of it has no such options
 * - `cancelled`: by its `AbortSignal`
 * - `disposed`: the object was disposed of
 * - `device`: anything else the device reported
 */
export type ErrorCode =
  | 'no-webgpu' | 'device-lost' | 'out-of-memory' | 'bad-file' | 'shape' | 'state' | 'unsupported' | 'cancelled'
  | 'disposed' | 'device';

/** Every error of this package. Calls that return a promise reject, others throw. */
export interface MoebiusError extends Error {
  name: 'MoebiusError';
  code: ErrorCode;
}

export interface DeviceOptions {
  /** Which GPU to prefer where there are two; the fast one by default. */
  powerPreference?: 'high-performance' | 'low-power';
}

/** A device, as far as the browser tells. */
export interface DeviceReport {
  name: string;
  vendor: string;
  architecture: string;
  description: string;
  /** 'GPU' or 'software adapter'. */
  kind: string;
  /** The processor plays the GPU: results are the same, times mean nothing for a GPU. */
  software: boolean;
  /** Smallest and largest subgroup, where kernels may use them. */
  subgroups: [number, number] | null;
  /** 16-bit floats in buffers and arithmetic. */
  f16: boolean;
  /** Limits of one launch; sizes in bytes. */
  limits: {
    maxBindings: number;
    maxUnitsPerCube: number;
    maxSharedMemory: number;
    maxBindingBytes: number;
    maxBufferBytes: number;
  };
  /** The WebGPU features of its adapter, all of which are on. */
  features: string[];
  /** Which kernel computes what here; `null`, and the reason, where none can. */
  runs: { what: string; kernel: string | null; reason: string | null }[];
}

export interface DeviceLoss {
  /** 'destroyed' by this program, or for a reason of the browser's. */
  reason: 'destroyed' | 'unknown';
  message: string;
}

/** Bytes on the device. */
export interface MemoryUse {
  /** Of live buffers. */
  inUse: number;
  /** Of these, their padding, and pages kept for reuse. */
  reserved: number;
}

export interface CaseReport {
  /** The operation. */
  op: string;
  verdict: 'pass' | 'fail';
  milliseconds: number;
  outputs: {
    name: string;
    /** Largest difference from the expected output. */
    maxAbs: number;
    /** Relative L2 error. */
    relL2: number;
    tolerance: string;
    verdict: 'pass' | 'fail';
  }[];
}

export interface RunOptions {
  /** Rejects the call with 'cancelled' once aborted. Work that was handed to the device still ends. */
  signal?: AbortSignal;
}

export interface MoeOptions {
  /** Width of a token H. */
  hidden: number;
  /** Width of an expert F. */
  inter: number;
  /** Experts E. */
  experts: number;
  /** Experts of a token K, 2 by default; for 'expert-choice' the mean of a token. */
  topK?: number;
  /** 'topk' by default. */
  router?: 'topk' | 'switch' | 'hash' | 'expert-choice';
  /** 'relu' by default. */
  activation?: 'relu' | 'gelu' | 'silu' | 'mish';
  /** Experts are act(G x) ∘ (U x) in place of act(W x). */
  gated?: boolean;
  /** Experts have biases. */
  bias?: boolean;
  /** Slots an expert takes at most, over its even share; without it no slot is dropped. Not for 'expert-choice'. */
  capacityFactor?: number;
  /** Slots an expert takes at least, 4 by default. */
  minCapacity?: number;
  /** 'fp8' keeps the experts' weights as E4M3 codes, with a scale for every output. 'f32' by default. */
  precision?: 'f32' | 'fp8';
  /** Of drawn weights, which are the same on every device; 0 by default. */
  seed?: number;
}

/** Weights, row-major. */
export interface MoeWeights {
  /** [E, H]; a hash router has none. */
  router?: Float32Array;
  /** [E, F, H]; gated [E, 2F, H], gate rows first. */
  wIn: Float32Array;
  /** [E, F] or [E, 2F]. */
  bIn?: Float32Array;
  /** [E, H, F]. */
  wOut: Float32Array;
  /** [E, H]. */
  bOut?: Float32Array;
}

export interface MoeOutput {
  /** [tokens, hidden]. */
  y: Float32Array;
  /** [tokens, topK]: the expert of each slot; -1 for none. The best first; in their order where experts choose. */
  experts: Int32Array;
  /** [tokens, topK]: the weight of each slot. */
  weights: Float32Array;
  /** Slots of a token; all experts where experts choose. */
  topK: number;
  /** [experts]: slots that chose each, before any was dropped. */
  load: Uint32Array;
  /** Slots an expert takes at most. */
  capacity: number | null;
  /** Slots that found their expert full. */
  dropped: number;
  /** Balance losses of the batch: switch and gshard are 1 when even, entropy is 0; 'hash' has no z. */
  losses: { switch: number; gshard: number; entropy: number; z: number | null };
}

export interface Fp8LinearOptions {
  inputs: number;
  outputs: number;
  /** 'e4m3' by default. */
  format?: 'e4m3' | 'e5m2';
  /** Weights that share a scale: an output's ('row', the default), all, 128 × 128, or 32 of an output's. */
  granularity?: 'row' | 'tensor' | 'block128' | 'mx';
}

export interface MatmulOptions {
  m: number;
  n: number;
  k: number;
}

/**
 * Changes scores s, or says which keys j a query sees. Query i is at position p = i + keys − queries, so that queries
 * and keys end together.
 *
 * - `causal`: j ≤ p
 * - `causalTopLeft`: j ≤ i
 * - `alibi`: s + slope · (j − p), with the slopes 2^(−8(h + 1) / heads) where heads is a power of two
 * - `window`: 0 ≤ p − j < window
 * - `symmetricWindow`: |p − j| < symmetricWindow
 * - `prefix`: j < prefix or j ≤ p
 * - `global`: |p − j| < window, j < tokens or p < tokens
 * - `dilated`: p − j is a multiple of it
 * - `softcap`: softcap · tanh(s / softcap)
 */
export type AttentionRule =
  | 'causal' | 'causalTopLeft' | 'alibi'
  | { window: number }
  | { symmetricWindow: number }
  | { prefix: number }
  | { global: { tokens: number; window: number } }
  | { dilated: number }
  | { softcap: number };

export interface AttentionOptions extends RunOptions {
  /** Sequences, 1 by default. */
  batch?: number;
  /** Heads of q. */
  heads: number;
  /** Heads of k and v, a divisor of heads; as many by default. Head h of q has head ⌊h · kvHeads / heads⌋ of k. */
  kvHeads?: number;
  /** Queries of a sequence. */
  queries: number;
  /** Keys of a sequence; as many as queries by default. */
  keys?: number;
  /** Numbers of a head of q and k, at most 256. */
  headDim: number;
  /** Numbers of a head of v and o, at most 256; headDim by default. */
  valueDim?: number;
  /** Eight at most, each kind once. Those that change scores do so in this order. None by default. */
  rules?: AttentionRule[];
  /** What ⟨q, k⟩ is multiplied by; 1 / √headDim by default. */
  scale?: number;
}

export interface AttentionOutput {
  /** [batch, heads, queries, valueDim]; 0 for queries that see no key. */
  o: Float32Array;
  /** [batch, heads, queries]: the logarithm of the sum of each query's exponentials; −3.4e38 where it sees no key. */
  lse: Float32Array;
}

export interface TrainingOptions {
  /** Classes, at least 2. */
  classes: number;
  /** 4 by default. */
  experts?: number;
  /** Experts of a point, 1 by default. */
  topK?: number;
  /** Features of a point, 32 by default. */
  hidden?: number;
  /** Width of an expert, 64 by default. */
  inter?: number;
  /** Of AdamW, 0.01 by default. */
  learningRate?: number;
  /** Weight of the Switch loss, 0.01 by default. */
  balance?: number;
  /** Of the first weights, 0 by default. */
  seed?: number;
}

export interface TrainingReport {
  /** Steps done so far. */
  step: number;
  /** Mean cross entropy before the last step, in nats a point. */
  loss: number;
  /** Share of the points in their own class. */
  accuracy: number;
  /** The Switch loss: 1 when even. */
  balance: number;
  /** [experts]: points of each. */
  load: Uint32Array;
  milliseconds: number;
}

export interface Prediction {
  /** [points]: the most probable class. */
  classes: Uint32Array;
  /** [points, classes]. */
  probabilities: Float32Array;
  /** [points]: the first expert. */
  experts: Int32Array;
}

export interface BenchOptions {
  /** 'matmul' by default; 'linear' is the same with weights that 'fp8' keeps as codes. */
  what?: 'matmul' | 'linear' | 'moe' | 'attention';
  /** 'f32' by default, and the only one of an attention. */
  precision?: 'f32' | 'fp8';
  /** Rows of a matmul or linear layer, 512 by default. */
  m?: number;
  /** Outputs, 512 by default. */
  n?: number;
  /** Inputs, 512 by default. */
  k?: number;
  /** Queries and keys of an attention, 512 by default, as of a layer of experts. */
  tokens?: number;
  /** Of an attention: sequences, 1 by default; heads, 8; and their numbers, 64. */
  batch?: number;
  heads?: number;
  headDim?: number;
  /** Its queries see no later keys; not by default. */
  causal?: boolean;
  /** Of a layer of experts: 256, 512, 8 and 2 by default. */
  hidden?: number;
  inter?: number;
  experts?: number;
  topK?: number;
  /** Timed runs, 10 by default. */
  repeats?: number;
  signal?: AbortSignal;
  onProgress?: (done: number, of: number) => void;
}

export interface BenchReport {
  what: string;
  precision: string;
  /** The kernel of its products. */
  kernel: string;
  medianMs: number;
  timesMs: Float64Array;
  /** Of the products of one run, over the pairs of an attention that are seen. */
  flops: number;
  gflops: number;
  /** Bytes of the weights: of values, or of codes and scales; of an attention those of keys and values. */
  weightBytes: number;
  /** Relative L2 error of some rows against sums in f64, over the weights as they are kept. */
  error: number;
}

/**
 * The files of a published model by name: `config.json`, `tokenizer.json` and one or more `.safetensors`, and what
 * lies beside them (`generation_config.json`, `tokenizer_config.json`, `chat_template.jinja`); or one `.gguf` file
 * alone. Weights in a `Blob` or `File` are read where they are, which only workers can.
 */
export type TextModelFiles = Record<string, Uint8Array | Blob>;

export interface TextModelOptions extends RunOptions {
  /**
   * 'stored', the default: FP8 codes stay codes, all other weights become f32. 'f32': codes are decoded. 'fp8':
   * weights of layers that have no codes are rounded to E4M3, with a scale for each 128 × 128. Sums are f32 in each.
   */
  precision?: 'stored' | 'f32' | 'fp8';
  /**
   * Tokens of a prompt and its answer together, for which memory is kept; 1024 by default, or all that the model was
   * made for.
   */
  context?: number;
  /** Bytes read so far, and of all weights; after each tensor. */
  onProgress?: (read: number, of: number) => void;
}

export interface TextModelReport {
  /** `model_type` of its configuration, or what a GGUF file's metadata stands for. */
  family: string;
  precision: 'stored' | 'f32' | 'fp8';
  layers: number;
  /** The layers that have experts: which they are, how many experts they have, and how many of them a token takes. */
  experts: { layer: number; experts: number; topK: number }[];
  /** Width of a token. */
  hidden: number;
  /** Rows of its vocabulary. */
  vocabulary: number;
  /** Tokens of the longest text that it was made for. */
  positions: number;
  /** Tokens of a prompt and its answer together. */
  context: number;
  /** Whether it takes messages. */
  chat: boolean;
  /** Bytes that its weights take on the device. */
  weightBytes: number;
}

export interface ChatMessage {
  /** 'system', 'user' or 'assistant', and what else its template knows. */
  role: string;
  content: string;
}

/** What to write on from, `prompt` or `messages`, and how tokens are chosen; what isn't set changes nothing. */
export interface GenerateOptions extends RunOptions {
  /** A text to go on with. */
  prompt?: string;
  /** A conversation to answer, by the model's own template. */
  messages?: ChatMessage[];
  /** Tokens to write at most, 128 by default. */
  maxTokens?: number;
  /** What logits are divided by before a draw; 0, the default, takes the likeliest token. */
  temperature?: number;
  /** Draw from so many of the likeliest tokens; 0 for all. */
  topK?: number;
  /** Draw from the likeliest tokens that have this probability together. */
  topP?: number;
  /** Draw from tokens that have at least this part of the likeliest one's probability. */
  minP?: number;
  /** Divides positive logits of tokens that were there, and multiplies negative ones. */
  repetitionPenalty?: number;
  /** Taken from logits of tokens that were written. */
  presencePenalty?: number;
  /** Taken from logits of tokens for each time that they were written. */
  frequencyPenalty?: number;
  /** Added to logits, by the tokens' ids. */
  logitBias?: Record<number, number>;
  /** Decides all draws; 0 by default. */
  seed?: number;
  /** Texts before which the answer ends. */
  stop?: string[];
  /** Tells the experts of each token; not by default, and then they aren't read from the device. */
  experts?: boolean;
  /** Told of each token as it comes. */
  onToken?: (token: TextToken) => void;
}

export interface TextToken {
  /** `null` for text that was held back until the end. */
  id: number | null;
  /** What can be said now: empty where a character or a stop string may still become complete. */
  text: string;
  /**
   * The experts that computed the logits of which this token was chosen, where they were asked for: `topK` of each
   * layer that has some, layer by layer, the best first.
   */
  experts: Uint32Array | null;
}

export interface GeneratedText {
  text: string;
  /** The tokens, without one that ended the text. */
  ids: Uint32Array;
  /** 'stop': the model or a stop string ended it; 'length': it has as many tokens as it may. */
  finish: 'stop' | 'length';
  promptTokens: number;
  /** Until the first token. */
  firstTokenMs: number;
  /** From then on. */
  decodeMs: number;
  /** Of the tokens after the first; `null` where there is none. */
  tokensPerSecond: number | null;
}
