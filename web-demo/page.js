// The page's start and state: opens the device, enables the sections after the self-check, and reports a lost device.
import { bench } from './bench.js';
import { Client } from './client.js';
import { check, selfCheck, showDevice, showUnsupported } from './device.js';
import { byId, h } from './dom.js';
import { layer } from './layer.js';
import { text } from './text.js';
import { train } from './train.js';
import { tune } from './tune.js';

const root = document.documentElement;
const client = new Client();
const sections = [text, tune, layer, bench, train];
let report = null;
let lostTraining = false;
let settle;
const ready = new Promise((resolve) => {
  settle = resolve;
});

const STATUS = {
  loading: 'Opening the device.',
  checking: 'Checking the device against the bundled cases.',
  ready: 'Ready: every case is right on this device.',
  failed: 'The self-check found wrong results.',
  unsupported: 'WebGPU is not available here.',
  lost: 'The device is gone.',
};

const GATE = {
  loading: 'Starts when the self-check has passed.',
  checking: 'Starts when the self-check has passed.',
  failed: 'Off: the self-check found wrong results on this device.',
  unsupported: 'Off: this browser has no WebGPU.',
  lost: 'Off: the device is gone. It can be opened again at the top of the page.',
};

const isOpen = () => root.dataset.state === 'ready' || (root.dataset.state === 'failed' && 'accepted' in root.dataset);

function setState(state) {
  root.dataset.state = state;
  if (state === 'checking' || state === 'loading') delete root.dataset.accepted;
  byId('status').textContent = STATUS[state];
  for (const id of ['check-again', 'certificate']) byId(id).disabled = state !== 'ready' && state !== 'failed';
  showGates();
  if (['ready', 'failed', 'unsupported', 'lost'].includes(state)) settle(summary());
}

function showGates() {
  const open = isOpen();
  byId('accepted-banner').hidden = !('accepted' in root.dataset);
  for (const gate of document.querySelectorAll('fieldset.gate')) gate.disabled = !open;
  for (const note of document.querySelectorAll('.gate-note')) {
    note.hidden = open;
    note.textContent = GATE[root.dataset.state] ?? '';
  }
}

function startSections() {
  for (const section of sections) section.start({ client, report });
}

async function open() {
  setState('loading');
  try {
    const answer = await client.call('open', { powerPreference: 'high-performance' });
    report = answer.report;
    byId('version').textContent = answer.version;
  } catch (error) {
    if (root.dataset.state === 'lost') return;
    if (error.code === 'no-webgpu' && !report) {
      showUnsupported(error.message);
      setState('unsupported');
    } else {
      lost({ reason: 'open', message: error.message });
    }
    return;
  }
  showDevice(report);
  await runCheck();
}

async function runCheck() {
  for (const section of sections) section.stop();
  setState('checking');
  const outcome = await selfCheck(client);
  if (root.dataset.state !== 'checking') return; // if the device was lost, its own event has reported that
  if (outcome === 'lost') {
    lost({ reason: 'unknown', message: 'the self-check could not go on' });
    return;
  }
  if (outcome === 'wrong') {
    setState('failed');
    return;
  }
  performance.mark('moebius-ready');
  setState('ready');
  startSections();
}

const LOSS = {
  destroyed: 'The device was destroyed.',
  unknown: 'The browser took the device away, as happens when a driver is reset or a computer sleeps.',
  worker: 'The worker that holds the device has stopped.',
  open: 'The device could not be opened.',
};

function lost({ reason, message }) {
  for (const section of sections) if (section.stop('lost') === 'training') lostTraining = true;
  setState('lost');
  const reopen = h('button', { id: 'reopen', type: 'button' }, 'Open the device again');
  reopen.addEventListener('click', () => {
    byId('loss-banner').replaceChildren();
    lostTraining = false;
    byId('device-title').focus();
    if (!client.alive) client.restart();
    open();
  });
  const lines = [`${LOSS[reason] ?? LOSS.unknown} (${message})`];
  if (lostTraining) lines.push('The training’s weights were on it and are lost: training starts over.');
  byId('loss-banner').replaceChildren(
    h('h2', {}, 'The device is gone'),
    h('p', { id: 'loss-message' }, lines.join(' ')),
    reopen,
  );
}

client.addEventListener('lost', ({ detail }) => {
  if (root.dataset.state !== 'unsupported') lost(detail);
});
byId('check-again').addEventListener('click', () => {
  byId('check-title').focus({ preventScroll: true });
  runCheck();
});
byId('certificate').addEventListener('click', async () => {
  // Loaded on request, since few visitors want one.
  const { certify } = await import('./certificate.js');
  await certify(client, report);
});
byId('go-on').addEventListener('click', () => {
  root.dataset.accepted = 'true';
  byId('check-failed').hidden = true;
  byId('status').textContent = 'Going on, although the self-check found wrong results.';
  byId('check-title').focus();
  showGates();
  startSections();
});

function summary() {
  const { done, of, passed, milliseconds } = check;
  return {
    state: root.dataset.state,
    accepted: 'accepted' in root.dataset,
    device: report,
    check: { done, of, passed, wrong: check.wrong.map(({ name }) => name), milliseconds },
    text: text.last(),
    tuning: tune.last(),
    layer: layer.last(),
    bench: bench.last(),
    training: train.last(),
  };
}

globalThis.moebiusDemo = {
  ready,
  state: summary,
  loseDevice: () => client.call('lose'),
  breakWorker: () => client.call('throwLater'),
  memory: () => client.call('memory'),
};

open();
