// Section "Text": a language model writes, token by token. The model is the page's own or a visitor's.
import { isCancelled, isLoss } from './client.js';
import { byId, bytes, facts, h, milliseconds } from './dom.js';
import { filesOf, modelOf } from './text-files.js';
import { drawTaken, Taken } from './text-view.js';

const SECTION = byId('text');

let client = null;
/** The model to write with: `null` for the page's own, or `{name, files}`. */
let own = null;
/** The model on the device: `{of, precision, report}`; another source or precision needs a new load. */
let loaded = null;
/** Controller of the load or text in progress, or null. */
let running = null;
/** Messages of the conversation so far, in turns, if the model takes messages. */
let messages = [];
let taken = new Taken([]);
/** Tokens of the shown text. */
let ids = [];
let selected = -1;
let result = null;

const control = (name) => byId(`text-${name}`);

function setState(state, text) {
  SECTION.dataset.textState = state;
  const busy = state === 'loading' || state === 'writing';
  SECTION.setAttribute('aria-busy', String(busy));
  control('write').disabled = busy;
  control('stop').disabled = !busy;
  for (const name of ['precision', 'files', 'shipped']) control(name).disabled = busy;
  control('shipped').hidden = own === null;
  if (text !== undefined) control('status').textContent = text;
}

/** Whether the next text is an answer in a conversation. */
const chats = () => loaded?.report.chat === true && control('mode').value === 'chat';

function describeModel() {
  const { report } = loaded ?? {};
  control('mode').disabled = !report?.chat;
  if (!report?.chat) control('mode').value = 'prompt';
  if (!report) {
    control('model').textContent = own ? own.name : 'The page’s own model, loaded at the first text.';
    return;
  }
  const [first] = report.experts;
  const experts = first
    ? `${report.experts.length} of ${report.layers} layers with ${first.experts} experts, top-${first.topK}`
    : `${report.layers} layers without experts`;
  const precision = { stored: 'weights as they are stored', f32: 'f32', fp8: 'FP8' }[report.precision];
  control('model').textContent =
    `${own ? own.name : 'The page’s own model'}: ${report.family}, ${experts}, ${precision}, ` +
    `${bytes(report.weightBytes)} on the device, up to ${report.context} tokens.`;
}

/** Loads the model onto the device, unless it is there already. */
async function load(mine) {
  const precision = control('precision').value;
  if (loaded && loaded.of === own && loaded.precision === precision) return;
  loaded = null;
  describeModel();
  setState('loading', 'Loading the model.');
  const progress = control('progress');
  progress.hidden = false;
  try {
    const onProgress = ({ read, of }) => {
      progress.max = of;
      progress.value = read;
      control('status').textContent = `Loading the model: ${bytes(read)} of ${bytes(of)}.`;
    };
    const values = { files: own?.files ?? null, precision };
    const report = await client.call('textLoad', values, { signal: mine.signal, onProgress });
    if (running !== mine) return;
    loaded = { of: own, precision, report };
    messages = [];
    control('mode').value = report.chat ? 'chat' : 'prompt';
  } finally {
    progress.hidden = true;
    describeModel();
  }
}

function options(prompt) {
  const count = (name) => Math.max(0, Math.floor(Number(control(name).value)) || 0);
  const asked = chats() ? { messages: [...messages, { role: 'user', content: prompt }] } : { prompt };
  return {
    ...asked,
    maxTokens: Math.max(1, count('length')),
    temperature: Number(control('temperature').value),
    topP: 0.95,
    seed: count('seed'),
    special: control('special').value === 'tokens',
    experts: true,
  };
}

/** Clears the last text or, in a conversation, continues it; returns the element for the answer's tokens. */
function begin(prompt) {
  taken = new Taken(loaded.report.experts);
  ids = [];
  result = null;
  SECTION.dataset.tokens = 0;
  select(-1);
  const output = control('output');
  if (!chats() || messages.length === 0) output.replaceChildren();
  output.append(h('p', { class: chats() ? 'asked' : 'prompt' }, prompt));
  const answer = h('p', { class: 'answer' });
  output.append(answer);
  return answer;
}

function take(answer, token, began) {
  const at = token.id === null ? ids.length - 1 : ids.push(token.id) - 1;
  const follows = selected === at - 1;
  if (token.id !== null) taken.add(token.experts);
  if (token.text !== '' || token.id !== null) answer.append(h('span', { 'data-token': Math.max(0, at) }, token.text));
  SECTION.dataset.tokens = ids.length;
  const slider = control('token');
  slider.disabled = ids.length === 0;
  slider.max = Math.max(0, ids.length - 1);
  if (follows || ids.length <= 1) select(ids.length - 1);
  const now = performance.now();
  if (ids.length === 1) began.first = now;
  showNumbers({ speed: ids.length > 1 ? (1000 * (ids.length - 1)) / (now - began.first) : null });
}

function showNumbers({ speed = null, firstMs = null, promptTokens = null } = {}) {
  facts(control('numbers'), [
    ['Tokens', ids.length, 'tokens'],
    ['Tokens a second', speed === null ? '–' : speed.toFixed(1), 'speed'],
    ['First token after', firstMs === null ? '–' : milliseconds(firstMs), 'first'],
    ['Tokens of the prompt', promptTokens ?? '–', 'prompt'],
  ]);
}

