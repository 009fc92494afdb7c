// Parses and builds case files (safetensors), so that tests can spoil them or write their own.

const ELEMENT_BYTES = { U8: 1, I32: 4, U32: 4, F32: 4 };

/**
 * @typedef {{ dtype: string, shape: number[], bytes: Buffer }} Tensor
 * @typedef {{ metadata: Record<string, string>, tensors: Record<string, Tensor> }} Case
 */

/** Parses a file. @param {Buffer} file @returns {Case} whose tensors are views of the file */
export function parse(file) {
  const length = Number(file.readBigUInt64LE(0));
  const start = 8 + length;
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(file.subarray(8, start).toString('utf8'));
  const tensors = {};
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [from, to],
    },
  ] of Object.entries(entries)) {
    tensors[name] = { dtype, shape, bytes: file.subarray(start + from, start + to) };
  }
  return { metadata, tensors };
}

/** Builds a file. @param {Record<string, string>} metadata @param {Record<string, Tensor>} tensors @returns {Buffer} */
export function build(metadata, tensors) {
  const header = { __metadata__: metadata };
  const parts = [];
  let offset = 0;
  // Sorted by alignment, as writers of the format do.
  const entries = Object.entries(tensors).sort(([, a], [, b]) => ELEMENT_BYTES[b.dtype] - ELEMENT_BYTES[a.dtype]);
  for (const [name, { dtype, shape, bytes }] of entries) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    parts.push(bytes);
    offset += bytes.length;
  }
  return withHeader(JSON.stringify(header), Buffer.concat(parts));
}

/** A file with this text as its header, whether or not it fits the data. @param {string} text @param {Buffer} data */
export function withHeader(text, data) {
  const header = Buffer.from(text.padEnd(Math.ceil(Buffer.byteLength(text) / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

/** An f32 tensor. @param {ArrayLike<number>} values @param {number[]} shape @returns {Tensor} */
export function f32(values, shape) {
  return { dtype: 'F32', shape, bytes: Buffer.from(Float32Array.from(values).buffer) };
}

/** Index of the f32 with the largest magnitude. @param {Buffer} bytes */
function indexOfLargest(bytes) {
  let largest = 0;
  const magnitude = (i) => Math.abs(bytes.readFloatLE(4 * i));
  for (let i = 1; 4 * i < bytes.length; i++) if (magnitude(i) > magnitude(largest)) largest = i;
  return largest;
}

/**
 * A copy of a case file with one bit of `output` flipped, such that a number changes by more than rounding: of f32's
 * the largest.
 */
export function withFlippedBit(file, output) {
  const copy = Buffer.from(file);
  const { dtype, bytes } = parse(copy).tensors[output];
  // For an f32, the second-highest bit of the exponent; for an integer or a code, the lowest bit.
  const [at, bit] = dtype === 'F32' ? [4 * indexOfLargest(bytes) + 3, 0x20] : [0, 0x01];
  bytes[at] ^= bit;
  return copy;
}
