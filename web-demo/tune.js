// Section "Fine-tune the language model": an adapter of the model of the section "Text" learns from a text, and is used
// there or saved.
import { isCancelled, isLoss } from './client.js';
import { historyRows, lineChart, roundUp } from './charts.js';
import { checkGradients } from './device.js';
import { byId, bytes, facts, h, milliseconds, short } from './dom.js';
import { names, onDrop, withProgress } from './text-files.js';
import { text } from './text.js';

const SECTION = byId('tune');
const CALL_MS = 150; // target time of one call's steps in ms, so that a pause takes effect soon
const LARGEST = 1 << 20; // bytes of a text
const MOST_STEPS = 5000;

let client = null;
/** The training on the device, as `{model, report}` with the model of the section "Text"; null if there is none. */
let begun = null;
/** Number and loss of each step. */
let history = [];
let perStep = null;
/** Controller of the steps in progress, or null. */
let run = null;
/** Addresses of the files that were saved. */
let addresses = [];

const control = (name) => byId(`tune-${name}`);
const steps = () => history.at(-1)?.[0] ?? 0;

/** Words of the button that starts, by state. */
const STARTS = {
  idle: 'Start',
  loading: 'Stop',
  running: 'Pause',
  paused: 'Continue',
  done: 'Start anew',
  lost: 'Start',
};

function setState(state, words) {
  SECTION.dataset.tuneState = state;
  SECTION.setAttribute('aria-busy', String(run !== null));
  control('start').textContent = STARTS[state];
  // A training goes on with the text and the numbers that it began with.
  const fixed = begun !== null || run !== null;
  for (const input of control('form').querySelectorAll('textarea, select, input')) input.disabled = fixed;
  control('reset').disabled = !fixed;
  for (const name of ['use', 'save']) control(name).disabled = run !== null || steps() === 0;
  if (words) control('status').textContent = words;
}

/** What the controls ask for. */
function optionsOf() {
  const rank = Number(control('rank').value);
  const wanted = Math.floor(Number(control('steps').value)) || 1;
  return {
    text: control('text').value,
    rank,
    alpha: 2 * rank,
    targets: control('targets').value.split(' '),
    learningRate: Number(control('rate').value),
    steps: Math.min(Math.max(wanted, 1), MOST_STEPS),
    // Codes of a model as it is stored stand for the values that f32 has.
    precision: text.precision() === 'fp8' ? 'fp8' : 'f32',
  };
}

/** Loads the model for a training with the text and the numbers of the controls. */
async function begin(mine) {
  const [model, options] = [text.model(), optionsOf()];
  setState('loading', 'Setting up.');
  await checkGradients(client, control('status'), mine.signal);
  mine.signal.throwIfAborted();
  if (run !== mine) return;
  if (!text.leave()) throw new Error('stop the text above first');
  const values = { files: model?.files ?? null, options };
  const report = await withProgress(control('progress'), control('status'), (onProgress) =>
    client.call('tuneCreate', values, { signal: mine.signal, onProgress }),
  );
  if (run === mine) begun = { model, report };
}

/** Trains until `mine` is replaced or aborted, or all steps are done. */
async function loop(mine) {
  let count = 1;
  while (run === mine && !mine.signal.aborted && steps() < begun.report.steps) {
    const next = await client.call('tuneStep', { count });
    if (run !== mine) return;
    if (steps() === 0) control('status').textContent = 'Training.';
    perStep = next.perStep;
    const before = next.step - next.losses.length;
    history.push(...Array.from(next.losses, (loss, at) => [before + at + 1, loss]));
    count = Math.max(1, Math.min(Math.round(CALL_MS / Math.max(perStep, 1)), 2 * count, 50));
    show();
  }
}

async function start() {
  const mine = new AbortController();
  run = mine;
  hideFiles();
  try {
    if (!begun) await begin(mine);
    if (run !== mine) return;
    setState('running', steps() === 0 ? 'The first step compiles its kernels.' : 'Training.');
    await loop(mine);
  } catch (error) {
    if (run !== mine || isLoss(error)) return; // the page reports the loss and calls `stop`
    run = null;
    const stopped = isCancelled(error) || mine.signal.aborted;
    const words = stopped ? 'Stopped while it was loaded.' : `It could not go on: ${error.message}`;
    setState(begun ? 'paused' : 'idle', words);
    show();
    return;
  }
  if (run !== mine) return;
  run = null;
  show();
  const [[, first], [, last]] = [history[0] ?? [0, NaN], history.at(-1) ?? [0, NaN]];
  const fell = steps() > 0 ? ` The loss went from ${short(first)} to ${short(last)}.` : '';
  if (steps() === begun.report.steps) setState('done', `Done after ${steps()} steps.${fell}`);
  else setState('paused', `Paused after ${steps()} of ${begun.report.steps} steps.${fell}`);
}

