// Measures Moebius and its peers in one page of a browser. Usage: node run.mjs --help

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir, loadavg } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { ids } from './contenders.mjs';
import { workloads } from './measure.mjs';
import { failures, report } from './report.mjs';
import { servePeers } from './server.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url)).replace(/[/\\]$/, '');
/** Flags with which Chromium computes WebGPU on its software adapter, also where there is no GPU. */
const SOFTWARE = '--enable-unsafe-webgpu --enable-features=Vulkan --use-vulkan=swiftshader --use-angle=swiftshader';
const QUIET = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

const HELP = `node run.mjs [options]
  --pkg DIR            the package, default wasm/pkg
  --what LIST          of ${workloads.join(',')}; default all
  --only LIST          of ${ids.join(',')}; default those without other settings of a peer
  --all                all of them
  --rounds N           timed turns, default 7
  --json FILE          writes the measurement, too; - for standard output in place of the table
  --headed             shows the browser, on the machine's own adapter
  --chrome-flags TEXT  in place of the flags of the software adapter
  --serve PORT         starts no browser: open the page yourself, in any
CHROMIUM names the browser, default /usr/bin/chromium. Exit code 1: a contender failed or was wrong; 2: not run.`;

function options() {
  const text = { type: 'string' };
  const { values } = parseArgs({
    options: {
      pkg: text, what: text, only: text, rounds: text, json: text, 'chrome-flags': text, serve: text,
      headed: { type: 'boolean' }, all: { type: 'boolean' }, help: { type: 'boolean' },
    },
  });
  for (const [name, known] of [['what', workloads], ['only', ids]]) {
    const unknown = values[name]?.split(',').find((one) => !known.includes(one));
    if (unknown) throw new Error(`expected one of ${known.join(', ')}, got --${name} ${unknown}`);
  }
  if (!(Number(values.rounds ?? 7) >= 1)) throw new Error(`expected at least one round, got ${values.rounds}`);
  return values;
}

/** Opens the page in a fresh browser profile and waits for its measurement. */
async function inBrowser(address, values) {
  const profile = await mkdtemp(join(tmpdir(), 'moebius-peers-'));
  const flags = values['chrome-flags'] ?? (values.headed ? '--enable-unsafe-webgpu' : SOFTWARE);
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: !values.headed,
    args: [...QUIET, ...flags.split(' ').filter(Boolean)],
  });
  try {
    const page = browser.pages()[0] ?? await browser.newPage();
    page.on('console', (line) => console.error(line.text()));
    page.on('pageerror', (error) => console.error(error.message));
    await page.goto(address);
    return await page.evaluate(() => window.measured);
  } finally {
    await browser.close();
    await rm(profile, { recursive: true, force: true });
  }
}

async function main() {
  const values = options();
  if (values.help) return console.log(HELP);
  const pkg = resolve(values.pkg ?? join(HERE, '../../../wasm/pkg'));
  const { url: address, close } = await servePeers(HERE, pkg, Number(values.serve ?? 0));
  if (values.serve) return console.log(`${address}, until interrupted`);
  const asked = ['what', 'only', 'all', 'rounds'].filter((name) => values[name]);
  const query = new URLSearchParams(asked.map((name) => [name, values[name]]));
  const before = loadavg()[0];
  const measured = await inBrowser(`${address}?${query}`, values).finally(close);
  measured.load = [before, loadavg()[0]];
  const json = JSON.stringify(measured, null, 1);
  if (values.json === '-') console.log(json);
  else console.log(`${report(measured)}\n\nload of the machine before and after: ${measured.load.join(', ')}`);
  if (values.json && values.json !== '-') await writeFile(values.json, json);
  const failed = failures(measured);
  for (const line of failed) console.error(line);
  process.exitCode = failed.length ? 1 : 0;
}

try {
  await main();
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
