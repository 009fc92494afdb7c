// Starts headless Chromium with WebGPU on its software adapter.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

const QUIET = [
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
// With the first flag alone, shaders run, but a page that draws with WebGPU comes out blank.
const SOFTWARE = [
  '--enable-unsafe-webgpu',
  '--enable-features=Vulkan',
  '--use-vulkan=swiftshader',
  '--use-angle=swiftshader',
];
const METAL = ['--enable-unsafe-webgpu'];

/**
 * Starts a browser with a fresh profile.
 * @param {{ webgpu?: boolean }} [options] without WebGPU, `navigator.gpu` exists but has no adapter
 */
export async function launch({ webgpu = true } = {}) {
  const adapter = process.platform === 'darwin' ? METAL : SOFTWARE;
  return chromium.launch({
    executablePath: executable(),
    headless: true,
    chromiumSandbox: false, // the sandbox does not start as root, and the pages are ours
    args: webgpu ? [...QUIET, ...adapter] : QUIET,
    env: driversUnset(),
  });
}

/** Path of the Chromium that the set-up script found or installed. */
function executable() {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const path = execFileSync('bash', ['-c', '. scripts/places.sh; browser_binary'], {
    cwd: root,
    encoding: 'utf8',
  }).trim();
  if (path === '') throw new Error('expected Chromium or Chrome, found none; CHROMIUM can name one');
  return path;
}

/** The environment without the tests' own choice of a Vulkan driver, which is for native programs. */
function driversUnset() {
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES, ...rest } = process.env;
  return rest;
}

/**
 * Collects a page's problems: errors and warnings on the console, uncaught exceptions, and requests that fail or leave
 * this machine.
 * @param {import('playwright-core').Page} page
 * @param {RegExp[]} allowed texts that are part of the test
 * @returns {string[]} filled as problems happen
 */
export function watch(page, allowed) {
  const problems = [];
  const add = (text) => {
    if (!allowed.some((pattern) => pattern.test(text))) problems.push(text);
  };
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) add(`console ${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => add(`not caught: ${error.stack ?? error}`));
  page.on('crash', () => add('the page crashed'));
  page.on('requestfailed', (request) => add(`request failed: ${request.url()} ${request.failure()?.errorText}`));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (!['data:', 'blob:'].includes(url.protocol) && url.hostname !== 'localhost')
      add(`request leaves this machine: ${url}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) add(`status ${response.status()}: ${response.url()}`);
  });
  return problems;
}

/** Ends the process that serves the GPU to all pages, as a fault in a driver would. The browser starts it again. */
export async function crashTheGpu(page) {
  const session = await page.context().browser().newBrowserCDPSession();
  await session.send('Browser.crashGpuProcess');
  await session.detach();
}
