// Section "Text": a language model writes, token by token. The model is the page's own or a visitor's.
import { isLoss } from './client.js';
import { byId, bytes } from './dom.js';
import { chosenOf, onDrop, withProgress } from './text-files.js';
import { drawExperts, Taken } from './text-view.js';
import { control, Writing } from './writing.js';

const SECTION = byId('text');

let client = null;
/** The model to write with: `null` for the page's own, or `{name, files}`. */
let own = null;
/** What changes its weights: null, or an adapter as `{name, files}`. */
let adapter = null;
/** The model on the device: `{of, adapter, precision, report}`; another source or precision needs a new load. */
let loaded = null;
let taken = new Taken([]);
/** Tokens of the shown text. */
let ids = [];
let selected = -1;

const writing = new Writing({
  begins: 'Writing; the first text compiles its kernels.',
  prepare: load,
  chats: () => loaded?.report.chat === true && control('mode').value === 'chat',
  generate: (asked, handlers) => client.call('textGenerate', { options: optionsOf(asked) }, handlers),
  cleared,
  took,
  changed(busy) {
    for (const name of ['precision', 'files', 'shipped']) control(name).disabled = busy;
    control('shipped').hidden = own === null && adapter === null;
  },
  isLoss, // the page reports the loss and calls `stop`
});

const optionsOf = (asked) => ({ ...asked, special: control('special').value === 'tokens', experts: true });

/** The name of the model for the next text. */
function named() {
  const name = own ? own.name : 'The page’s own model';
  return adapter ? `${name} with ${adapter.name}` : name;
}

function describeModel() {
  const { report } = loaded ?? {};
  control('mode').disabled = !report?.chat;
  if (!report?.chat) control('mode').value = 'prompt';
  if (!report) {
    control('model').textContent = own ? named() : `${named()}, loaded at the first text.`;
    return;
  }
  const [first] = report.experts;
  const experts = first
    ? `${report.experts.length} of ${report.layers} layers with ${first.experts} experts, top-${first.topK}`
    : `${report.layers} layers without experts`;
  const precision = { stored: 'weights as they are stored', f32: 'f32', fp8: 'FP8' }[report.precision];
  control('model').textContent =
    `${named()}: ${report.family}, ${experts}, ${precision}, ` +
    `${bytes(report.weightBytes)} on the device, up to ${report.context} tokens.`;
}

/** Loads the model onto the device, unless it is there already. */
async function load(signal) {
  const precision = control('precision').value;
  if (loaded?.of === own && loaded.adapter === adapter && loaded.precision === precision) return;
  loaded = null;
  describeModel();
  writing.setState('loading', 'Loading the model.');
  try {
    const values = { files: own?.files ?? null, precision, adapter: adapter?.files ?? null };
    const report = await withProgress(control('progress'), control('status'), (onProgress) =>
      client.call('textLoad', values, { signal, onProgress }),
    );
    if (signal.aborted) return;
    loaded = { of: own, adapter, precision, report };
    writing.messages = [];
    control('mode').value = report.chat ? 'chat' : 'prompt';
  } finally {
    describeModel();
  }
}

/** Drops the experts of the last text. */
function cleared() {
  taken = new Taken(loaded?.report.experts ?? []);
  ids = [];
  control('token').disabled = true;
  select(-1);
}

/** Adds the experts of the next token; if the last one's are shown, the new one's replace them. */
function took(span, token, at) {
  span.dataset.token = at;
  const follows = selected === ids.length - 1;
  if (token.id !== null) {
    ids.push(token.id);
    taken.add(token.experts);
  }
  const slider = control('token');
  slider.disabled = ids.length === 0;
  slider.max = Math.max(0, ids.length - 1);
  if (follows) select(ids.length - 1);
}

/** Shows the experts of a token. */
function select(token) {
  selected = token;
  for (const part of control('output').querySelectorAll('.chosen')) part.classList.remove('chosen');
  const answers = control('output').querySelectorAll('.answer');
  const parts = answers[answers.length - 1]?.querySelectorAll(`[data-token="${token}"]`) ?? [];
  for (const part of parts) part.classList.add('chosen');
  control('token').value = Math.max(0, token);
  control('token-out').textContent = token < 0 ? '–' : token;
  const text = [...parts].map((part) => part.textContent).join('');
  const words = token < 0 ? '' : `Token ${token} “${text}”: ${taken.words(token)}`;
  control('token').setAttribute('aria-valuetext', words || 'no token');
  control('token-detail').textContent = words;
  drawExperts(control('experts'), taken.counts, taken.tokens[token] ?? []);
  control('experts').setAttribute('aria-label', words || 'Experts of each layer: no token yet');
}

/** Selects the model and its adapter for the next texts. */
function use(model, change = null) {
  if (writing.busy) return;
  own = model;
  adapter = change;
  loaded = null;
  writing.messages = [];
  writing.clear();
  describeModel();
  writing.setState('idle', `${named()} is loaded at the first text.`);
}

/** Takes a model, a model with an adapter, or an adapter of the present model. */
function choose(files) {
  if (writing.busy) {
    control('status').textContent = 'Stop the text before another model is chosen.';
    return;
  }
  try {
    const chosen = chosenOf(files);
    use(chosen.model ?? own, chosen.adapter);
  } catch (error) {
    writing.setState(SECTION.dataset.textState, `These files are no model: ${error.message}.`);
  }
}

function listen() {
  control('files').addEventListener('change', () => {
    const files = [...control('files').files];
    control('files').value = ''; // so that the same files can be chosen again
    if (files.length > 0) choose(files);
  });
  control('shipped').addEventListener('click', () => use(null));
  control('token').addEventListener('input', () => select(Number(control('token').value)));
  control('output').addEventListener('pointerover', ({ target }) => {
    const last = [...control('output').querySelectorAll('.answer')].pop();
    if (target.dataset.token !== undefined && last?.contains(target)) select(Number(target.dataset.token));
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => select(selected));
  onDrop(SECTION, () => client !== null, choose);
}

/** Interface of the section for the page. */
export const text = {
  /** The model for the next text: null for the page's own, or `{name, files}`. */
  model: () => own,
  /** The weights that are chosen for it. */
  precision: () => control('precision').value,
  /** Gives the model on the device up, unless it writes; the next text loads it again. Returns whether it could. */
  leave() {
    if (writing.busy) return false;
    loaded = null;
    writing.messages = [];
    describeModel();
    return true;
  },
  /** Writes the next texts with a model and an adapter of it; returns whether it can at the moment. */
  use(model, change) {
    const can = !writing.busy;
    use(model, change);
    return can;
  },
  start(demo) {
    client = demo.client;
    writing.setState(SECTION.dataset.textState === 'lost' ? 'idle' : SECTION.dataset.textState);
  },
  stop(why) {
    if (why !== 'lost') {
      writing.stop();
      return null;
    }
    const had = loaded !== null || writing.busy;
    writing.leave();
    writing.messages = [];
    client = null;
    loaded = null;
    describeModel();
    if (had) {
      writing.setState('lost', 'The device went away, and the model with it. The next text loads it again.');
    }
    return null;
  },
  last() {
    if (!loaded) return null;
    const { messages, result } = writing;
    return {
      state: SECTION.dataset.textState,
      report: loaded.report,
      ids: [...ids],
      experts: taken.tokens,
      messages,
      ...(result && { text: result.text, finish: result.finish, tokensPerSecond: result.tokensPerSecond }),
    };
  },
};

listen();
writing.clear();
describeModel();
writing.setState('idle');
