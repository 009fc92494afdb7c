// Published models as small as they can be: decoders of the cases, with tokenizers of a word for each token.
import { spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { CASES } from './lab.mjs';
import { parse } from './safetensors.mjs';

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

/** What the `moebius` command generates with these files; where there are none, with the model inside it. */
export function generateNatively(lab, files, options, device = 'wgpu') {
  assert.ok(lab.native, 'no native command to compare with: --native PATH names it');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-text-'));
  try {
    for (const [name, bytes] of Object.entries(files ?? {})) fs.writeFileSync(path.join(folder, name), bytes);
    const [only] = Object.keys(files ?? {});
    const model = only?.endsWith('.gguf') ? path.join(folder, only) : folder;
    const command = ['generate', '--device', device, ...(files ? ['--model', model] : []), '--json', ...options];
    const { status, stdout, stderr } = spawnSync(lab.native, command, { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout.trim().split('\n').at(-1));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

/** For the rest of a test the server has the files in `folder`. */
export function serve(lab, folder, files) {
  for (const [name, bytes] of Object.entries(files)) lab.replace(`${folder}/${name}`, bytes);
  lab.replace(`${folder}/files.json`, json(Object.keys(files)));
}
