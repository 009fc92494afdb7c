/**
 * Code of an error, by which callers can tell errors apart:
 * - `no-webgpu`: the page has no WebGPU, or the browser gives it no adapter
 * - `device-lost`: the device was lost, with everything on it; open another
 * - `out-of-memory`: a buffer doesn't fit on the device
 * - `bad-file`: a file is no case file, or one of an operation this version doesn't know; a model's files don't fit
 * - `shape`: a size, an option or a typed array doesn't fit; the message says what was expected
 * - `state`: a call came too early or too late, such as with scales that weren't calibrated
 * - `unsupported`: the device can't run the call, or the called object doesn't support its options
 * - `cancelled`: the call's `AbortSignal` was aborted
 * - `disposed`: the object was disposed of
 * - `device`: the device reported any other error
 */
export type ErrorCode =
  | 'no-webgpu' | 'device-lost' | 'out-of-memory' | 'bad-file' | 'shape' | 'state' | 'unsupported' | 'cancelled'
  | 'disposed' | 'device';

/**
 * An error of this package; all its errors have this form. Calls that return a promise reject with it, others throw it.
 */
export interface MoebiusError extends Error {
  name: 'MoebiusError';
  code: ErrorCode;
}

export interface DeviceOptions {
  /** The GPU to prefer if there are two; the fast one by default. */
  powerPreference?: 'high-performance' | 'low-power';
}

/** Description of a device, as far as the browser reveals it. */
export interface DeviceReport {
  name: string;
  vendor: string;
  architecture: string;
  description: string;
  /** Kind of the device: 'GPU' or 'software adapter'. */
  kind: string;
  /** Whether the processor emulates a GPU: results are the same, but times say nothing about a GPU. */
  software: boolean;
  /** Smallest and largest subgroup size; null if kernels can't use subgroups. */
  subgroups: [number, number] | null;
  /** Whether buffers and arithmetic may use 16-bit floats. */
  f16: boolean;
  /** Limits of one kernel launch; sizes are in bytes. */
  limits: {
    maxBindings: number;
    maxUnitsPerCube: number;
    maxSharedMemory: number;
    maxBindingBytes: number;
    maxBufferBytes: number;
    /** Rounds of loops after which a software adapter ends those of an invocation; null if loops have no such limit. */
    loopRounds: number | null;
  };
  /** Names of the adapter's WebGPU features, all of which are enabled. */
  features: string[];
  /** Kernel for each kind of work on this device; if there is none, `kernel` is null and `reason` says why. */
  runs: { what: string; kernel: string | null; reason: string | null }[];
  /** Fingerprint of the kernels' sources, by which results of the same ones are known. */
  kernels: string;
}

export interface DeviceLoss {
  /** 'destroyed' if this program destroyed the device, 'unknown' if the browser took it away. */
  reason: 'destroyed' | 'unknown';
  message: string;
}

/** Memory held on the device, in bytes. */
export interface MemoryUse {
  /** Bytes of live buffers. */
  inUse: number;
  /** Bytes of live buffers, of their padding, and of pages kept for reuse. */
  reserved: number;
}

export interface CaseReport {
  /** Name of the operation. */
  op: string;
  verdict: 'pass' | 'fail';
  milliseconds: number;
  outputs: {
    name: string;
    /** Largest absolute difference from the expected output. */
    maxAbs: number;
    /** Relative L2 error of the output. */
    relL2: number;
    tolerance: string;
    verdict: 'pass' | 'fail';
  }[];
}

export interface RunOptions {
  /** Signal that makes the call reject with 'cancelled' once aborted. Work that the device has begun still ends. */
  signal?: AbortSignal;
}

