// Small published models for tests: decoders of the cases, with tokenizers that have a word for each token.
import { spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { CASES } from './lab.mjs';
import { parse, withHeader } from './safetensors.mjs';

/** Number of tokens in the vocabulary of `decoder_olmoe`. */
export const WORDS = 199;

const json = (value) => Buffer.from(JSON.stringify(value));

/** A tokenizer whose token n is the word `wn`. */
const tokenizer = () => ({
  version: '1.0',
  added_tokens: [],
  pre_tokenizer: { type: 'WhitespaceSplit' },
  model: {
    type: 'WordLevel',
    vocab: Object.fromEntries(Array.from({ length: WORDS }, (_, id) => [`w${id}`, id])),
    unk_token: 'w0',
  },
});

/** Chat template that writes only the words of a conversation. */
const TEMPLATE = '{% for message in messages %}{{ message.content }} {% endfor %}';

/** Files of a small mixture of experts; with `chat`, it has a chat template. @returns {Record<string, Buffer>} */
export function olmoe({ chat = false } = {}) {
  const folder = path.join(CASES, 'decoder_olmoe');
  const config = JSON.parse(fs.readFileSync(path.join(folder, 'config.json'), 'utf8'));
  config.eos_token_id = null; // the published model's end token isn't in the small vocabulary
  return {
    'config.json': json(config),
    'tokenizer.json': json(tokenizer()),
    'model.safetensors': fs.readFileSync(path.join(folder, 'model.safetensors')),
    ...(chat ? { 'chat_template.jinja': Buffer.from(TEMPLATE) } : {}),
  };
}

/** Names and shapes of the tensors of a mixture of experts of the given sizes. */
function* shapes({ hidden, layers, experts, columns }) {
  yield ['model.embed_tokens.weight', [WORDS, hidden]];
  yield ['lm_head.weight', [WORDS, hidden]];
  yield ['model.norm.weight', [hidden]];
  for (let layer = 0; layer < layers; layer += 1) {
    const at = `model.layers.${layer}`;
    for (const norm of ['input_layernorm', 'post_attention_layernorm', 'self_attn.q_norm', 'self_attn.k_norm']) {
      yield [`${at}.${norm}.weight`, [hidden]];
    }
    for (const part of ['q', 'k', 'v', 'o']) yield [`${at}.self_attn.${part}_proj.weight`, [hidden, hidden]];
    yield [`${at}.mlp.gate.weight`, [experts, hidden]];
    for (let expert = 0; expert < experts; expert += 1) {
      yield [`${at}.mlp.experts.${expert}.gate_proj.weight`, [columns, hidden]];
      yield [`${at}.mlp.experts.${expert}.up_proj.weight`, [columns, hidden]];
      yield [`${at}.mlp.experts.${expert}.down_proj.weight`, [hidden, columns]];
    }
  }
}

/** Pseudorandom numbers between -0.1 and 0.1, the same for the same seed. @returns {Buffer} */
function numbers(count, seed) {
  const values = new Float32Array(count);
  let state = seed;
  for (let at = 0; at < count; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[at] = (state / 2 ** 32 - 0.5) * 0.2;
  }
  return Buffer.from(values.buffer);
}

/**
 * Files of a mixture of experts of any size with untrained weights; the weights' file is a list of parts, since one
 * buffer would be too large. @returns {Record<string, Buffer | Buffer[]>}
 */
export function olmoeOf(sizes) {
  const files = olmoe();
  const header = {};
  const parts = [];
  let offset = 0;
  for (const [name, shape] of shapes(sizes)) {
    const part = numbers(shape.reduce((all, size) => all * size), parts.length + 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + part.length] };
    offset += part.length;
    parts.push(part);
  }
  const config = {
    ...JSON.parse(files['config.json']),
    hidden_size: sizes.hidden,
    intermediate_size: sizes.columns,
    num_experts: sizes.experts,
    num_experts_per_tok: sizes.taken,
    num_hidden_layers: sizes.layers,
  };
  const weights = [withHeader(JSON.stringify(header), Buffer.alloc(0)), ...parts];
  return { ...files, 'config.json': json(config), 'model.safetensors': weights };
}

/**
 * A model of the same family in a GGUF file; its tokens are `tn`, of which `t0`, `t1` and `t2` can be written in a
 * prompt.
 */
export function gguf() {
  const file = fs.readFileSync(path.join(CASES, 'gguf/olmoe_f16.gguf'));
  // The file's merges are of tokens that the small vocabulary lacks, so their key is renamed.
  const at = file.indexOf('tokenizer.ggml.merges');
  assert.ok(at > 0, 'the file has merges');
  file.write('x', at);
  return { 'olmoe.gguf': file };
}

/** The tokens of the case and, after each, the likeliest next token according to transformers. */
export function likeliest() {
  const { tensors } = parse(fs.readFileSync(path.join(CASES, 'decoder_olmoe/logits.case.safetensors')));
  const numbers = (Type, { bytes }) => new Type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const tokens = [...numbers(Int32Array, tensors['in.tokens'])];
  const logits = numbers(Float32Array, tensors['out.logits']);
  const next = tokens.map((_, row) => {
    const of = logits.subarray(row * WORDS, (row + 1) * WORDS);
    return of.indexOf(Math.max(...of));
  });
  return { tokens, next };
}

/** Output of `moebius generate` with the model at a path; without a path, with the bundled model. */
export function generateNativelyFrom(lab, model, options, device = 'wgpu') {
  assert.ok(lab.native, 'no native command to compare with: --native PATH names it');
  const command = ['generate', '--device', device, ...(model ? ['--model', model] : []), '--json', ...options];
  const { status, stdout, stderr } = spawnSync(lab.native, command, { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

/** Output of `moebius generate` with the model in `files`; without files, with the bundled model. */
export function generateNatively(lab, files, options, device) {
  if (!files) return generateNativelyFrom(lab, null, options, device);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-text-'));
  try {
    for (const [name, bytes] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), bytes);
    const [only] = Object.keys(files);
    const model = only.endsWith('.gguf') ? path.join(folder, only) : folder;
    return generateNativelyFrom(lab, model, options, device);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

/** Makes the server send `files` below `folder` until the test ends. */
export function serve(lab, folder, files) {
  for (const [name, bytes] of Object.entries(files)) lab.replace(`${folder}/${name}`, bytes);
  lab.replace(`${folder}/files.json`, json(Object.keys(files)));
}
