// Writes the ONNX models of the benchmark as protobuf messages, with the field numbers of onnx.proto3.

const FLOAT = 1;
const INT64 = 7;

/** Protobuf varint of an integer: 7 bits per byte, lowest first; negative numbers are 64-bit two's complement. */
function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return bytes;
}

function joined(parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const integer = (field, value) => Uint8Array.from([...varint(field << 3), ...varint(value)]);

/** A length-delimited field: a message, a string or bytes. */
function block(field, content) {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return joined([varint((field << 3) | 2), varint(bytes.length), bytes]);
}

const message = (field, ...parts) => block(field, joined(parts));

function tensor(name, type, dims, values) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return message(5, ...dims.map((d) => integer(1, d)), integer(2, type), block(8, name), block(9, bytes));
}

function valueInfo(field, name, dims) {
  const shape = message(2, ...dims.map((d) => message(1, integer(1, d))));
  return message(field, block(1, name), message(2, message(1, integer(1, FLOAT), shape)));
}

/** An attribute whose value is an integer or a list of integers. */
function attribute([name, value]) {
  const all = [value].flat();
  if (!all.every(Number.isInteger)) throw new Error(`expected integer attributes, got ${name} = ${value}`);
  const [field, type] = Array.isArray(value) ? [8, 7] : [3, 2];
  return message(5, block(1, name), ...all.map((one) => integer(field, one)), integer(20, type));
}

/** Operators that standard ONNX doesn't have and onnxruntime contributes. */
const CONTRIBUTED = { domain: 'com.microsoft', operators: ['MultiHeadAttention'] };

function node(type, inputs, outputs, attributes) {
  const written = Object.entries(attributes).map(attribute);
  const names = [...inputs.map((name) => block(1, name)), ...outputs.map((name) => block(2, name))];
  const domain = CONTRIBUTED.operators.includes(type) ? [block(7, CONTRIBUTED.domain)] : [];
  return message(1, ...names, block(3, outputs[0]), block(4, type), ...written, ...domain);
}

/**
 * Builder of an ONNX graph, from its inputs on. Values are referred to by name; a result is named after its operator.
 */
class Graph {
  constructor() {
    this.parts = [];
    this.count = 0;
  }

  input(name, dims) {
    this.parts.push(valueInfo(11, name, dims));
    return name;
  }

  output(name, dims) {
    this.parts.push(valueInfo(12, name, dims));
  }

  /** Adds an f32 constant and returns its name. */
  floats(dims, values) {
    return this.constant(FLOAT, dims, values);
  }

  integers(values) {
    return this.constant(INT64, [values.length], BigInt64Array.from(values, BigInt));
  }

  constant(type, dims, values) {
    const name = `constant${this.count++}`;
    this.parts.push(tensor(name, type, dims, values));
    return name;
  }

  /** Adds an operator with one result and returns the result's name. */
  op(type, inputs, attributes = {}, name = `${type}${this.count++}`) {
    this.parts.push(node(type, inputs, [name], attributes));
    return name;
  }

  /** Adds a TopK operator and returns the names of the k largest values along an axis and of their positions. */
  topK(values, k, axis) {
    const outputs = [`largest${this.count}`, `at${this.count++}`];
    this.parts.push(node('TopK', [values, this.integers([k])], outputs, { axis }));
    return outputs;
  }

  model() {
    const graph = message(7, ...this.parts, block(2, 'graph'));
    const operators = (domain, version) => message(8, block(1, domain), integer(2, version));
    return joined([integer(1, 9), graph, operators('', 20), operators(CONTRIBUTED.domain, 1)]);
  }
}

/** Model of y = a · b, with a and b as inputs. */
export function matmulModel({ m, n, k }) {
  const graph = new Graph();
  graph.op('MatMul', [graph.input('a', [m, k]), graph.input('b', [k, n])], {}, 'y');
  graph.output('y', [m, n]);
  return graph.model();
}

