// Tests of the page as a visitor first sees it: ready in time, complete, accessible, and fit for any screen.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';

import { describe, picture } from './pictures.mjs';
import { withFlippedBit } from './safetensors.mjs';
import { DESKTOP, onADesktop, onAPhone, PHONE } from './visits.mjs';

export const tests = [
  readyOnce,
  whatBelongsThereIsThere,
  thePageIsNeverBlocked,
  picturesShowSomething,
  readableForEveryone,
  readableForEveryoneInTrouble,
  usableWithTheKeyboard,
  fitsAPhone,
  worksInASubfolder,
];

const SCHEMES = ['light', 'dark'];
async function readyOnce(lab) {
  const page = await lab.demo({ all: true });
  const { ready, milliseconds, of } = await page.evaluate(() => ({
    ready: performance.getEntriesByName('moebius-ready').map((mark) => mark.startTime),
    ...globalThis.moebiusDemo.state().check,
  }));
  assert.equal(ready.length, 1);
  lab.note(`ready ${ready[0].toFixed(0)} ms after the navigation, ${of} cases in ${milliseconds.toFixed(0)} ms of it`);
}

async function whatBelongsThereIsThere(lab) {
  const page = await lab.demo({ all: true });
  const cases = JSON.parse(lab.siteFile('cases/start.json').toString());
  const { check, device } = await page.evaluate(() => globalThis.moebiusDemo.state());
  assert.deepEqual([check.done, check.of, check.passed, check.wrong], [cases.length, cases.length, cases.length, []]);
  const rows = page.locator('#check-table tbody tr');
  assert.equal(await rows.count(), cases.length);
  assert.equal(await page.locator('#check-table tr[data-verdict="pass"]').count(), cases.length);
  const name = await page.locator('#device-name').textContent();
  assert.ok(
    [device.name, device.architecture].some((text) => text && name.includes(text)),
    `the device is "${name}"`,
  );
  assert.equal(await page.locator('#device-runs tbody tr').count(), device.runs.length);
  assert.match(await page.locator('#version').textContent(), /^\d+\.\d+\.\d+/);
  for (const section of ['device', 'text', 'tune', 'layer', 'bench', 'train']) {
    assert.ok(await page.locator(`#${section} h2`).isVisible(), section);
    assert.equal(await page.locator(`nav a[href="#${section}"]`).count(), 1, section);
  }
  assert.equal(await page.locator('fieldset.gate:disabled').count(), 0);
  for (const gone of ['#unsupported', '#loss-banner', '#check-failed', '#accepted-banner']) {
    assert.ok(await page.locator(gone).isHidden(), `${gone} is shown`);
  }
  await page.waitForFunction(() => Number(document.querySelector('#layer').dataset.runs) > 0);
  const tokens = await page.locator('#layer-tokens').inputValue();
  const drawn = await page
    .locator('#layer-plot [data-token]')
    .evaluateAll((marks) => marks.map((mark) => mark.dataset.token));
  assert.equal(new Set(drawn).size, Number(tokens));
}

/** Checks that the page always answers a visitor; checks, computation and training run in a worker. */
async function thePageIsNeverBlocked(lab) {
  const page = await onADesktop(lab);
  const late = await page.evaluate(() => globalThis.late);
  const longest = Math.max(0, ...late.map(({ duration }) => duration));
  lab.note(`${late.length} scripts in late frames, the longest took ${longest.toFixed(0)} ms`);
  // This holds even on cores that a software adapter keeps busy. A call of the package in the page would take seconds.
  assert.ok(longest < 500, `expected no script of the page to run 500 ms, got ${JSON.stringify(late)}`);
}

// For each part of the page: the smallest share of pixels that aren't background, and the fewest colours.
const LAYER = { '#layer-plot': [0.02, 6], '#layer-load': [0.02, 6] };
const TRAINED = { '#train-canvas': [0.1, 6], '#train-loss': [0.003, 2] };

async function assertPictures(page, name, dark, parts) {
  const whole = describe(await picture(page, `page-${name}`, { fullPage: true }));
  assert.ok(whole.covered > 0.04 && whole.colours > 20, `${name}: ${JSON.stringify(whole)}`);
  assert.ok(dark ? whole.brightness < 0.25 : whole.brightness > 0.85, `${name}: ${JSON.stringify(whole)}`);
  for (const [part, [covered, colours]] of Object.entries(parts)) {
    const seen = describe(await picture(page.locator(part), `page-${name}-${part.slice(1)}`));
    assert.ok(seen.covered > covered && seen.colours >= colours, `${name} ${part}: ${JSON.stringify(seen)}`);
  }
}

