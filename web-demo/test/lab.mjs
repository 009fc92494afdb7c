// Environment of a test: pages to open, files to replace, a native binary to compare with.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { serve } from '../../scripts/serve.mjs';
import { launch, watch } from './chromium.mjs';
import { parse } from './safetensors.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.resolve(HERE, '../..');
export const CASES = path.join(ROOT, 'tests/cases');
const SITE = path.join(ROOT, 'web-demo/dist');
/** The page of `moebius serve`. */
const SERVED = path.join(ROOT, 'runtime/serve/site');
/**
 * Time limit in ms for anything a page does; a software adapter compiles kernels slowly, more so beside other tests.
 */
const PATIENCE_MS = 120_000;
/** File with the results of a layer and a training in a native run. */
export const NATIVE = path.join(HERE, 'native.json');
/** Names of cases that take a moment, for tests that are not about the self-check. */
const QUICK = ['balance_losses', 'route_softmax_renorm'];
/** Folder for pictures of the page, for people to look at. */
export const PICTURES = path.join(HERE, 'pictures');

/** Names of all committed cases, including large ones. */
export function caseNames() {
  const names = fs.readdirSync(CASES).filter((name) => name.endsWith('.safetensors'));
  assert.ok(names.length > 30, `expected more than 30 cases in ${CASES}, got ${names.length}`);
  return names;
}

/**
 * Whether a case computes in a dtype that a device may lack, and may then refuse with the code `unsupported`. Every
 * other case must pass everywhere.
 * @param {string} name
 */
export function mayBeRefused(name) {
  const { params } = parse(fs.readFileSync(path.join(CASES, name))).metadata;
  return ['f16', 'bf16'].includes(JSON.parse(params).compute);
}

/**
 * Makes waits look at the page every 50 ms rather than at animation frames: a busy software adapter may draw none for
 * long, while everything else goes on.
 * @param {import('playwright-core').Page} page
 */
function lookInIntervals(page) {
  const wait = page.waitForFunction.bind(page);
  page.waitForFunction = (done, argument, options) => wait(done, argument, { polling: 50, ...options });
}

export class Lab {
  #browsers = [];
  #contexts = [];
  #problems = [];
  #kept = new Map();
  #replaced = new Map();
  #served = [];
  #mounted = '';
  #server;
  #shared;

  /**
   * @param {{ native?: string, model?: string }} paths the `moebius` command, for comparisons with a native run, and a
   * published model in a GGUF file
   */
  constructor({ native, model }) {
    this.native = native;
    this.model = model;
  }

  /** Starts the server and the browser that tests share. */
  async start() {
    assert.ok(fs.existsSync(SITE), `no site in ${SITE}: scripts/demo --build-only makes it`);
    this.#server = await serve(SITE, { replace: (name) => this.#file(name) });
    this.#shared = await launch();
  }

  async stop() {
    await this.#shared?.close();
    await this.#server?.close();
  }

  /** Replaces the browser that tests share, and drops the pages that are kept in it. */
  async restart() {
    this.#kept.clear();
    await this.#shared?.close();
    this.#shared = await launch();
  }