export interface MoeOptions {
  /** Width H of a token. */
  hidden: number;
  /** Inner width F of an expert. */
  inter: number;
  /** Number E of experts. */
  experts: number;
  /** Number K of experts per token, 2 by default; for 'expert-choice', the mean number per token. */
  topK?: number;
  /** Kind of router; 'topk' by default. */
  router?: 'topk' | 'switch' | 'hash' | 'expert-choice';
  /** Activation of the experts; 'relu' by default. */
  activation?: 'relu' | 'gelu' | 'silu' | 'mish';
  /** Whether experts compute act(G x) ∘ (U x) in place of act(W x); not by default. */
  gated?: boolean;
  /** Whether experts have biases; not by default. */
  bias?: boolean;
  /**
   * Largest number of slots per expert, as a multiple of an even share; without it, no slot is dropped. Not for
   * 'expert-choice'.
   */
  capacityFactor?: number;
  /** Least capacity of an expert in slots, 4 by default. */
  minCapacity?: number;
  /** Precision of the experts' weights: 'f32' by default; 'fp8' keeps E4M3 codes with a scale for every output. */
  precision?: 'f32' | 'fp8';
  /** Seed of random weights, which are the same on every device; 0 by default. */
  seed?: number;
}

/** Weights of a layer, row-major. */
export interface MoeWeights {
  /** Router matrix [E, H]; a hash router has none. */
  router?: Float32Array;
  /** First weights [E, F, H]; if gated [E, 2F, H], gate rows first. */
  wIn: Float32Array;
  /** First biases [E, F]; if gated [E, 2F]. */
  bIn?: Float32Array;
  /** Second weights [E, H, F]. */
  wOut: Float32Array;
  /** Second biases [E, H]. */
  bOut?: Float32Array;
}

export interface MoeOutput {
  /** Output [tokens, hidden]. */
  y: Float32Array;
  /**
   * Expert of each slot [tokens, topK], -1 for none. A token's best expert comes first; with 'expert-choice', experts
   * are in order of their numbers.
   */
  experts: Int32Array;
  /** Weight of each slot [tokens, topK]. */
  weights: Float32Array;
  /** Number of slots per token; for 'expert-choice', the number of experts. */
  topK: number;
  /** Number of slots that chose each expert [experts], before any were dropped. */
  load: Uint32Array;
  /** Largest number of slots per expert; null without a limit. */
  capacity: number | null;
  /** Number of slots that were dropped because their expert was full. */
  dropped: number;
  /** Balance losses of the batch. With an even load, switch and gshard are 1 and entropy is 0; 'hash' has no z. */
  losses: { switch: number; gshard: number; entropy: number; z: number | null };
}

export interface Fp8LinearOptions {
  inputs: number;
  outputs: number;
  /** Format of the codes; 'e4m3' by default. */
  format?: 'e4m3' | 'e5m2';
  /** Weights that share a scale: those of an output ('row', the default), all, 128 × 128, or 32 of an output. */
  granularity?: 'row' | 'tensor' | 'block128' | 'mx';
}

export interface MatmulOptions {
  m: number;
  n: number;
  k: number;
}

/**
 * A rule that changes scores s, or says which keys j a query sees. Query i is at position p = i + keys − queries, so
 * that queries and keys end together.
 *
 * - `causal`: j ≤ p
 * - `causalTopLeft`: j ≤ i
 * - `alibi`: s + slope · (j − p), with the slopes 2^(−8(h + 1) / heads) where heads is a power of two
 * - `window`: 0 ≤ p − j < window
 * - `symmetricWindow`: |p − j| < symmetricWindow
 * - `prefix`: j < prefix or j ≤ p
 * - `global`: |p − j| < window, j < tokens or p < tokens
 * - `dilated`: p − j is a multiple of dilated
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
  /** Number of sequences, 1 by default. */
  batch?: number;
  /** Number of heads of q. */
  heads: number;
  /**
   * Number of heads of k and v, a divisor of heads; as many by default. Head h of q uses head ⌊h · kvHeads / heads⌋ of
   * k and v.
   */
  kvHeads?: number;
  /** Number of queries per sequence. */
  queries: number;
  /** Number of keys per sequence; as many as queries by default. */
  keys?: number;
  /** Numbers per head of q and k, at most 256. */
  headDim: number;
  /** Numbers per head of v and o, at most 256; headDim by default. */
  valueDim?: number;
  /** Up to eight rules, each kind at most once; none by default. Rules that change scores do so in the list's order. */
  rules?: AttentionRule[];
  /** Factor of ⟨q, k⟩; 1 / √headDim by default. */
  scale?: number;
}

