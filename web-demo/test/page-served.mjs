// Tests of the page of `moebius serve`: on a server, under the server's own policy, and on a made-up one for what takes
// a key, takes long or goes wrong.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { generateNatively, olmoe } from './models.mjs';
import { assertAccessible, assertFits } from './page.mjs';
import { describe, picture } from './pictures.mjs';
import { ON_A_PHONE } from './visits.mjs';

export const tests = [theServersPageTalksAndShowsTheLoad, aKeyIsAskedForAndKeptInTheTab, aTextStopsOrTellsItsError];

/** Waits until the page has a state. */
const pageIs = (page, state) => page.locator(`html[data-state="${state}"]`).waitFor({ state: 'attached' });
const textIs = (page, state) => page.locator(`#text[data-text-state="${state}"]`).waitFor();
const status = (page) => page.locator('#text-status').textContent();
const answers = (page) => page.locator('#text-output .answer').allTextContents();

/** Starts `moebius serve` with the model in `files`, and ends it after `use`, which gets its address. */
async function serving(lab, files, use) {
  assert.ok(lab.native, 'no native command to serve with: --native PATH names it');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-served-'));
  for (const [name, bytes] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), bytes);
  const place = ['--device', 'flex', '--address', '127.0.0.1:0'];
  const command = ['serve', '--json', '--experts', '--served-name', 'tiny', '--model', folder, ...place];
  const server = spawn(lab.native, command, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(server, 'exit');
  try {
    const [line] = await Promise.race([once(readline.createInterface(server.stdout), 'line'), ended]);
    assert.equal(typeof line, 'string', `the server ended with ${line}`);
    await use(`http://localhost:${JSON.parse(line).address.split(':').at(-1)}/`);
  } finally {
    server.kill();
    await ended;
    fs.rmSync(folder, { recursive: true });
  }
}

async function theServersPageTalksAndShowsTheLoad(lab) {
  const native = (prompt) => generateNatively(lab, olmoe(), ['--prompt', prompt, '--max-tokens', '12'], 'flex').text;
  await serving(lab, olmoe({ chat: true }), async (address) => {
    // Under the policy no script of a test can wait in the page, only locators, which live in a world of their own.
    const context = { bypassCSP: false };
    // A request that is under way when the page is closed.
    const page = await lab.open(address, { context, allow: [/^request failed: \S+\/metrics /] });
    await pageIs(page, 'ready');
    assert.match(await page.locator('#model').textContent(), /^tiny, up to \d+ tokens/);
    await page.locator('#text-temperature').selectOption('0');
    await page.locator('#text-length').fill('12');
    const said = [];
    for (const message of ['w3 w14', 'w5']) {
      await page.locator('#text-prompt').fill(message);
      await page.locator('#text-write').click();
      await page.locator('#text-output .answer').nth(said.length / 2).waitFor();
      await textIs(page, 'ready');
      said.push(message, native([...said, message].join(' ')));
      assert.deepEqual(await answers(page), [said[1], said[3]].filter(Boolean));
    }
    assert.equal(await status(page), '12 tokens: it is as long as was asked for.');
    const [before, last] = [said.slice(0, 3), await page.locator('#text-numbers dd').allTextContents()];
    assert.deepEqual([last[0], last[3]], ['12', String(before.join(' ').split(' ').length)]);
    // Three of the eight experts of a layer get each token.
    await page.locator('#load-table tbody tr:not([data-load="0"])').nth(2).waitFor();
    assert.equal(await page.locator('#load-table tbody tr').count(), 8);
    assert.deepEqual(await page.locator('#load-layer option').allTextContents(), ['0', '1', '2']);
    // To hide the caret, pictures would need a style that the policy refuses.
    const options = { caret: 'initial' };
    const shown = describe(await picture(page.locator('#load-picture'), 'served-experts', options));
    assert.ok(shown.covered > 0.05 && shown.colours >= 3, JSON.stringify(shown));
    await picture(page, 'served', { ...options, fullPage: true });
    await page.close();
  });
}

/**
 * Runs in the page before its own scripts: a server that asks for a key, and writes until it is stopped. A message
 * `fail` ends in an error after a token, and a full queue refuses the message `full`.
 */
