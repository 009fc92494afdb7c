// The button "Certificate": the page's own model and all bundled cases on this device, as the report.json that `moebius
// validate` writes (docs/certificate.schema.json). What the model should compute is in a file that `moebius validate
// reference` wrote.
import { complaint } from './device.js';
import { byId, h } from './dom.js';
import { judge, read } from './distance.js';

const GAPS = [
  'conformance: the cases of single kernels at the edges of their sizes and with hostile data are in no page',
  'model: one text in f32, codes in FP8 staying codes; no other type and no cache was compared',
  'training: a page compares none with inference',
  "model: compared with the reference's values rounded to f32, which `moebius validate reference` wrote",
  "model: no layer has a time, since a page can't wait within a pass",
  'cases: few and small sizes of each operation',
  'demos: a page has none',
  'bench: nothing was timed; the section Benchmarks does',
];

const fetched = async (path) => {
  const answer = await fetch(new URL(path, import.meta.url));
  if (!answer.ok) throw new Error(`${path}: expected status 200, got ${answer.status}`);
  return answer.arrayBuffer();
};

/** SHA-256 in hexadecimal digits. @param {BufferSource} bytes */
async function digits(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

const tell = (text) => {
  byId('certificate-status').textContent = text;
};

/** The page's model against the reference: the certificate's subject and limits, and the part. */
async function ofModel(client) {
  tell('Certificate: the model.');
  const { metadata, tensors } = read(await fetched('./model/reference.safetensors'));
  const { subject, limits, parts, files } = JSON.parse(metadata.certificate);
  for (const [name, expected] of Object.entries(files)) {
    const got = await digits(await fetched(`./model/${name}`));
    if (got !== expected) throw new Error(`model/${name}: expected the file of the reference, ${expected}, got ${got}`);
  }
  const computed = await client.call('textCompute', { ids: subject.tokens });
  const reference = { parts, tensors, tokens: subject.tokens.length, limits };
  const { distances, values, parting, greedy } = judge(reference, computed);
  const hashes = await Promise.all(values.map(digits));
  const measured = distances.map((distance, at) => ({ distance, hash: hashes[at], bits_of_first: true }));
  const judged = distances.at(-1).judged;
  const same = judged > 0 ? 'same' : 'undecided';
  const done = {
    part: 'model',
    seconds: computed.milliseconds / 1000,
    memory_bytes: computed.inUse,
    verdict: parting ? 'apart' : same,
    found: { model: { oracle: 'committed', parts: measured, parting, greedy, costs: null } },
  };
  return { subject, limits, done };
}

/** Family and type of a case file: its operation, and the type that its parameters name. */
function about(bytes) {
  const { op, params } = read(bytes).metadata;
  return { family: op, dtype: JSON.parse(params).compute ?? 'f32' };
}

const number = (value) => (Number.isFinite(value) ? value : null);
const far = (furthest) => furthest?.relative_l2 ?? Infinity;

/** Results of the cases by family and type, as the command sorts them. */
function families(results) {
  const all = new Map();
  for (const { name, family, dtype, report } of results) {
    const key = `${family} ${dtype}`;
    const entry = all.get(key) ?? { family, dtype, passed: 0, failed: 0, errors: 0, furthest: null };
    all.set(key, entry);
    entry[{ pass: 'passed', fail: 'failed' }[report?.verdict] ?? 'errors'] += 1;
    for (const output of report?.outputs ?? []) {
      const furthest = { case: name, output: output.name, relative_l2: number(output.relL2) };
      if (entry.furthest === null || far(entry.furthest) < far(furthest)) entry.furthest = furthest;
    }
  }
  return [...all.keys()].sort().map((key) => all.get(key));
}

/** All bundled cases: the certificate's subject, and the part. */
async function ofCases(client, report) {
  const list = JSON.parse(new TextDecoder().decode(await fetched('./cases/all.json')));
  const files = await Promise.all(list.map(({ file }) => fetched(`./cases/${file}`)));
  const named = list.flatMap(({ name }, at) => [name, files[at]]);
  const hash = await digits(await new Blob(named).arrayBuffer());
  // WebGPU's languages have no bf16.
  const has = { f32: true, f16: report.f16, bf16: false };
  const results = [];
  let lacking = 0;
  const started = performance.now();
  const onProgress = (result) => {
    const of = about(files[result.done - 1]);
    // Only a type that the device lacks is no fault of it.
    if (result.error?.code === 'unsupported' && !has[of.dtype]) lacking += 1;
    else results.push({ ...result, ...of });
    tell(`Certificate: case ${result.done} of ${result.of}.`);
  };
  await client.call('check', { of: 'all' }, { onProgress });
  const wrong = results.filter(({ report }) => report?.verdict !== 'pass');
  const verdicts = [
    [wrong.some(({ error }) => error), 'failed'],
    [wrong.length > 0, 'apart'],
    [results.length > 0, 'same'],
  ];
  const done = {
    part: 'cases',
    seconds: (performance.now() - started) / 1000,
    memory_bytes: null,
    verdict: verdicts.find(([holds]) => holds)?.[1] ?? 'undecided',
    found: {
      cases: {
        families: families(results),
        lacking,
        wrong: wrong.map((result) => {
          const { family, dtype, name } = result;
          return { family, dtype, case: name, problem: complaint(result).slice(`${name}: `.length) };
        }),
      },
    },
  };
  return { subject: { name: 'the bundled cases', files: list.length, hash }, done };
}

const WORST = ['same', 'undecided', 'apart', 'failed'];

/** The device as the certificate has it, with its parts. */
function tested(report, parts) {
  const kind = [report.vendor, report.architecture].filter(Boolean).join(' ');
  const platform = navigator.userAgentData?.platform || navigator.platform || 'unknown';
  return {
    device: 'webgpu',
    adapter: `${report.description || kind || report.name} (${report.kind})`,
    driver: navigator.userAgent,
    machine: { system: `${platform}, in a browser`, processors: navigator.hardwareConcurrency },
    emulated: false,
    verdict: WORST[Math.max(...parts.map(({ verdict }) => WORST.indexOf(verdict)))],
    error: null,
    parts,
  };
}

/** What the certificate says, in a line. */
function said({ verdict, parts }) {
  if (verdict === 'same') return 'The same answer, and all cases right.';
  const [model, cases] = parts.map(({ found }) => found.model ?? found.cases);
  const [wrong] = cases.wrong;
  const lines = wrong ? [`${wrong.family} in ${wrong.dtype}: ${wrong.case}: ${wrong.problem}`] : [];
  if (model.parting) {
    const { layer, part } = model.parting;
    lines.push(`the model differs from ${layer === null ? '' : `layer ${layer}, `}${part} on`);
  }
  return `Verdict: ${verdict}; ${lines.join('; ') || 'ties or lacking types leave nothing to judge'}.`;
}

/** Hands a file to the visitor. */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = h('a', { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

let busy = false;

/**
 * Makes the certificate of the open device, and hands it to the visitor as report.json.
 * @param {import('./client.js').Client} client
 * @param {object} report the device's, of the package
 */
export async function certify(client, report) {
  if (busy) return;
  busy = true;
  try {
    const model = await ofModel(client);
    const cases = await ofCases(client, report);
    const device = tested(report, [model.done, cases.done]);
    const certificate = {
      format: 'moebius-certificate',
      version: 4,
      program: { version: byId('version').textContent, kernels: report.kernels },
      subject: { model: model.subject, training: false, cases: cases.subject, demos: [], benchmarks: [] },
      limits: model.limits,
      gaps: GAPS,
      absent: [],
      devices: [device],
    };
    download('report.json', `${JSON.stringify(certificate, null, 2)}\n`);
    tell(said(device));
  } catch (error) {
    tell(`No certificate: ${error.message}`);
  } finally {
    busy = false;
  }
}
