// Files that a visitor chose or dropped, and the model that they make up.
import { bytes } from './dom.js';

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

/** Names of the two files of an adapter. */
const ADAPTER = ['adapter_config.json', 'adapter_model.safetensors'];

const ends = (ending) => (file) => file.name.toLowerCase().endsWith(ending);

/** The files of a drop, including those in dropped folders. Call this while the event is being handled. */
async function filesOf(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === 'file');
  // Entry and file are gone after the event; an entry tells whether it is a folder.
  const found = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const lists = await Promise.all(found.map(({ entry, file }) => (entry?.isDirectory ? within(entry) : [file])));
  return lists.flat().filter((file) => file !== null);
}

/**
 * Has `take` called with the files that are dropped onto an element, once `ready`.
 * @param {HTMLElement} element
 * @param {() => boolean} ready
 * @param {(files: File[]) => void} take
 */
export function onDrop(element, ready, take) {
  const over = (event) => {
    if (!ready() || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    element.classList.add('over');
  };
  element.addEventListener('dragenter', over);
  element.addEventListener('dragover', over);
  element.addEventListener('dragleave', (event) => {
    if (!element.contains(event.relatedTarget)) element.classList.remove('over');
  });
  element.addEventListener('drop', async (event) => {
    element.classList.remove('over');
    if (!ready()) return;
    event.preventDefault();
    take(await filesOf(event.dataTransfer));
  });
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
 * The adapter among the files: its name, and its files by name; null if there is none.
 * @param {File[]} files
 * @returns {{name: string, files: Record<string, File>} | null}
 */
function adapterOf(files) {
  const own = files.filter(({ name }) => ADAPTER.includes(name));
  if (own.length === 0) return null;
  if (own.length < ADAPTER.length) throw new Error(`expected ${ADAPTER.join(' and ')}, got ${names(own)} alone`);
  return { name: 'an adapter', files: Object.fromEntries(own.map((file) => [file.name, file])) };
}

/**
 * The model that the files make up: its name, and its files by name, as the package takes them.
 * @param {File[]} files
 * @returns {{name: string, files: Record<string, File>}}
 */
function modelOf(files) {
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
  const name = weights.length === 1 ? weights[0].name : `${weights[0].name} and ${weights.length - 1} more`;
  return { name, files: Object.fromEntries([...weights, ...beside].map((file) => [file.name, file])) };
}

/**
 * Shows on a bar and in words how much of a model is loaded while `load` runs, which calls the given listener.
 * @template T
 * @param {HTMLProgressElement} bar
 * @param {HTMLElement} status
 * @param {(onProgress: (progress: { read: number, of: number }) => void) => Promise<T>} load
 * @returns {Promise<T>}
 */
export async function withProgress(bar, status, load) {
  bar.hidden = false;
  try {
    return await load(({ read, of }) => {
      bar.max = of;
      bar.value = read;
      status.textContent = `Loading the model: ${bytes(read)} of ${bytes(of)}.`;
    });
  } finally {
    bar.hidden = true;
  }
}

/**
 * What the files make up: a model, an adapter, or both; what isn't among them is null.
 * @param {File[]} files
 */
export function chosenOf(files) {
  const adapter = adapterOf(files);
  const rest = files.filter(({ name }) => !ADAPTER.includes(name));
  const alone = adapter !== null && !rest.some((file) => ends('.safetensors')(file) || ends('.gguf')(file));
  return { adapter, model: alone ? null : modelOf(rest) };
}

/** The names of the first files, and how many more there are. @param {File[]} files */
export const names = (files) => {
  const some = files.slice(0, 8).map(({ name }) => name);
  return some.join(', ') + (files.length > some.length ? ` and ${files.length - some.length} more` : '');
};