  /**
   * Content of a file that a test has replaced, or that lies beside the site: the bare page, the larger cases and the
   * page of `moebius serve`.
   */
  #file(name) {
    this.#served.push(name);
    if (this.#replaced.has(name)) return this.#replaced.get(name);
    if (this.#mounted && name.startsWith(this.#mounted)) return this.siteFile(name.slice(this.#mounted.length));
    const [folder, ...rest] = name.split('/');
    const root = { bare: path.join(HERE, 'bare'), 'all-cases': CASES, served: SERVED }[folder];
    if (root === undefined) return undefined;
    const file = path.join(root, ...rest);
    return fs.existsSync(file) ? fs.readFileSync(file) : null;
  }

  /** Makes the server send `bytes` for `name` until this test ends; null means that there is no such file. */
  replace(name, bytes) {
    this.#replaced.set(name, bytes);
  }

  /** Also serves the site below `folder` until this test ends. */
  mount(folder) {
    this.#mounted = folder;
  }

  /** Names of all files that were requested in this test. */
  get served() {
    return [...new Set(this.#served)];
  }

  /** Reads a file of the site. @param {string} name */
  siteFile(name) {
    return fs.readFileSync(path.join(SITE, name));
  }

  /**
   * Opens a page of the site, or of another server on this machine, in a fresh profile.
   * @param {string} name path in the site, or an address
   * @param {{ allow?: RegExp[], script?: (() => void), own?: object, context?: object }} [options] `allow`: problems
   * that are part of the test; `script` runs before the page's; `own`: options of a browser for this test only;
   * `context`: Playwright's options of a profile
   */
  async open(name, { allow = [], script, own, context = {} } = {}) {
    const browser = own ? await this.#launchOwn(own) : this.#shared;
    // The page's policy refuses scripts from elsewhere, and tests come from elsewhere.
    const opened = await browser.newContext({ bypassCSP: true, ...context });
    this.#contexts.push(opened);
    opened.setDefaultTimeout(PATIENCE_MS);
    if (script) await opened.addInitScript(script);
    const page = await opened.newPage();
    lookInIntervals(page);
    this.#problems.push(watch(page, allow));
    await page.goto(new URL(name, this.#server.url).href, { waitUntil: 'commit' });
    return page;
  }

  /**
   * What `make` opens, kept for all tests that ask for `name`, so that its kernels are compiled only once.
   * @template T @param {string} name @param {() => Promise<T>} make @returns {Promise<T>}
   */
  async keep(name, make) {
    if (!this.#kept.has(name)) {
      const before = this.#contexts;
      this.#contexts = [];
      try {
        this.#kept.set(name, { value: await make(), contexts: this.#contexts });
      } finally {
        this.#contexts = [...before, ...(this.#kept.has(name) ? [] : this.#contexts)];
      }
    }
    return this.#kept.get(name).value;
  }

  async #launchOwn(options) {
    const browser = await launch(options);
    this.#browsers.push(browser);
    return browser;
  }

  /** The kept bare page, with the package loaded; its `evaluate` sees `globalThis.bench`. */
  bench() {
    return this.keep('bench', () => this.freshBench());
  }

  /** A kept worker with the package loaded; its `evaluate` sees `globalThis.bench`. */
  benchInWorker() {
    return this.keep('worker', async () => {
      const page = await this.open('bare/?worker');
      const worker = page.workers()[0] ?? (await page.waitForEvent('worker'));
      while (!(await worker.evaluate(() => Boolean(globalThis.bench)))) {
        await new Promise((later) => setTimeout(later, 20));
      }
      return worker;
    });
  }

  /** A bare page for one test; `options` are those of `open`. */
  async freshBench(options) {
    const page = await this.open('bare/', options);
    await page.waitForFunction(() => globalThis.bench);
    return page;
  }

  /**
   * The demo page at the end of its start-up. With `all`, its self-check runs all its cases, otherwise a few quick
   * ones.
   * @param {{ name?: string, state?: string, all?: boolean }} [options] and those of `open`; `state`: the state that
   * the page must reach
   */
  async demo({ name = '', state = 'ready', all = false, ...options } = {}) {
    if (!all) this.replace(`${this.#mounted}cases/start.json`, this.#quickCases());
    const page = await this.open(name, options);
    await page.waitForFunction(() => globalThis.moebiusDemo);
    const summary = await page.evaluate(() => globalThis.moebiusDemo.ready);
    assert.equal(summary.state, state, JSON.stringify(summary.check));
    return page;
  }

  #quickCases() {
    const cases = JSON.parse(this.siteFile('cases/start.json').toString());
    const quick = cases.filter(({ name }) => QUICK.includes(name));
    assert.equal(quick.length, QUICK.length, `expected the site to bring ${QUICK}`);
    return Buffer.from(JSON.stringify(quick));
  }

  note(text) {
    console.log(text.replace(/^/gm, '    '));
  }

  /**
   * What the test's pages show at the moment, for a message; a page that doesn't answer within two seconds is reported
   * so.
   */
  async states() {
    const shown = () => {
      const marked = [...document.querySelectorAll('html, [data-runs], [data-steps], [data-text-state]')];
      return marked.map((element) => `${element.id || 'page'} ${JSON.stringify({ ...element.dataset })}`).join(', ');
    };
    const silence = () => new Promise((later) => setTimeout(() => later('it does not answer'), 2000));
    const pages = this.#contexts.flatMap((context) => context.pages());
    const states = pages.map((page) => Promise.race([page.evaluate(shown).catch(String), silence()]));
    return (await Promise.all(states)).map((state) => `the page: ${state}`);
  }

  /** Closes what the test opened; returns the problems of its pages and of kept pages since the last test. */
  async endTest() {
    const problems = this.#problems.flatMap((list) => list.splice(0));
    for (const context of this.#contexts) await context.close();
    for (const browser of this.#browsers) await browser.close();
    this.#contexts = [];
    this.#browsers = [];
    this.#served = [];
    this.#mounted = '';
    this.#replaced.clear();
    return problems;
  }
}
