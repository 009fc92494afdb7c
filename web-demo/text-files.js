// Files that a visitor chose or dropped, and the model that they make up.

/** Files with a tokenizer, of which a model needs one. */
const TOKENIZERS = ['tokenizer.json', 'tokenizer.model', 'vocab.json'];
/** Names of files read beside safetensors weights. */
const BESIDE = [
  'config.json',
  ...TOKENIZERS,
  'merges.txt',
  'generation_config.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
];

const ends = (ending) => (file) => file.name.toLowerCase().endsWith(ending);

/** The files of a drop, including those in dropped folders. Call this while the event is being handled. */
export async function filesOf(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === 'file');
  // Entry and file are gone after the event; an entry tells whether it is a folder.
  const found = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const lists = await Promise.all(found.map(({ entry, file }) => (entry?.isDirectory ? within(entry) : [file])));
  return lists.flat().filter((file) => file !== null);
}

/** The files directly in a folder, without subfolders. */
async function within(folder) {
  const reader = folder.createReader();
  const files = [];
  for (;;) {
    // A reader returns its entries in parts, and an empty part at the end.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return files;
    for (const entry of entries) {
      if (entry.isFile) files.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    }
  }
}

/**
 * The model that the files make up: its name, and its files by name, as the package takes them.
 * @param {File[]} files
 * @returns {{name: string, files: Record<string, File>}}
 */
export function modelOf(files) {
  const gguf = files.filter(ends('.gguf'));
  const weights = files.filter(ends('.safetensors'));
  if (gguf.length > 1 || (gguf.length === 1 && weights.length > 0)) {
    throw new Error(`expected one GGUF file or safetensors, got ${names([...gguf, ...weights])}`);
  }
  if (gguf.length === 1) return { name: gguf[0].name, files: { [gguf[0].name]: gguf[0] } };
  if (weights.length === 0) {
    throw new Error(`expected a .gguf or .safetensors file, got ${names(files) || 'nothing'}`);
  }
  const beside = files.filter(({ name }) => BESIDE.includes(name));
  const given = (name) => beside.some((file) => file.name === name);
  const missing = given('config.json') ? [] : ['config.json'];
  if (!TOKENIZERS.some(given)) missing.push(TOKENIZERS[0]);
  if (missing.length > 0) {
    const words = missing.join(' and ');
    throw new Error(`expected ${words} beside the weights, got ${names(files)}; choose them together, or a folder`);
  }
  const all = [...weights, ...beside];
  const name = weights.length === 1 ? weights[0].name : `${weights[0].name} and ${weights.length - 1} more`;
  return { name, files: Object.fromEntries(all.map((file) => [file.name, file])) };
}

const names = (files) => {
  const some = files.slice(0, 8).map(({ name }) => name);
  return some.join(', ') + (files.length > some.length ? ` and ${files.length - some.length} more` : '');
};