/** Indices of the chosen experts [tokens, topK], and their weights, which add up to 1 for each token. */
function routing(graph, x, layer, columnsRouter) {
  const logits = graph.op('MatMul', [x, graph.floats([layer.hidden, layer.experts], columnsRouter)]);
  const [largest, chosen] = graph.topK(graph.op('Softmax', [logits], { axis: 1 }), layer.topK, 1);
  const total = graph.op('ReduceSum', [largest, graph.integers([1])], { keepdims: 1 });
  return { chosen, weight: graph.op('Div', [largest, total]) };
}

const reshaped = (graph, value, dims) => graph.op('Reshape', [value, graph.integers(dims)]);

/**
 * Scatters `values` [tokens, topK] to the chosen experts in [tokens, experts], with 0 elsewhere. Gates `compare` do so
 * without ScatterElements, whose results are wrong when onnxruntime-web 1.30.0 captures the graph.
 */
function spread(graph, layer, chosen, values) {
  const { tokens, experts, topK, gates } = layer;
  if (gates === 'scatter') {
    const zeros = graph.floats([tokens, experts], new Float32Array(tokens * experts));
    return graph.op('ScatterElements', [zeros, chosen, values], { axis: 1 });
  }
  const each = graph.floats([1, 1, experts], Float32Array.from({ length: experts }, (_, e) => e));
  const at = reshaped(graph, graph.op('Cast', [chosen], { to: FLOAT }), [tokens, topK, 1]);
  const here = graph.op('Cast', [graph.op('Equal', [at, each])], { to: FLOAT });
  const placed = graph.op('Mul', [here, reshaped(graph, values, [tokens, topK, 1])]);
  return graph.op('ReduceSum', [placed, graph.integers([1])], { keepdims: 0 });
}

/** MoE form that computes all experts on all tokens as a batched product; experts that weren't chosen get weight 0. */
function batched(graph, x, layer, columnsRouter) {
  const { tokens, hidden, inter, experts } = layer;
  const { chosen, weight } = routing(graph, x, layer, columnsRouter);
  const gates = graph.op('Transpose', [spread(graph, layer, chosen, weight)]);
  const rows = graph.op('MatMul', [reshaped(graph, x, [1, tokens, hidden]),
    graph.floats([experts, hidden, inter], layer.columnsIn)]);
  const out = graph.op('MatMul', [graph.op('Relu', [rows]), graph.floats([experts, inter, hidden], layer.columnsOut)]);
  const scaled = graph.op('Mul', [out, reshaped(graph, gates, [experts, tokens, 1])]);
  graph.op('ReduceSum', [scaled, graph.integers([0])], { keepdims: 0 }, 'y');
}

/**
 * MoE form that computes all experts on all tokens as two plain products; the second one also sums over the experts.
 */
function wide(graph, x, layer, columnsRouter) {
  const { tokens, hidden, inter, experts } = layer;
  const { chosen, weight } = routing(graph, x, layer, columnsRouter);
  const gates = reshaped(graph, spread(graph, layer, chosen, weight), [tokens, experts, 1]);
  // wIn [experts · inter, hidden], transposed to [hidden, experts · inter].
  const columns = new Float32Array(layer.wIn.length);
  for (let f = 0; f < experts * inter; f++) {
    for (let h = 0; h < hidden; h++) columns[h * experts * inter + f] = layer.wIn[f * hidden + h];
  }
  const rows = graph.op('MatMul', [x, graph.floats([hidden, experts * inter], columns)]);
  const active = reshaped(graph, graph.op('Relu', [rows]), [tokens, experts, inter]);
  const scaled = reshaped(graph, graph.op('Mul', [active, gates]), [tokens, experts * inter]);
  graph.op('MatMul', [scaled, graph.floats([experts * inter, hidden], layer.columnsOut)], {}, 'y');
}

/**
 * MoE form that computes each expert on `capacity` slots, filled with its tokens in order. It is right only while no
 * expert gets more tokens than that, so it is no dropless layer; it shows what fewer products bring.
 */
