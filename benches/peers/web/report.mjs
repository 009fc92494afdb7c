// Formats the table of a measurement, for the page and the terminal.

const OURS = 'moebius';

function cells(entry, ours) {
  const start = [entry.label, entry.version ?? ''];
  if (entry.failure) return [...start, entry.failure];
  const ratio = ours?.medianMs && entry.id !== OURS ? `${(entry.medianMs / ours.medianMs).toFixed(2)} ×` : '';
  const [least, most] = [Math.min(...entry.timesMs), Math.max(...entry.timesMs)];
  return [...start, entry.medianMs.toFixed(1), `${least.toFixed(1)}–${most.toFixed(1)}`, entry.gflops.toFixed(2),
    entry.firstMs.toFixed(0), entry.error.relL2.toExponential(1), ratio];
}

const HEAD = ['contender', 'version', 'median ms', 'range ms', 'GFLOP/s', 'first ms', 'rel. L2 error', 'over Moebius'];

function tableOf({ name, contenders }) {
  const ours = contenders.find(({ id }) => id === OURS);
  const rows = [HEAD, ...contenders.map((entry) => cells(entry, ours))];
  const widths = HEAD.map((_, i) => Math.max(...rows.map((row) => (row.length === HEAD.length ? row[i].length : 0))));
  const lines = rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i])).join('  ').trimEnd());
  return [name, ...lines].join('\n');
}

export function report({ browser, threads, adapter, rounds, results }) {
  const where = adapter ? `${adapter.vendor} ${adapter.architecture}` : 'no GPU used';
  const head = `${browser}\nadapter: ${where}; ${threads} threads; median of ${rounds} turns`;
  return [head, ...results.map(tableOf)].join('\n\n');
}

export const failures = ({ results }) => results.flatMap(({ name, contenders }) => contenders
  .filter(({ failure }) => failure).map(({ label, failure }) => `${name}: ${label}: ${failure}`));