export interface AttentionOutput {
  /** Output [batch, heads, queries, valueDim]; 0 for queries that see no key. */
  o: Float32Array;
  /** Log-sum-exp [batch, heads, queries] of each query's scores; −3.4e38 for queries that see no key. */
  lse: Float32Array;
}

export interface TrainingOptions {
  /** Number of classes, at least 2. */
  classes: number;
  /** Number of experts, 4 by default. */
  experts?: number;
  /** Number of experts per point, 1 by default. */
  topK?: number;
  /** Number of features per point, 32 by default. */
  hidden?: number;
  /** Inner width of an expert, 64 by default. */
  inter?: number;
  /** Learning rate of AdamW, 0.01 by default. */
  learningRate?: number;
  /** Weight of the Switch balance loss, 0.01 by default. */
  balance?: number;
  /** Seed of the initial weights, 0 by default. */
  seed?: number;
}

export interface TrainingReport {
  /** Number of completed steps. */
  step: number;
  /** Mean cross entropy before the last step, in nats per point. */
  loss: number;
  /** Share of the points that are classified correctly. */
  accuracy: number;
  /** Switch balance loss; 1 if the load is even. */
  balance: number;
  /** Number of points of each expert [experts]. */
  load: Uint32Array;
  milliseconds: number;
}

export interface Prediction {
  /** Most probable class of each point [points]. */
  classes: Uint32Array;
  /** Probability of each class for each point [points, classes]. */
  probabilities: Float32Array;
  /** First expert of each point [points]. */
  experts: Int32Array;
}

export interface BenchOptions {
  /**
   * Subject of the benchmark, 'matmul' by default; 'linear' is the same product, whose weights 'fp8' keeps as codes.
   */
  what?: 'matmul' | 'linear' | 'moe' | 'attention';
  /** Precision of the weights, 'f32' by default; an attention has no other. */
  precision?: 'f32' | 'fp8';
  /** Rows of a matmul or linear layer, 512 by default. */
  m?: number;
  /** Outputs of a matmul or linear layer, 512 by default. */
  n?: number;
  /** Inputs of a matmul or linear layer, 512 by default. */
  k?: number;
  /** Tokens of a layer of experts, or queries and keys of an attention; 512 by default. */
  tokens?: number;
  /** Sizes of an attention: sequences, 1 by default; heads, 8; and numbers per head, 64. */
  batch?: number;
  heads?: number;
  headDim?: number;
  /** Whether the queries of an attention see no later keys; not by default. */
  causal?: boolean;
  /** Sizes of a layer of experts: hidden 256, inter 512, 8 experts and topK 2 by default. */
  hidden?: number;
  inter?: number;
  experts?: number;
  topK?: number;
  /** Number of timed runs, 10 by default. */
  repeats?: number;
  signal?: AbortSignal;
  onProgress?: (done: number, of: number) => void;
}

export interface BenchReport {
  what: string;
  precision: string;
  /** Name of the kernel that computes the products. */
  kernel: string;
  medianMs: number;
  timesMs: Float64Array;
  /**
   * Floating-point operations of the products in one run; for an attention, over pairs in which the query sees the key.
   */
  flops: number;
  gflops: number;
  /** Bytes of the weights, as values or as codes and scales; for an attention, bytes of keys and values. */
  weightBytes: number;
  /** Relative L2 error of some rows against sums in f64, with the weights as stored. */
  error: number;
}

/**
 * The files of a published model by name: `config.json`, `tokenizer.json` and one or more `.safetensors` files, with
 * optional files beside them (`generation_config.json`, `tokenizer_config.json`, `chat_template.jinja`); or a single
 * `.gguf` file. Weights in a `Blob` or `File` are read piece by piece, which only workers can do.
 */
export type TextModelFiles = Record<string, Uint8Array | Blob>;