function slotted(graph, x, layer, columnsRouter) {
  const { tokens, hidden, inter, experts, topK, capacity } = layer;
  const { chosen, weight } = routing(graph, x, layer, columnsRouter);
  const ones = graph.floats([tokens, topK], new Float32Array(tokens * topK).fill(1));
  const mask = graph.op('Transpose', [spread(graph, layer, chosen, ones)]);
  const earliest = graph.floats([1, tokens], Float32Array.from({ length: tokens }, (_, t) => tokens - t));
  const [, slots] = graph.topK(graph.op('Mul', [mask, earliest]), capacity, 1);
  const gathered = graph.op('Gather', [x, slots], { axis: 0 });
  const rows = graph.op('MatMul', [gathered, graph.floats([experts, hidden, inter], layer.columnsIn)]);
  const out = graph.op('MatMul', [graph.op('Relu', [rows]), graph.floats([experts, inter, hidden], layer.columnsOut)]);
  // The slot of a token is its rank among the tokens of the same expert.
  const rank = graph.op('CumSum', [mask, graph.integers([1])], { exclusive: 1 });
  const first = graph.floats([experts, 1], Float32Array.from({ length: experts }, (_, e) => e * capacity));
  const position = graph.op('Transpose', [graph.op('Add', [rank, first])]);
  const slot = graph.op('Cast', [graph.op('GatherElements', [position, chosen], { axis: 1 })], { to: INT64 });
  const found = graph.op('Gather', [reshaped(graph, out, [experts * capacity, hidden]), slot], { axis: 0 });
  const scaled = graph.op('Mul', [found, reshaped(graph, weight, [tokens, topK, 1])]);
  graph.op('ReduceSum', [scaled, graph.integers([1])], { keepdims: 0 }, 'y');
}

const LAYERS = { batched, wide, slotted };

/**
 * Model of the MoE layer from standard operators, in one of three forms, with constant weights. `gates` is for
 * `spread`.
 */
export function moeModel(moe, form, gates) {
  const layer = { ...moe, gates };
  const graph = new Graph();
  const x = graph.input('x', [layer.tokens, layer.hidden]);
  const columnsRouter = new Float32Array(layer.router.length);
  for (let e = 0; e < layer.experts; e++) {
    for (let h = 0; h < layer.hidden; h++) columnsRouter[h * layer.experts + e] = layer.router[e * layer.hidden + h];
  }
  LAYERS[form](graph, x, layer, columnsRouter);
  graph.output('y', [layer.tokens, layer.hidden]);
  return graph.model();
}

/** Attention by onnxruntime's operator; q, k, v and o are [1, tokens, heads · headDim]. */
function fused(graph, { heads, tokens, headDim }) {
  const dims = [1, tokens, heads * headDim];
  const inputs = ['q', 'k', 'v'].map((name) => graph.input(name, dims));
  graph.op('MultiHeadAttention', inputs, { num_heads: heads }, 'y');
  graph.output('y', dims);
}

/** Attention by two products and a softmax; q, k, v and o are [heads, tokens, headDim]. */
function composed(graph, { heads, tokens, headDim }) {
  const dims = [heads, tokens, headDim];
  const [q, k, v] = ['q', 'k', 'v'].map((name) => graph.input(name, dims));
  const scaled = graph.op('Mul', [q, graph.floats([1], Float32Array.of(1 / Math.sqrt(headDim)))]);
  const scores = graph.op('MatMul', [scaled, graph.op('Transpose', [k], { perm: [0, 2, 1] })]);
  graph.op('MatMul', [graph.op('Softmax', [scores], { axis: 2 }), v], {}, 'y');
  graph.output('y', dims);
}

const ATTENTIONS = { fused, composed };

/** Model of attention of all queries to all keys, in form `fused` or `composed`. */
export function attentionModel(attention, form) {
  const graph = new Graph();
  ATTENTIONS[form](graph, attention);
  return graph.model();
}
