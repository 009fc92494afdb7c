// Runs the measurement that the page's address asks for and shows the table; `window.measured` resolves with the
// results.

import { measure, workloads } from './measure.mjs';
import { report } from './report.mjs';

const asked = new URLSearchParams(location.search);
const list = (name, otherwise) => asked.get(name)?.split(',').filter(Boolean) ?? otherwise;
const output = document.querySelector('output');

const say = (text) => {
  output.textContent = text;
  console.info(text);
};

window.measured = measure({
  what: list('what', workloads),
  only: list('only', []),
  all: asked.has('all'),
  rounds: Number(asked.get('rounds') ?? 7),
  address: new URL('./pkg', import.meta.url).href,
  say,
});
window.measured.then((all) => { output.textContent = report(all); }, (error) => say(`failed: ${error.message}`));