export interface TextModelOptions extends RunOptions {
  /**
   * Precision of the weights. 'stored', the default: what the files have in FP8, in blocks of codes (GGUF, MXFP4,
   * NVFP4, four bits of GPTQ and AWQ) or in 16 bits takes as many bytes on the device, and all other weights become
   * f32. 'f32': all are decoded. 'fp8': weights of layers without FP8 codes are rounded to E4M3, with a scale for each
   * 32 of a row. Sums are f32 in all three.
   */
  precision?: 'stored' | 'f32' | 'fp8';
  /**
   * Largest number of tokens of a prompt and its answer together; 1024 by default, or the model's own limit if that is
   * less. Memory is reserved for the first 1024, and taken for others as they come.
   */
  context?: number;
  /**
   * An adapter (LoRA) that changes the weights. It is added to them while they are read; weights that are codes on the
   * device stay as they are, with the adapter's factors beside them. Not for a GGUF file, whose tensors have other
   * names.
   */
  adapter?: AdapterFiles;
  /** Function that is called after each tensor with the bytes of weights read so far, and with their total. */
  onProgress?: (read: number, of: number) => void;
}

/** An adapter of a model in the two files of PEFT (Hugging Face), which reads and writes the same. */
export interface AdapterFiles {
  /** Rank, scale and modules. */
  'adapter_config.json': Uint8Array | Blob;
  /** The factors of each module, `base_model.model.….lora_A.weight` and `lora_B`, in f32. */
  'adapter_model.safetensors': Uint8Array | Blob;
}

/** The bytes of an adapter's two files. */
export interface AdapterBytes extends AdapterFiles {
  'adapter_config.json': Uint8Array;
  'adapter_model.safetensors': Uint8Array;
}

export interface AdapterTrainingOptions extends RunOptions {
  /** The text to learn from; names of special tokens in it stand for their characters. */
  text: string;
  /** Rank of the changes, 8 by default. */
  rank?: number;
  /** Changes are multiplied by alpha / rank; 8 by default. */
  alpha?: number;
  /**
   * The linear modules that change: those whose names are one of these or end with a dot and one of these.
   * `['q_proj', 'v_proj']` by default; 'all-linear' stands for all of them, those of experts included.
   */
  targets?: string[];
  /** Number of steps in all, 100 by default. The learning rate rises in the first tenth, and then falls to a tenth. */
  steps?: number;
  /** Peak of AdamW's learning rate, 0.001 by default. */
  learningRate?: number;
  /** Number of sequences in a step, 4 by default; each is cut from the text at a random place. */
  batch?: number;
  /** Number of tokens of a sequence; 64 by default, or as many as a shorter text or the model has. */
  sequence?: number;
  /** Seed of the first factors and of the places, 0 by default. */
  seed?: number;
  /**
   * The model's own weights, which stay as they are: 'f32', the default, or 'fp8', which keeps codes and rounds other
   * weights to E4M3. What is computed is f32.
   */
  precision?: 'f32' | 'fp8';
  /** Name of the model, for the adapter's configuration; none by default. */
  base?: string;
  /** Function that is called after each tensor with the bytes of weights read so far, and with their total. */
  onProgress?: (read: number, of: number) => void;
}

export interface AdapterTrainingReport {
  /** The model's family, as in `TextModelReport`. */
  family: string;
  precision: 'f32' | 'fp8';
  /** Number of tokens of the text. */
  tokens: number;
  /** Number of steps in all, sequences in a step, and tokens of a sequence. */
  steps: number;
  batch: number;
  sequence: number;
  rank: number;
  alpha: number;
  targets: string[];
  /** Number of trained parameters. */
  parameters: number;
}

/** What the steps of a call measured. */
export interface AdapterSteps {
  /** Number of completed steps. */
  step: number;
  /** Mean cross entropy before the last step, in nats per token. */
  loss: number;
  /** Cross entropy of each step of the call. */
  losses: Float32Array;
  /** Weighted auxiliary losses of the last step: those that keep experts in use and routers' logits small. */
  auxiliary: number;
  /** Learning rate of the last step. */
  learningRate: number;
  /** For each layer with experts, the slots of each expert in the last step. */
  loads: Uint32Array[];
  milliseconds: number;
}

