// Which files a visitor chose or dropped, and what of them a model is made of.

/** What is read beside weights in safetensors; of these a model needs the first two. */
const BESIDE = [
  'config.json',
  'tokenizer.json',
  'generation_config.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
];
const NEEDED = BESIDE.slice(0, 2);

const ends = (ending) => (file) => file.name.toLowerCase().endsWith(ending);

/** The files of a drop, and those in the folders of it. Has to be called while the event is under way. */
export async function filesOf(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === 'file');
  // Both are gone once the event is over; an entry tells folders from files.
  const found = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const lists = await Promise.all(found.map(({ entry, file }) => (entry?.isDirectory ? within(entry) : [file])));
  return lists.flat().filter((file) => file !== null);
}

/** The files of a folder, without those of folders in it. */
async function within(folder) {
  const reader = folder.createReader();
  const files = [];
  for (;;) {
    // A reader gives a part of its entries at a time, and none at the end.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return files;
    for (const entry of entries) {
      if (entry.isFile) files.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    }
  }
}

/**
 * The model that some files are: a name for it, and the files by name, as the package takes them.
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
  const missing = NEEDED.filter((name) => !beside.some((file) => file.name === name));
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
