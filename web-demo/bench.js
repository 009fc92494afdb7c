// Section "Benchmarks": compares f32 with FP8 weights, in time and in measured memory.
import { isCancelled } from './client.js';
import { pairChart } from './charts.js';
import { byId, bytes, h, milliseconds, row, short } from './dom.js';

const MOE = { what: 'moe', tokens: 512, hidden: 256, inter: 512, experts: 8, topK: 2 };
/** Default size of a product on a software adapter, which takes seconds for it. */
const SOFTWARE_SIZE = '512';
const SECTION = byId('bench');

let client = null;
let device = null;
let running = null;
let sized = false;
/** Results of each workload: `[{title, reports: [f32, FP8], errors: [f32, FP8]}]`. */
let results = [];

/** The workloads that the form asks for, in order. */
function chosen() {
  const size = Number(byId('bench-size').value);
  const linear = (rows) => ({
    title: `Linear, ${rows} ${rows === 1 ? 'row' : 'rows'}, ${size} × ${size}`,
    options: { what: 'linear', m: rows, n: size, k: size },
  });
  const list = [];
  if (byId('bench-linear-1').checked) list.push(linear(1));
  if (byId('bench-linear-512').checked) list.push(linear(512));
  if (byId('bench-moe').checked) list.push({ title: 'MoE layer, 512 tokens', options: MOE });
  return list;
}

function setState(state, text) {
  SECTION.dataset.benchState = state;
  const busy = state === 'running';
  const [enabled, disabled] = busy
    ? [byId('bench-cancel'), byId('bench-run')]
    : [byId('bench-run'), byId('bench-cancel')];
  const hadFocus = document.activeElement === disabled;
  enabled.disabled = false;
  disabled.disabled = true;
  if (hadFocus) enabled.focus(); // disabling the focused button would lose the keyboard's place
  byId('bench-copy').disabled = busy || results.length === 0;
  if (text) byId('bench-status').textContent = text;
}

async function run() {
  const list = chosen();
  if (list.length === 0) {
    setState(SECTION.dataset.benchState, 'Choose at least one of the benchmarks.');
    return;
  }
  const controller = new AbortController();
  running = controller;
  results = [];
  setState('running', 'Starting.');
  showResults();
  try {
    await runAll(list, Number(byId('bench-repeats').value), controller.signal);
    if (running !== controller) return;
    const failed = results.some(({ errors }) => errors.some(Boolean));
    setState(failed ? 'failed' : 'done', failed ? 'Some benchmarks could not run; the table says why.' : 'Done.');
  } catch (error) {
    if (running !== controller) return;
    const cancelled = isCancelled(error);
    setState(cancelled ? 'cancelled' : 'failed', cancelled ? 'Cancelled.' : `Stopped: ${error.message}`);
  } finally {
    if (running === controller) running = null;
  }
}

async function runAll(list, repeats, signal) {
  const progress = byId('bench-progress');
  const total = list.length * 2 * repeats;
  progress.max = total;
  progress.value = 0;
  for (const [at, { title, options }] of list.entries()) {
    const result = { title, what: options.what, reports: [null, null], errors: [null, null] };
    for (const [column, precision] of ['f32', 'fp8'].entries()) {
      const before = (2 * at + column) * repeats;
      byId('bench-status').textContent = `${title}, ${precision === 'f32' ? 'f32' : 'FP8'}: checking and timing.`;
      const onProgress = ({ done }) => {
        progress.value = before + done;
      };
      try {
        const values = { options: { ...options, precision, repeats } };
        result.reports[column] = await client.call('bench', values, { signal, onProgress });
      } catch (error) {
        // The other workloads are still meaningful if one doesn't fit this device.
        if (!['out-of-memory', 'unsupported'].includes(error.code)) throw error;
        result.errors[column] = error.message;
      }
      progress.value = before + repeats;
      if (column === 0) results.push(result);
      showResults();
    }
  }
}

function resultRow({ title, what, reports, errors }, column) {
  const weights = column === 0 ? 'f32' : 'FP8';
  const about = { 'data-what': what, 'data-precision': weights.toLowerCase() };
  const report = reports[column];
  if (!report) return row([title, weights, errors[column] ?? 'not run', '', '', '', ''], about);
  const memory = { n: bytes(report.weightBytes) };
  const numbers = [
    { n: milliseconds(report.medianMs) },
    { n: short(report.gflops) },
    memory,
    { n: short(report.error) },
  ];
  return row([title, weights, ...numbers, report.kernel], about);
}

function showResults() {
  const rows = results.flatMap((result) => [resultRow(result, 0), resultRow(result, 1)]);
  byId('bench-table').tBodies[0].replaceChildren(...rows);
  byId('bench-table').parentElement.hidden = rows.length === 0;
  const pairs = (name) =>
    results.map(({ title, reports }) => ({ title, values: reports.map((report) => report?.[name] ?? null) }));
  const charts =
    results.length === 0
      ? []
      : [
          pairChart('Median time (shorter is faster)', pairs('medianMs'), milliseconds),
          pairChart('Memory of the weights', pairs('weightBytes'), bytes),
        ];
  byId('bench-charts').replaceChildren(...charts);
}

function asJson() {
  const list = results.map(({ title, reports, errors }) => ({ title, f32: reports[0], fp8: reports[1], errors }));
  const about = device && {
    name: device.name,
    vendor: device.vendor,
    architecture: device.architecture,
    software: device.software,
  };
  return JSON.stringify(
    { version: byId('version').textContent, userAgent: navigator.userAgent, device: about, results: list },
    null,
    2,
  );
}

async function copy() {
  document.getElementById('bench-json')?.remove();
  try {
    await navigator.clipboard.writeText(asJson());
    setState(SECTION.dataset.benchState, 'Copied as JSON.');
  } catch {
    const text = h('textarea', { id: 'bench-json', rows: 8, readonly: '', 'aria-label': 'Results as JSON' });
    text.value = asJson();
    byId('bench-form').after(text);
    text.select();
    setState(SECTION.dataset.benchState, 'The browser refused to copy; the JSON is in the field, selected.');
  }
}

byId('bench-form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (client && !running) run();
});
byId('bench-cancel').addEventListener('click', () => {
  running?.abort();
  byId('bench-status').textContent = 'Cancelling: the run under way ends first.';
});
byId('bench-copy').addEventListener('click', copy);

/** Interface of the section for the page. */
export const bench = {
  start(demo) {
    client = demo.client;
    device = demo.report;
    byId('bench-software').hidden = !device.software;
    if (device.software && !sized) byId('bench-size').value = SOFTWARE_SIZE;
    sized = true;
  },
  stop(why) {
    const was = running;
    running = null;
    client = null;
    if (!was) return;
    was.abort();
    setState('cancelled', why === 'lost' ? 'Stopped: the device went away.' : 'Stopped.');
  },
  last: () => (results.length === 0 ? null : { state: SECTION.dataset.benchState, results }),
};
