// Charts as inline SVG. Each is in or beside a table with the same numbers.
import { h, row, s } from './dom.js';
import { expertLook } from './palette.js';

/** Patterns that all charts share: for the second set of experts, for dropped slots, and for FP8. */
function patterns() {
  const lines = (id, d, tone) =>
    s(
      'pattern',
      { id, width: 6, height: 6, patternUnits: 'userSpaceOnUse' },
      s('path', { d, class: tone, 'stroke-width': 1.4 }),
    );
  const forward = 'M-1 1l2-2M0 6l6-6M5 7l2-2';
  const backward = 'M-1 5l2 2M0 0l6 6M5-1l2 2';
  const defs = s('defs', {}, lines('hatch-second', forward, 'ink-dark'), lines('hatch-dropped', backward, 'ink'));
  document.body.append(s('svg', { width: 0, height: 0, 'aria-hidden': 'true', class: 'patterns' }, defs));
}
patterns();

/**
 * A bar for one expert, in a table cell: `value` of `max` in the expert's colour, with the part over `limit` hatched as
 * dropped and a line at `limit`.
 */
export function expertBar(expert, value, { max, limit = null }) {
  const { fill, second } = expertLook(expert);
  const share = (part) => `${(100 * part) / Math.max(max, 1)}%`;
  const kept = limit === null ? value : Math.min(value, limit);
  const bar = s('svg', { class: 'bar-cell', 'aria-hidden': 'true' });
  bar.append(s('rect', { width: share(kept), height: '100%', fill }));
  if (second) bar.append(s('rect', { width: share(kept), height: '100%', fill: 'url(#hatch-second)' }));
  if (value > kept) {
    bar.append(
      s('rect', {
        x: share(kept),
        width: share(value - kept),
        height: '100%',
        fill: 'url(#hatch-dropped)',
        class: 'outlined',
      }),
    );
  }
  if (limit !== null && limit <= max) {
    bar.append(s('line', { x1: share(limit), x2: share(limit), y1: 0, y2: '100%', class: 'limit' }));
  }
  return bar;
}

/** An expert's number in the expert's colour and shape. */
export function expertBadge(expert) {
  const { fill, text, second } = expertLook(expert);
  const shape = second
    ? s('rect', { x: 2, y: 2, width: 18, height: 18, rx: 2, fill, class: 'rim' })
    : s('circle', { cx: 11, cy: 11, r: 9.5, fill, class: 'rim' });
  const label = s('text', { x: 11, y: 15, fill: text }, String(expert));
  return h(
    'span',
    { class: 'badge' },
    s('svg', { viewBox: '0 0 22 22', 'aria-hidden': 'true' }, shape, label),
    h('span', { class: 'hidden' }, `expert ${expert}`),
  );
}

/** Rows of a table for the load of each expert: its badge, its bar among the others, and its number. */
export function loadRows(load) {
  const max = Math.max(...load);
  return load.map((slots, expert) =>
    row([expertBadge(expert), expertBar(expert, slots, { max }), { n: slots }], {
      'data-expert': expert,
      'data-load': slots,
    }),
  );
}

/** Rows of a table for at most about 50 steps of a training, the last one among them; `cells` makes those of a step. */
export function historyRows(history, cells) {
  const every = Math.ceil(history.length / 50);
  return history.filter((_, at) => (history.length - 1 - at) % every === 0).map((step) => row(cells(step)));
}

/** The smallest of 1, 2, 5, 10 (times a power of ten) that is at least `value`. */
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}

const TOP = 8;
const LEFT = 44;
const BOTTOM = 20;

/**
 * Draws a line through `points` ([x, y], with rising x) into `svg`, on axes from 0, that of y up to `ceiling`. `ends`
 * has the words for 0 and for the last x; without it, x are steps.
 * @param {{name: string, ceiling: number, format: (y: number) => string, ends?: [string, string]}} options
 */
export function lineChart(svg, points, { name, ceiling, format, ends }) {
  const [from, to] = ends ?? ['0', `step ${points.at(-1)?.[0] ?? 0}`];
  const width = Math.max(240, svg.clientWidth || 320);
  const height = 130;
  const last = points.at(-1);
  const end = Math.max(last?.[0] ?? 1, 1);
  const x = (value) => LEFT + ((width - LEFT - 8) * value) / end;
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - Math.min(value, ceiling) / ceiling);
  const parts = [0, 0.5, 1].flatMap((share) => {
    const at = y(ceiling * share);
    return [
      s('line', { x1: LEFT, x2: width - 8, y1: at, y2: at, class: 'grid' }),
      s('text', { x: LEFT - 6, y: at + 4, 'text-anchor': 'end' }, format(ceiling * share)),
    ];
  });
  parts.push(s('text', { x: LEFT, y: height - 4 }, from));
  parts.push(s('text', { x: width - 8, y: height - 4, 'text-anchor': 'end' }, to));
  if (last) {
    const d = points.map(([px, py], at) => `${at ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join('');
    parts.push(
      s('path', { d, class: 'curve' }),
      s('circle', { cx: x(last[0]), cy: y(last[1]), r: 3.5, class: 'curve-end' }),
    );
  }
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('aria-label', last ? `${name}: ${format(last[1])}, ${to}` : `${name}: nothing yet`);
  svg.replaceChildren(...parts);
}

/**
 * A figure with a pair of bars, f32 and FP8, for each of `pairs`; a pair's longer bar has the full width.
 * @param {{title: string, values: (number | null)[]}[]} pairs
 */
export function pairChart(caption, pairs, format) {
  const rowHeight = 80;
  const parts = pairs.flatMap(({ title, values }, at) => {
    const top = at * rowHeight;
    const max = Math.max(...values.map((value) => value ?? 0)) || 1;
    const bars = values.flatMap((value, precision) => {
      const y = top + 24 + precision * 26;
      const name = precision === 0 ? 'f32' : 'FP8';
      const width = `${(100 * (value ?? 0)) / max}%`;
      return [
        s('text', { x: 0, y: y + 9 }, name),
        s('text', { x: '100%', y: y + 9, 'text-anchor': 'end' }, value === null ? 'none' : format(value)),
        s('rect', { y: y + 13, width, height: 8, class: precision === 0 ? 'first' : 'second' }),
      ];
    });
    return [s('text', { x: 0, y: top + 14, class: 'title' }, title), ...bars];
  });
  const words = pairs.map(({ title, values }) => {
    const [f32, fp8] = values.map((value) => (value === null ? 'none' : format(value)));
    return `${title}: f32 ${f32}, FP8 ${fp8}`;
  });
  const svg = s('svg', {
    role: 'img',
    class: 'pairs',
    height: pairs.length * rowHeight,
    'aria-label': `${caption}. ${words.join('. ')}`,
  });
  svg.append(...parts);
  return h('figure', {}, h('figcaption', {}, caption), svg);
}