/** Ends the training, if there is one, and gives its memory back. */
function discard(words) {
  const had = begun !== null || run !== null;
  run?.abort();
  run = begun = perStep = null;
  history = [];
  hideFiles();
  // A lost device, which the page reports, has taken the training along.
  if (had) client?.call('tuneEnd').catch(() => {});
  setState('idle', words);
  show();
}

function show() {
  SECTION.dataset.steps = steps();
  const { report } = begun ?? {};
  const last = history.at(-1);
  const mean = history.slice(-10).reduce((sum, [, loss], _, all) => sum + loss / all.length, 0);
  facts(control('numbers'), [
    ['Step', report ? `${steps()} of ${report.steps}` : '–', 'step'],
    ['Loss', last ? short(last[1]) : '–', 'loss'],
    ['Mean of the last ten', last ? short(mean) : '–', 'mean'],
    ['Step takes', perStep === null ? '–' : milliseconds(perStep), 'time'],
    ['Parameters', report?.parameters ?? '–', 'parameters'],
    ['Tokens of the text', report?.tokens ?? '–', 'tokens'],
  ]);
  const top = last ? roundUp(Math.max(0.01, ...history.map(([, loss]) => loss))) : 1;
  lineChart(control('loss'), history, { name: 'Loss', ceiling: top, format: short });
  if (control('history-details').open) fillHistory();
}

function fillHistory() {
  const rows = historyRows(history, ([step, loss]) => [{ n: step }, { n: short(loss) }]);
  control('history').tBodies[0].replaceChildren(...rows);
}

/** Calls `then` with the files of the adapter in its present state. */
async function withAdapter(then) {
  const of = begun;
  try {
    const files = await client.call('tuneAdapter');
    if (begun === of) then(files);
  } catch (error) {
    if (begun === of && !isLoss(error)) control('status').textContent = `There is no adapter: ${error.message}`;
  }
}

function useIt(files) {
  const used = text.use(begun.model, { name: `the adapter after ${steps()} steps`, files });
  control('status').textContent = used
    ? 'The section above writes with the adapter now.'
    : 'Stop the text above first; then it can be written with the adapter.';
}

function save(files) {
  hideFiles();
  const links = Object.entries(files).map(([name, data]) => {
    const type = name.endsWith('.json') ? 'application/json' : 'application/octet-stream';
    const address = URL.createObjectURL(new Blob([data], { type }));
    addresses.push(address);
    return h('a', { href: address, download: name }, `${name} (${bytes(data.length)})`);
  });
  control('files').replaceChildren(...links.map((link) => h('li', {}, link)));
  control('files').hidden = false;
  for (const link of links) link.click();
  control('status').textContent =
    'Saved as two files, which PEFT reads. If the browser kept only one, take the other from the list.';
}

function hideFiles() {
  for (const address of addresses) URL.revokeObjectURL(address);
  addresses = [];
  control('files').replaceChildren();
  control('files').hidden = true;
}

/** Takes a dropped or chosen file as the text to learn from, or says why not. */
async function take(files) {
  const [file, ...others] = files;
  if (!file) return;
  if (begun || run) {
    control('status').textContent = 'Discard the training before another text is chosen.';
    return;
  }
  if (others.length > 0) {
    control('status').textContent =
      `Expected one text file, got ${names(files)}. A model or an adapter goes to the section “Text”.`;
    return;
  }
  try {
    if (file.size > LARGEST) throw new Error(`expected at most ${bytes(LARGEST)}, got ${bytes(file.size)}`);
    const decoder = new TextDecoder('utf-8', { fatal: true });
    control('text').value = decoder.decode(await file.arrayBuffer());
    control('status').textContent = `It learns from ${file.name}.`;
  } catch (error) {
    control('status').textContent = `${file.name} can’t be learnt from: ${error.message}`;
  }
}

function listen() {
  control('form').addEventListener('submit', (event) => event.preventDefault());
  control('start').addEventListener('click', () => {
    if (!client) return;
    if (run) {
      run.abort();
      control('status').textContent = 'Stopping.';
      return;
    }
    if (SECTION.dataset.tuneState === 'done') discard();
    start();
  });
  control('reset').addEventListener('click', () => {
    control('start').focus(); // this button is off in a moment
    discard('Discarded.');
  });
  control('use').addEventListener('click', () => withAdapter(useIt));
  control('save').addEventListener('click', () => withAdapter(save));
  control('file').addEventListener('change', () => {
    const files = [...control('file').files];
    control('file').value = ''; // so that the same file can be chosen again
    take(files);
  });
  control('history-details').addEventListener('toggle', fillHistory);
  onDrop(SECTION, () => client !== null, take);
}

/** Interface of the section for the page. */
export const tune = {
  start(demo) {
    client = demo.client;
  },
  stop(why) {
    run?.abort();
    if (why !== 'lost') return null;
    client = null;
    if (!begun && !run) return null;
    discard();
    setState('lost', 'The device went away, and the training with it. Start begins anew.');
    return 'training';
  },
  last: () =>
    begun && { state: SECTION.dataset.tuneState, report: begun.report, losses: history.map(([, loss]) => loss) },
};

listen();
discard('Not started.');