export interface TextModelReport {
  /** The model's family: `model_type` of its configuration, or the equivalent of a GGUF file's metadata. */
  family: string;
  precision: 'stored' | 'f32' | 'fp8';
  layers: number;
  /** The layers with experts: each layer's index, its number of experts, and the number that a token takes. */
  experts: { layer: number; experts: number; topK: number }[];
  /** Width of a token. */
  hidden: number;
  /** Number of rows of the vocabulary. */
  vocabulary: number;
  /** Number of tokens of the longest text that the model was made for. */
  positions: number;
  /** Largest number of tokens of a prompt and its answer together. */
  context: number;
  /** Whether the model takes messages. */
  chat: boolean;
  /** Bytes of the weights on the device. */
  weightBytes: number;
}

export interface ChatMessage {
  /** 'system', 'user' or 'assistant', or another role that the model's template knows. */
  role: string;
  content: string;
}

/**
 * The text to continue (`prompt`) or to answer (`messages`), and how tokens are chosen. Options that are left out have
 * no effect.
 */
export interface GenerateOptions extends RunOptions {
  /** A text to continue. */
  prompt?: string;
  /** A conversation to answer, with the model's own chat template. */
  messages?: ChatMessage[];
  /**
   * Whether names of special tokens in the prompt or the messages, such as `<|im_end|>`, stand for these tokens, as
   * they do by default. If not, they stand for their characters; what the chat template writes stays special.
   */
  special?: boolean;
  /** Largest number of tokens to write, 128 by default. */
  maxTokens?: number;
  /** Divisor of the logits before a draw; 0, the default, takes the likeliest token. */
  temperature?: number;
  /** Number of likeliest tokens to draw from; 0 for all. */
  topK?: number;
  /** Draws from the likeliest tokens that together have this probability. */
  topP?: number;
  /** Draws from tokens with at least this share of the likeliest token's probability. */
  minP?: number;
  /** Divides the positive logits of tokens that have occurred, and multiplies the negative ones. */
  repetitionPenalty?: number;
  /** Subtracted from the logits of tokens that have been written. */
  presencePenalty?: number;
  /** Subtracted from the logits of tokens, once for each time they have been written. */
  frequencyPenalty?: number;
  /** Numbers that are added to logits, by token id. */
  logitBias?: Record<number, number>;
  /** Seed of all draws, 0 by default. */
  seed?: number;
  /** Stop strings; the answer ends before the first that occurs. */
  stop?: string[];
  /** Whether to report the experts of each token; if not, the default, they aren't read from the device. */
  experts?: boolean;
  /** Function that is called with each token as it comes. */
  onToken?: (token: TextToken) => void;
}

export interface TextToken {
  /** Id of the token; `null` for text that was held back until the end. */
  id: number | null;
  /** Text that is certain now; empty while a character or a stop string may still become complete. */
  text: string;
  /**
   * The experts that computed the logits from which this token was chosen, if asked for: `topK` for each layer with
   * experts, layer by layer, the best first.
   */
  experts: Uint32Array | null;
}

/** What a model computes for T tokens, row by row; H is its width, V its vocabulary. */
export interface ComputedText {
  /**
   * x [T, H] of the embeddings, then of each layer after its attention or convolution and after its experts or dense
   * network.
   */
  states: Float32Array[];
  /** For each layer with experts: the router's logits [T, experts], and the chosen experts [T, topK], best first. */
  routers: { logits: Float32Array; experts: Uint32Array }[];
  /** Logits of the next tokens [T, V]. */
  head: Float32Array;
}

export interface GeneratedText {
  text: string;
  /** Ids of the tokens, without a token that ended the text. */
  ids: Uint32Array;
  /**
   * Reason of the end. 'stop': the model or a stop string ended the text; 'length': the text reached the largest number
   * of tokens.
   */
  finish: 'stop' | 'length';
  promptTokens: number;
  /** Milliseconds until the first token. */
  firstTokenMs: number;
  /** Milliseconds from the first token to the end. */
  decodeMs: number;
  /** Tokens per second after the first token; `null` if there is no second one. */
  tokensPerSecond: number | null;
}
