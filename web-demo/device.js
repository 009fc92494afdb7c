// Section "Your device": the device's description, its kernels, and the self-check that all other sections wait for.
import { isCancelled, isLoss } from './client.js';
import { byId, bytes, facts, h, milliseconds, row, short } from './dom.js';

const WHY_NONE = [
  'WebGPU is what gives a page access to the graphics processor for computing. This page does nothing without it.',
  'Recent versions of Chrome, Edge, Safari and Firefox have it on most systems; on Linux, on older systems and on ' +
    'older phones it may be missing or behind a setting.',
];

/** Shows in plain words why there is no WebGPU; the page's controls stay disabled. */
export function showUnsupported(message) {
  const lines = [...WHY_NONE];
  if (!isSecureContext) lines.push('It works on https pages and on localhost only; this page came over plain http.');
  else if (navigator.gpu)
    lines.push(
      'This browser has WebGPU, but found no graphics adapter it may use: the driver may be blocked or missing.',
    );
  lines.push(`The module said: ${message}`);
  byId('unsupported').replaceChildren(
    h('h3', {}, 'This browser can’t run the page'),
    ...lines.map((line) => h('p', {}, line)),
  );
  byId('device-name').textContent = 'No device.';
  byId('check-status').textContent = 'Not run: there is no device to check.';
}

/** Whether the gradients of the open device have passed their check. */
let gradientsAreRight = false;

/** Shows the report of an opened device. */
export function showDevice(report) {
  gradientsAreRight = false;
  // Browsers often don't tell the name of a device.
  const kind = [report.vendor, report.architecture].filter(Boolean).join(' ');
  byId('device-name').textContent = report.description || kind || report.name;
  const { limits, subgroups } = report;
  const words = (list) => list.filter(Boolean).join(', ') || 'not told';
  facts(byId('device-facts'), [
    ['Kind', report.kind],
    ['Vendor', words([report.vendor])],
    ['Architecture', words([report.architecture])],
    ['Subgroups', subgroups ? words([...new Set(subgroups)].map(String)).replace(', ', ' to ') : 'no'],
    ['16-bit floats', report.f16 ? 'yes' : 'no'],
  ]);
  facts(byId('device-limits').querySelector('dl'), [
    ['Largest binding', bytes(limits.maxBindingBytes)],
    ['Largest buffer', bytes(limits.maxBufferBytes)],
    ['Bindings in a stage', limits.maxBindings],
    ['Threads in a workgroup', limits.maxUnitsPerCube],
    ['Workgroup memory', bytes(limits.maxSharedMemory)],
  ]);
  byId('device-features').replaceChildren(...report.features.map((name) => h('li', {}, name)));
  const runs = report.runs.map(({ what, kernel, reason }) =>
    row([what, kernel ?? `not here: ${reason}`], { 'data-runs': kernel !== null }),
  );
  byId('device-runs').tBodies[0].replaceChildren(...runs);
}

/** Table row of a case: its name, operation, error, time and verdict. */
function caseRow({ name, report, error }) {
  const verdict = error ? 'error' : report.verdict;
  const words = { pass: '✓ right', fail: '✗ wrong', error: `✗ error: ${error?.message}` };
  const largest = report ? Math.max(...report.outputs.map(({ maxAbs }) => maxAbs)) : null;
  const cells = [
    name,
    report?.op ?? '–',
    { n: largest === null ? '–' : short(largest) },
    { n: report ? milliseconds(report.milliseconds) : '–' },
    words[verdict],
  ];
  return row(cells, { 'data-case': name, 'data-verdict': verdict });
}

/** Text of the alert about a wrong case. */
export function complaint({ name, report, error }) {
  if (error) return `${name}: ${error.message}`;
  const outputs = report.outputs.filter(({ verdict }) => verdict === 'fail');
  const told = outputs.map(
    (output) => `${output.name} is off by up to ${short(output.maxAbs)} (allowed: ${output.tolerance})`,
  );
  return `${name}: ${told.join('; ') || 'wrong'}`;
}

/**
 * Checks the gradients before the first training on a device: their kernels take long to compile, and nothing else runs
 * them. Throws if they are wrong.
 * @param {import('./client.js').Client} client
 * @param {HTMLElement} status
 * @param {AbortSignal} [signal] ends the check between two cases
 */
export async function checkGradients(client, status, signal) {
  if (gradientsAreRight) return;
  status.textContent = 'Checking gradients against the bundled cases; their kernels compile first.';
  const wrong = [];
  const note = (result) => result.report?.verdict !== 'pass' && wrong.push(complaint(result));
  await client.call('check', { of: 'training' }, { signal, onProgress: note });
  if (wrong.length > 0) throw new Error(`gradients are wrong on this device: ${wrong.join('; ')}`);
  gradientsAreRight = true;
}

/** Results of the last check. */
export const check = { done: 0, of: 0, passed: 0, wrong: [], milliseconds: 0, finished: false };

function progressed(result) {
  const { done, of } = result;
  check.done = done;
  check.of = of;
  if (result.report?.verdict === 'pass') check.passed += 1;
  else check.wrong.push(result);
  byId('check-table').tBodies[0].append(caseRow(result));
  const progress = byId('check-progress');
  progress.max = of;
  progress.value = done;
  byId('check-status').textContent = `Case ${done} of ${of}: ${result.name}`;
}

function showAlert() {
  const count = check.wrong.length;
  const title = count === 1 ? '1 case is wrong on this device' : `${count} cases are wrong on this device`;
  byId('check-failed').hidden = false;
  byId('check-alert').replaceChildren(
    h('h3', {}, title),
    h('ul', {}, ...check.wrong.slice(0, 12).map((result) => h('li', {}, complaint(result)))),
    h('p', {}, 'Results of the sections below can’t be relied on here, so they stay off.'),
  );
  byId('check-details').open = true;
}

/**
 * Runs every bundled case and shows the results. Resolves with `passed`, `wrong` or, if the device is lost, `lost`.
 * @param {import('./client.js').Client} client
 */
export async function selfCheck(client) {
  Object.assign(check, { done: 0, of: 0, passed: 0, wrong: [], milliseconds: 0, finished: false });
  byId('check-failed').hidden = true;
  byId('check-alert').replaceChildren();
  byId('check-table').tBodies[0].replaceChildren();
  byId('check-progress').value = 0;
  byId('check-status').textContent = 'Fetching the cases.';
  const started = performance.now();
  try {
    await client.call('check', { of: 'start' }, { onProgress: progressed });
  } catch (error) {
    if (isLoss(error) || isCancelled(error)) {
      byId('check-status').textContent = 'Stopped: the device went away.';
      return 'lost';
    }
    check.wrong.push({ name: 'self-check', error });
  }
  check.milliseconds = performance.now() - started;
  check.finished = true;
  const time = milliseconds(check.milliseconds);
  if (check.wrong.length > 0) {
    showAlert();
    byId('check-status').textContent = `${check.passed} of ${check.of} cases are right. Took ${time}.`;
    return 'wrong';
  }
  byId('check-status').textContent = `All ${check.of} cases are right. Took ${time}.`;
  return 'passed';
}
