// Prints what a page has to load for each library: bytes of its files, plain and with brotli at quality 11.
// Usage: node sizes.mjs [DIR of moebius.js and moebius_bg.wasm, default wasm/pkg]

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sizeOf } from '../../../scripts/sizes.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const modules = (path) => join(HERE, 'node_modules', path);
const ort = (...files) => files.map((file) => modules(`onnxruntime-web/dist/${file}`));
const pkg = process.argv[2] ?? join(HERE, '../../../wasm/pkg');

const LIBRARIES = {
  'Moebius': [join(pkg, 'moebius.js'), join(pkg, 'moebius_bg.wasm')],
  'onnxruntime-web WebGPU': ort('ort.webgpu.bundle.min.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'),
  'onnxruntime-web WebGPU, JSPI build': ort('ort.jspi.bundle.min.mjs', 'ort-wasm-simd-threaded.jspi.wasm'),
  'onnxruntime-web wasm': ort('ort.wasm.bundle.min.mjs', 'ort-wasm-simd-threaded.wasm'),
  'tfjs core and WebGPU backend': [
    modules('@tensorflow/tfjs-core/dist/tf-core.fesm.min.js'),
    modules('@tensorflow/tfjs-backend-webgpu/dist/tf-backend-webgpu.fesm.min.js'),
  ],
};

const row = (name, plain, brotli) => `${name.padEnd(44)}${String(plain).padStart(12)}${String(brotli).padStart(12)}`;

console.log(row('bytes', 'plain', 'brotli'));
for (const [library, files] of Object.entries(LIBRARIES)) {
  const missing = files.find((file) => !existsSync(file));
  if (missing) {
    console.error(`${library}: expected ${missing}, got nothing`);
    process.exitCode = 1;
    continue;
  }
  const all = files.map((file) => sizeOf(basename(file), readFileSync(file)));
  const total = (key) => all.reduce((sum, one) => sum + one[key], 0);
  console.log(row(library, total('raw'), total('brotli')));
  for (const one of all) console.log(row(`  ${one.name}`, one.raw, one.brotli));
}
