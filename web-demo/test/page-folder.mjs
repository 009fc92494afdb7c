// Tests of the section "Text" with a folder that is dropped from the disk, as visitors do: the browser then gives the
// page an entry for reading the folder, which a drop made by a script doesn't have.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { generateNativelyFrom, olmoe, olmoeOf } from './models.mjs';
import { write } from './page-text.mjs';

export const tests = [aFolderIsDropped];
export const long = [aFolderOfAGigabyteIsDropped];

/** Makes a folder with these files, each a buffer or a list of buffers. */
function folderOf(files) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-folder-'));
  for (const [name, parts] of Object.entries(files)) {
    const file = fs.openSync(path.join(folder, name), 'w');
    for (const part of [parts].flat()) fs.writeSync(file, part);
    fs.closeSync(file);
  }
  return folder;
}

/** Drops the files or folders at these paths onto the section. */
async function drop(page, paths) {
  const section = page.locator('#text');
  await section.scrollIntoViewIfNeeded();
  const { x, y } = await section.boundingBox();
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: paths, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop']) {
    await session.send('Input.dispatchDragEvent', { type, x: x + 20, y: y + 20, data });
  }
  await session.detach();
}

/**
 * Checks that the page and the native command give the same answer with the model in a folder. @returns what the page
 * showed
 */
async function answers(lab, folder, { prompt, tokens, patience }) {
  const page = await lab.demo();
  await drop(page, [folder]);
  await page.waitForFunction(() => document.querySelector('#text-model').textContent.startsWith('model.safetensors'));
  await page.locator('#text-temperature').selectOption('0');
  await page.locator('#text-length').fill(String(tokens));
  await page.locator('#text-prompt').fill(prompt);
  const shown = await write(page, patience);
  const native = generateNativelyFrom(lab, folder, ['--prompt', prompt, '--max-tokens', String(tokens)], 'flex');
  assert.deepEqual(shown.ids, native.ids);
  return shown;
}

async function aFolderIsDropped(lab) {
  const folder = folderOf({ ...olmoe(), 'README.md': Buffer.from('Not a part of the model.') });
  try {
    const { report } = await answers(lab, folder, { prompt: 'w3 w14 w15', tokens: 8 });
    assert.equal(report.family, 'olmoe');
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

async function aFolderOfAGigabyteIsDropped(lab) {
  const folder = folderOf(olmoeOf({ hidden: 512, layers: 10, experts: 32, taken: 8, columns: 512 }));
  try {
    const { size } = fs.statSync(path.join(folder, 'model.safetensors'));
    assert.ok(size > 1e9, `${size} bytes`);
    const { report, tokensPerSecond } = await answers(lab, folder, { prompt: 'w3 w14', tokens: 6, patience: 240_000 });
    lab.note(`${size} bytes of a folder, ${report.weightBytes} on the device, ${tokensPerSecond.toFixed(2)} tokens/s`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
