// The page of a server: whether it answers, the key, and a text that its model writes.
import { call, generate, hasKey, ServerError, useKey } from './api.js';
import { byId } from './dom.js';
import { show } from './load.js';
import { control, Writing } from './writing.js';

const PERIOD_MS = 1000; // experts are counted anew so often

const root = document.documentElement;
/** The served model, as the server describes it; null until it has. */
let model = null;
let timer = 0;
let looking = false;

const writing = new Writing({
  begins: 'Writing.',
  chats: () => control('mode').value === 'chat',
  generate: (asked, handlers) => generate(model.id, asked, handlers),
});

/** `loading`, `ready`, `locked` (the server asks for a key), `failed` or `lost` (it doesn't answer). */
function setState(state, words) {
  const unlocked = root.dataset.state === 'locked' && state === 'ready';
  root.dataset.state = state;
  if (state === 'locked') model = null;
  if (byId('status').textContent !== words) byId('status').textContent = words;
  byId('access').hidden = state !== 'locked';
  byId('access-forget').hidden = !hasKey();
  byId('text-gate').disabled = model === null || state === 'loading';
  if (unlocked) control('prompt').focus(); // the form that had the focus is hidden
}

/** Shows which model is served, and sets the controls to what it can do. */
function meet(served) {
  model = served;
  byId('model').textContent = `${model.id}, up to ${model.max_model_len} tokens of prompt and answer`;
  document.title = `${model.id} – Moebius`;
  control('length').max = model.max_model_len;
  control('mode').disabled = !model.chat;
  control('mode').value = model.chat ? 'chat' : 'prompt';
}

function failed(error) {
  if (!(error instanceof ServerError)) setState('lost', `The server does not answer: ${error.message}.`);
  else if (error.status === 401) setState('locked', hasKey() ? 'The key was refused.' : 'The server asks for a key.');
  else setState(error.status === 503 ? 'loading' : 'failed', `The server says: ${error.message}.`);
}

/** Asks how the server is, and again in a while, as long as somebody can see it. */
async function look() {
  if (looking) return;
  looking = true;
  clearTimeout(timer);
  try {
    if (!model) meet((await (await call('v1/models')).json()).data[0]);
    if (root.dataset.state !== 'ready') await call('health/ready');
    show(await (await call('metrics')).text());
    setState('ready', 'Ready.');
  } catch (error) {
    failed(error);
  }
  looking = false;
  if (root.dataset.state !== 'locked' && !document.hidden) timer = setTimeout(look, PERIOD_MS);
}

byId('access-form').addEventListener('submit', (event) => {
  event.preventDefault();
  useKey(byId('access-key').value);
  byId('access-key').value = '';
  look();
});
byId('access-forget').addEventListener('click', () => {
  useKey('');
  model = null;
  look();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && root.dataset.state !== 'locked') look();
});

writing.clear();
writing.setState('idle');
look();