function pretend() {
  const json = (status, value) => new Response(JSON.stringify(value), { status });
  const error = (status, message) => json(status, { error: { message, type: 'x', param: null, code: 'x' } });
  const gauge = (name, value) => `moebius_${name}{model_name="tiny"} ${value}\n`;
  const numbers = [
    gauge('num_requests_running', 1) + gauge('num_requests_waiting', 2) + gauge('kv_cache_usage_perc', 0.25),
    gauge('generation_tokens_total', 7) + gauge('prefix_cache_queries_total', 4) + gauge('prefix_cache_hits_total', 1),
    ...[4, 0, 3, 2].map((tokens, at) => `moebius_expert_load{model_name="tiny",layer="0",expert="${at}"} ${tokens}\n`),
  ];
  globalThis.asked = [];
  globalThis.fetch = async (path, { headers = {}, body, signal }) => {
    if (path === 'health/ready') return json(200, { status: 'ready' });
    if (headers.authorization !== 'Bearer sk-0123456789abcdef') return error(401, 'expected a valid key');
    if (path === 'v1/models') return json(200, { data: [{ id: 'tiny', max_model_len: 64, chat: true }] });
    if (path === 'metrics') return new Response(numbers.join(''));
    const { messages } = JSON.parse(body);
    globalThis.asked.push({ path, signal, messages: messages.map(({ content }) => content) });
    const message = messages.at(-1).content;
    if (message === 'full') return error(429, 'too many requests wait; try again later');
    const bytes = (event, value) => new TextEncoder().encode(`${event}data: ${JSON.stringify(value)}\n\n`);
    const token = bytes('', { choices: [{ delta: { content: 'so ' }, finish_reason: null }] });
    const start = async (stream) => {
      let stopped = false;
      signal.addEventListener('abort', () => {
        stopped = true;
        stream.error(signal.reason);
      });
      while (!stopped) {
        stream.enqueue(token);
        await new Promise((later) => setTimeout(later, 10));
        if (message !== 'fail' || stopped) continue;
        stream.enqueue(bytes('event: error\n', { error: { message: 'it took too long' } }));
        stream.close();
        return;
      }
    };
    return new Response(new ReadableStream({ start: (stream) => void start(stream) }));
  };
}

/** The page on the made-up server, with the key given. */
async function unlocked(lab, options) {
  const page = await lab.open('served/', { script: pretend, ...options });
  await pageIs(page, 'locked');
  await page.locator('#access-key').fill('sk-0123456789abcdef');
  await page.keyboard.press('Enter');
  await pageIs(page, 'ready');
  return page;
}

async function aKeyIsAskedForAndKeptInTheTab(lab) {
  const page = await lab.open('served/', { script: pretend });
  await pageIs(page, 'locked');
  assert.ok(await page.locator('#text-gate').evaluate(({ disabled }) => disabled));
  await assertAccessible(page, 'the server asks for a key');
  await page.locator('#access-key').fill('sk-another-key');
  await page.keyboard.press('Enter');
  await page.locator('#status', { hasText: 'The key was refused.' }).waitFor();
  await page.locator('#access-key').fill('sk-0123456789abcdef');
  await page.keyboard.press('Enter');
  await pageIs(page, 'ready');
  const kept = () => page.evaluate(() => [Object.values(sessionStorage), localStorage.length, document.cookie]);
  assert.deepEqual(await kept(), [['sk-0123456789abcdef'], 0, '']);
  assert.ok(await page.locator('#access').isHidden());
  await page.reload();
  await pageIs(page, 'ready');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await assertAccessible(page, `ready, ${colorScheme}`);
  }
  await page.locator('#access-forget').click();
  await pageIs(page, 'locked');
  assert.deepEqual(await kept(), [[], 0, '']);
  const phone = await unlocked(lab, { context: ON_A_PHONE });
  await phone.locator('#load-table tr[data-load="4"]').waitFor();
  await assertFits(phone);
  await picture(phone, 'served-phone', { fullPage: true });
}

async function aTextStopsOrTellsItsError(lab) {
  const page = await unlocked(lab);
  // The keyboard alone: the key's form leaves the focus to the prompt.
  await page.keyboard.type('on and on');
  await page.keyboard.press('Control+Enter');
  await page.waitForFunction(() => Number(document.querySelector('#text').dataset.tokens) >= 3);
  assert.equal(await page.evaluate(() => globalThis.asked[0].signal.aborted), false);
  await page.locator('#text-stop').focus();
  await page.keyboard.press('Enter');
  await textIs(page, 'ready');
  assert.match(await status(page), /^Stopped after \d+ tokens\.$/);
  assert.equal(await page.evaluate(() => globalThis.asked[0].signal.aborted), true);
  const [stopped] = await answers(page);
  assert.match(stopped, /^(so ){3,}$/);
  const told = { fail: 'it took too long', full: 'too many requests wait; try again later' };
  for (const [message, why] of Object.entries(told)) {
    await page.locator('#text-prompt').fill(message);
    await page.locator('#text-write').click();
    await page.locator('#text-status', { hasText: why }).waitFor();
    await textIs(page, 'failed');
  }
  // What was answered in part is in the conversation, what was refused is not.
  const asked = await page.evaluate(() => globalThis.asked.map(({ messages }) => messages));
  assert.deepEqual(asked[2], ['on and on', stopped, 'fail', 'so ', 'full']);
  assert.deepEqual(await answers(page), [stopped, 'so ']);
  await page.locator('#text-new').click();
  assert.deepEqual(await answers(page), []);
}
