// Published models as small as they can be: decoders of the cases, with tokenizers of a word for each token.
import { spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { CASES } from './lab.mjs';
import { parse, withHeader } from './safetensors.mjs';

/** Tokens of the vocabulary of `decoder_olmoe`. */
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

/** Takes the words of a conversation as they are. */
const TEMPLATE = '{% for message in messages %}{{ message.content }} {% endfor %}';

/** The files of a mixture of experts; with `chat` it takes messages. @returns {Record<string, Buffer>} */
export function olmoe({ chat = false } = {}) {
  const folder = path.join(CASES, 'decoder_olmoe');
  const config = JSON.parse(fs.readFileSync(path.join(folder, 'config.json'), 'utf8'));
  config.eos_token_id = null; // that of the published model, which the small one doesn't have
  return {
    'config.json': json(config),
    'tokenizer.json': json(tokenizer()),
    'model.safetensors': fs.readFileSync(path.join(folder, 'model.safetensors')),
    ...(chat ? { 'chat_template.jinja': Buffer.from(TEMPLATE) } : {}),
  };
}

/** The names and shapes of the tensors of such a mixture. */
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

/** @returns {Buffer} numbers between -0.1 and 0.1 that look random, and are the same for a seed */
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
 * The files of a mixture of any size with weights that nobody trained; those of the weights in parts, since a buffer
 * of all is too much. @returns {Record<string, Buffer | Buffer[]>}
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

/** The same family in a GGUF file; its tokens are `tn`, of which `t0`, `t1` and `t2` can be written in a prompt. */
export function gguf() {
  const file = fs.readFileSync(path.join(CASES, 'gguf/olmoe_f16.gguf'));
  // Merges of tokens that the small vocabulary lacks.
  const at = file.indexOf('tokenizer.ggml.merges');
  assert.ok(at > 0, 'the file has merges');
  file.write('x', at);
  return { 'olmoe.gguf': file };
}

/** The tokens of the case and, after each, the likeliest next one, as transformers has them. */
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

/** What the `moebius` command generates with the model at a path; where there is none, with the model inside it. */
export function generateNativelyFrom(lab, model, options, device = 'wgpu') {
  assert.ok(lab.native, 'no native command to compare with: --native PATH names it');
  const command = ['generate', '--device', device, ...(model ? ['--model', model] : []), '--json', ...options];
  const { status, stdout, stderr } = spawnSync(lab.native, command, { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

/** The same with these files; where there are none, with the model inside the command. */
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

/** For the rest of a test the server has the files in `folder`. */
export function serve(lab, folder, files) {
  for (const [name, bytes] of Object.entries(files)) lab.replace(`${folder}/${name}`, bytes);
  lab.replace(`${folder}/files.json`, json(Object.keys(files)));
}