async function write() {
  const prompt = control('prompt').value;
  if (!client || running || prompt === '') {
    if (prompt === '') control('status').textContent = 'Nothing to go on with: the prompt is empty.';
    return;
  }
  const mine = new AbortController();
  running = mine;
  try {
    await load(mine);
    if (running !== mine) return;
    const inTurns = chats();
    const asked = options(prompt);
    const answer = begin(prompt);
    const began = { first: 0 };
    setState('writing', 'Writing; the first text compiles its kernels.');
    const onProgress = (token) => running === mine && take(answer, token, began);
    try {
      result = await client.call('textGenerate', { options: asked }, { signal: mine.signal, onProgress });
    } finally {
      // A stopped answer is part of the conversation.
      if (inTurns && ids.length > 0) {
        messages = [...asked.messages, { role: 'assistant', content: answer.textContent }];
      }
    }
    if (running !== mine) return;
    ended(inTurns);
  } catch (error) {
    if (running === mine) failed(error);
  }
}

function ended(inTurns) {
  running = null;
  const { finish, tokensPerSecond, firstTokenMs, promptTokens } = result;
  showNumbers({ speed: tokensPerSecond, firstMs: firstTokenMs, promptTokens });
  const why = finish === 'stop' ? 'the model ended it' : 'it is as long as was asked for';
  setState('ready', `${ids.length} tokens: ${why}.`);
  if (inTurns) control('prompt').value = '';
}

function failed(error) {
  running = null;
  if (isLoss(error)) return; // the page reports the loss and calls `stop`
  if (isCancelled(error)) {
    if (loaded) setState('ready', `Stopped after ${ids.length} tokens.`);
    else setState('idle', 'Stopped while it was loaded.');
    return;
  }
  setState('failed', `It could not go on: ${error.message}`);
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
  drawTaken(control('experts'), taken, token);
  control('experts').setAttribute('aria-label', words || 'Experts of each layer: no token yet');
}

/** Selects the model for the next texts. */
function use(model) {
  if (running) return;
  own = model;
  loaded = null;
  messages = [];
  clear();
  describeModel();
  setState('idle', `${model ? model.name : 'The page’s own model'} is loaded at the first text.`);
}

function clear() {
  taken = new Taken([]);
  ids = [];
  result = null;
  SECTION.dataset.tokens = 0;
  control('output').replaceChildren();
  control('token').disabled = true;
  select(-1);
  showNumbers();
}

function choose(files) {
  try {
    use(modelOf(files));
  } catch (error) {
    setState(SECTION.dataset.textState, `These files are no model: ${error.message}.`);
  }
}

/** Accepts files that are dropped onto the section, once the page is ready. */
function listenForDrops() {
  const over = (event) => {
    if (!client || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    SECTION.classList.add('over');
  };
  SECTION.addEventListener('dragenter', over);
  SECTION.addEventListener('dragover', over);
  SECTION.addEventListener('dragleave', (event) => {
    if (!SECTION.contains(event.relatedTarget)) SECTION.classList.remove('over');
  });
  SECTION.addEventListener('drop', async (event) => {
    SECTION.classList.remove('over');
    if (!client) return;
    event.preventDefault();
    if (running) {
      control('status').textContent = 'Stop the text before another model is chosen.';
      return;
    }
    choose(await filesOf(event.dataTransfer));
  });
}

function listen() {
  control('form').addEventListener('submit', (event) => {
    event.preventDefault();
    write();
  });
  control('stop').addEventListener('click', () => {
    control('status').textContent = 'Stopping.';
    running?.abort();
  });
  control('files').addEventListener('change', () => {
    const files = [...control('files').files];
    control('files').value = ''; // so that the same files can be chosen again
    if (files.length > 0) choose(files);
  });
  control('shipped').addEventListener('click', () => use(null));
  control('new').addEventListener('click', () => {
    if (running) return;
    messages = [];
    clear();
    setState(loaded ? 'ready' : 'idle', 'Begun anew.');
  });
  control('token').addEventListener('input', () => select(Number(control('token').value)));
  control('output').addEventListener('pointerover', ({ target }) => {
    const last = [...control('output').querySelectorAll('.answer')].pop();
    if (target.dataset.token !== undefined && last?.contains(target)) select(Number(target.dataset.token));
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => select(selected));
  listenForDrops();
}

/** Interface of the section for the page. */
export const text = {
  start(demo) {
    client = demo.client;
    setState(SECTION.dataset.textState === 'lost' ? 'idle' : SECTION.dataset.textState);
  },
  stop(why) {
    running?.abort();
    if (why !== 'lost') return null;
    const had = loaded !== null || running !== null;
    running = null;
    client = null;
    loaded = null;
    messages = [];
    describeModel();
    if (had) setState('lost', 'The device went away, and the model with it. The next text loads it again.');
    return null;
  },
  last: () =>
    loaded
      ? {
          state: SECTION.dataset.textState,
          report: loaded.report,
          ids: [...ids],
          experts: taken.tokens,
          messages,
          ...(result && { text: result.text, finish: result.finish, tokensPerSecond: result.tokensPerSecond }),
        }
      : null,
};

listen();
clear();
describeModel();
setState('idle');
