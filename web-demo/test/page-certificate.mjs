// Tests of the button "Certificate": its report.json is one of the command's, and names what is wrong.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { judge } from '../distance.js';
import { CASES } from './lab.mjs';
import { withFlippedBit } from './safetensors.mjs';

export const tests = [aPartIsNamedAndTiesAreNot, aCertificateIsUnitedWithTheCommands, aWrongCaseIsNamed];

/** Some of the cases, one of them in a type that WebGPU lacks. */
const NAMES = ['balance_losses', 'moe_layer_bf16', 'route_sigmoid'];

const floats = (...values) => Float32Array.from(values);
const numbers = (...values) => Uint32Array.from(values);

/** A reference of one layer over two tokens, of which the second has a tie, and what a device computes that agrees. */
function agreeing() {
  const [x, logits, head] = [floats(1, 2, 3, 4), floats(1, 0.5, 0.2, 0.1, 0.9, 0.8998), floats(1, 2, 3, 5, 4, 1)];
  const names = [null, 0, 0, 0, null].map((layer, at) => {
    return { layer, part: ['embedding', 'attention', 'router', 'experts', 'head'][at] };
  });
  const tensors = Object.fromEntries([x, x, logits, x, head].map((values, at) => [`${at}.values`, values]));
  Object.assign(tensors, { '2.keys': logits, '2.experts': numbers(0, 1) });
  const reference = { parts: names, tensors, tokens: 2, limits: { distance: 1e-4, tie: 1e-3 } };
  return { reference, computed: { states: [x, x, x], routers: [{ logits, experts: numbers(0, 1) }], head } };
}

/** What the page computes of distances is what `moebius_model::computation` does. */
function aPartIsNamedAndTiesAreNot() {
  const { reference, computed } = agreeing();
  const { states, routers, head } = computed;
  const same = judge(reference, computed);
  assert.deepEqual([same.parting, same.greedy], [null, null]);
  assert.ok(same.distances.every(({ relative_l2: far, judged }) => far === 0 && judged === 2));
  const wrong = judge(reference, { ...computed, states: [states[0], floats(1, 2, 3, NaN), states[2]] });
  assert.deepEqual(wrong.parting, { layer: 0, part: 'attention' });
  assert.equal(wrong.distances[1].relative_l2, null);
  // The first token goes elsewhere by a margin that is none of rounding.
  const flipped = judge(reference, { ...computed, routers: [{ ...routers[0], experts: numbers(1, 1) }] });
  assert.deepEqual(flipped.parting, { layer: 0, part: 'router' });
  assert.deepEqual(flipped.distances[2].flips, [{ token: 0, lost: [0], gained: [1], margin: 0.5, tie: false }]);
  // All that follows the tie of the second token is judged for the first alone.
  const last = [states[0], states[1], floats(1, 2, 9, 9)];
  const routed = [{ ...routers[0], experts: numbers(0, 2) }];
  const tied = judge(reference, { states: last, routers: routed, head: floats(1, 2, 3, 9, 9, 99) });
  assert.equal(tied.parting, null);
  assert.deepEqual(
    tied.distances.map(({ judged }) => judged),
    [2, 2, 2, 1, 1],
  );
  assert.deepEqual(tied.greedy, { position: 2, expected: 0, got: 2, margin: 4 });
  assert.throws(() => judge(reference, { ...computed, head: head.subarray(1) }), /part 4 .* expected 6 values, got 5/);
}

/** Opens the page with a few cases, presses the button, and returns the certificate and what the page says. */
async function certified(lab) {
  const list = NAMES.map((name) => ({ name, file: `${name}.safetensors` }));
  lab.replace('cases/all.json', Buffer.from(JSON.stringify(list)));
  const page = await lab.demo();
  const downloaded = page.waitForEvent('download');
  downloaded.catch(() => {}); // a certificate that fails downloads nothing
  await page.locator('#certificate').click();
  const said = page.waitForFunction(() => {
    const text = document.querySelector('#certificate-status').textContent;
    return text && !text.startsWith('Certificate:') ? text : null;
  });
  const text = await (await said).jsonValue();
  assert.ok(!text.startsWith('No certificate'), text);
  const download = await downloaded;
  assert.equal(download.suggestedFilename(), 'report.json');
  return { certificate: JSON.parse(fs.readFileSync(await download.path(), 'utf8')), said: text };
}

/** Runs `moebius validate` and returns its object. */
function natively(lab, ...options) {
  assert.ok(lab.native, 'no native command to compare with: --native PATH names it');
  const { status, stdout, stderr } = spawnSync(lab.native, ['validate', ...options, '--json'], { encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

async function aCertificateIsUnitedWithTheCommands(lab) {
  const { certificate, said } = await certified(lab);
  assert.equal(said, 'The same answer, and all cases right.');
  const [device] = certificate.devices;
  assert.deepEqual([device.device, device.verdict, device.emulated], ['webgpu', 'same', false]);
  const [model, cases] = device.parts.map(({ found }) => found.model ?? found.cases);
  assert.equal(model.oracle, 'committed');
  assert.equal(model.costs, null);
  assert.equal(certificate.subject.model.exact, false);
  assert.equal(model.parts.length, 2 + 3 * 6);
  const furthest = Math.max(...model.parts.map(({ distance }) => distance.relative_l2));
  lab.note(`the model in ${device.parts[0].seconds.toFixed(1)} s, at most ${furthest.toExponential(1)} away`);
  assert.ok(furthest > 0 && furthest < 1e-4, `${furthest}`);
  assert.deepEqual([cases.lacking, cases.wrong], [1, []]);
  assert.deepEqual(
    cases.families.map(({ family, passed }) => [family, passed]),
    [
      ['balance_losses', 1],
      ['route', 1],
    ],
  );
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-certificate-'));
  try {
    const [own, page] = ['cases', 'page.json'].map((name) => path.join(folder, name));
    fs.mkdirSync(own);
    for (const name of NAMES) {
      fs.copyFileSync(path.join(CASES, `${name}.safetensors`), path.join(own, `${name}.safetensors`));
    }
    fs.writeFileSync(page, JSON.stringify(certificate));
    natively(lab, '--bundled', '--cases', own, '--devices', 'flex', '--out', folder);
    const all = natively(lab, 'merge', path.join(folder, 'report.json'), page);
    assert.deepEqual(
      all.devices.map(({ device: name, verdict }) => [name, verdict]),
      [
        ['flex', 'same'],
        ['webgpu', 'same'],
      ],
    );
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

async function aWrongCaseIsNamed(lab) {
  const name = 'cases/route_sigmoid.safetensors';
  lab.replace(name, withFlippedBit(lab.siteFile(name), 'out.weights'));
  const { certificate, said } = await certified(lab);
  assert.match(said, /^Verdict: apart; route in f32: route_sigmoid: weights is off by/);
  const [device] = certificate.devices;
  assert.equal(device.verdict, 'apart');
  const [wrong] = device.parts[1].found.cases.wrong;
  assert.deepEqual([wrong.family, wrong.dtype, wrong.case], ['route', 'f32', 'route_sigmoid']);
}
