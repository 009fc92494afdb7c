// Helpers for elements, for numbers as text, and for actions that wait until changes have come to rest.

const SVG = 'http://www.w3.org/2000/svg';

/** The element with this id; throws if the page lacks it. */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`expected an element #${id} in the page`);
  return element;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element with attributes and children. */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element with attributes and children. */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A row of a table's body. The first cell is its header; numbers, given as `{n: text}`, are aligned right. */
export function row(cells, attributes = {}) {
  const made = cells.map((cell, at) => {
    const isNumber = cell !== null && typeof cell === 'object' && 'n' in cell;
    return h(
      at === 0 ? 'th' : 'td',
      { scope: at === 0 ? 'row' : null, class: isNumber ? 'n' : null },
      isNumber ? cell.n : cell,
    );
  });
  return h('tr', attributes, ...made);
}

/** Fills a `dl` with terms; a term's third entry is the name by which scripts find its number. */
export function facts(list, terms) {
  const made = terms.map(([term, value, name]) =>
    h('div', {}, h('dt', {}, term), h('dd', { 'data-number': name }, String(value))),
  );
  list.replaceChildren(...made);
}

/** A number as text, with three significant digits. */
export function short(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace('+', '');
  return size >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

export function milliseconds(value) {
  return value >= 10000 ? `${(value / 1000).toFixed(1)} s` : `${short(value)} ms`;
}

/** A number of bytes as text, with a binary unit. */
export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const at = Math.min(3, value > 0 ? Math.floor(Math.log2(value) / 10) : 0);
  const scaled = value / 1024 ** at;
  return `${at === 0 || Number.isInteger(scaled) ? scaled : scaled.toFixed(scaled < 100 ? 1 : 0)} ${units[at]}`;
}

export const percent = (part) => `${(100 * part).toFixed(1)} %`;

/** A function that runs `action` once, `wait` milliseconds after the last call of the function. */
export function debounced(action, wait) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, wait);
  };
}