const brightness = async (page, name) => describe(await picture(page.locator('#train-canvas'), name)).brightness;

async function picturesShowSomething(lab) {
  const page = await onADesktop(lab);
  await page.emulateMedia({ colorScheme: 'light' });
  await assertPictures(page, 'light', false, { ...LAYER, ...TRAINED });
  const light = await brightness(page, 'train-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(300); // so that the canvas is drawn again
  await assertPictures(page, 'dark', true, { ...LAYER, ...TRAINED });
  const dark = await brightness(page, 'train-dark');
  assert.ok(dark < light, `the training's picture is as bright in the dark: ${dark} and ${light}`);
  await assertPictures(await onAPhone(lab), 'phone', true, LAYER);
}

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails on any violation of accessibility rules, including best practices. */
export async function assertAccessible(page, what) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document));
  const told = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`,
  );
  assert.deepEqual(told, [], what);
  assert.ok(passes.length > 20, `${what}: only ${passes.length} rules had anything to check`);
}

async function readableForEveryone(lab) {
  const page = await onADesktop(lab);
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    await assertAccessible(page, `ready, ${colorScheme}`);
  }
  await assertAccessible(await onAPhone(lab), 'ready, on a phone');
}

async function readableForEveryoneInTrouble(lab) {
  const both = async (page, what) => {
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      await assertAccessible(page, `${what}, ${colorScheme}`);
    }
  };
  // The device is hidden in the worker's own file, since a test's script can't run in the worker before it.
  const hidden = `Object.defineProperty(WorkerNavigator.prototype, 'gpu', { value: undefined });\n`;
  lab.replace('worker.js', Buffer.concat([Buffer.from(hidden), lab.siteFile('worker.js')]));
  await both(await lab.demo({ state: 'unsupported' }), 'unsupported');
  lab.replace('worker.js', undefined);
  const name = 'cases/balance_losses.safetensors';
  lab.replace(name, withFlippedBit(lab.siteFile(name), 'out.z'));
  const failed = await lab.demo({ state: 'failed' });
  await both(failed, 'failed');
  await failed.locator('#go-on').click();
  await both(failed, 'accepted');
  await failed.evaluate(() => globalThis.moebiusDemo.loseDevice());
  await failed.waitForFunction(() => document.documentElement.dataset.state === 'lost');
  await both(failed, 'lost');
}

/** Runs in the page: returns the focused element, and whether its focus is visible. */
function focused() {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
  const seen = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
  return { id: element.id || element.getAttribute('href') || element.tagName, seen };
}

async function usableWithTheKeyboard(lab) {
  const page = await lab.demo({ context: { viewport: DESKTOP } });
  const reached = [];
  for (let i = 0; i < 80 && !reached.includes('train-reset'); i++) {
    await page.keyboard.press('Tab');
    const { id, seen } = await page.evaluate(focused);
    assert.ok(seen, `the focus on ${id} can't be seen`);
    reached.push(id);
  }
  assert.equal(reached[0], '#main', 'first comes the link past the navigation');
  const sections = ['text-write', 'tune-start', 'layer-experts', 'layer-new', 'bench-run'];
  for (const control of [...sections, 'train-start', 'train-reset']) {
    assert.ok(reached.includes(control), `expected Tab to reach ${control}, got ${reached}`);
  }
  const runs = Number(await page.locator('#layer').getAttribute('data-runs'));
  await page.locator('#layer-new').focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction((before) => Number(document.querySelector('#layer').dataset.runs) > before, runs);
}

async function fitsAPhone(lab) {
  await assertFits(await onAPhone(lab));
}

/** Checks that nothing on a page is wider than a phone. */
export async function assertFits(page) {
  const { width, wide } = await page.evaluate(() => ({
    width: document.scrollingElement.scrollWidth,
    // Tables may be wider than the page inside a scrolling box.
    wide: [...document.querySelectorAll('main *')]
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest('.scroll'))
      .map((element) => `${element.tagName} ${element.id} ${element.className}`),
  }));
  assert.deepEqual(wide, []);
  assert.ok(width <= PHONE.width, `expected no more than ${PHONE.width} pixels, got ${width}`);
}

/** Checks that the page works below any address, since no path in it begins at the root. */
async function worksInASubfolder(lab) {
  lab.mount('some/where/');
  await lab.demo({ name: 'some/where/' });
  assert.ok(
    lab.served.every((name) => name.startsWith('some/where/')),
    lab.served.join(' '),
  );
}
