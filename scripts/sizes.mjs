// Bytes of files as they are and as a server sends them: brotli at its best.
//
//   node scripts/sizes.mjs FILE...
import fs from 'node:fs';
import { pathToFileURL } from 'node:url';
import zlib from 'node:zlib';

/** @typedef {{ name: string, raw: number, brotli: number }} Size */

/** @param {string} name @param {Buffer} bytes @returns {Size} */
export function sizeOf(name, bytes) {
  const params = {
    [zlib.constants.BROTLI_PARAM_QUALITY]: zlib.constants.BROTLI_MAX_QUALITY,
    [zlib.constants.BROTLI_PARAM_LGWIN]: zlib.constants.BROTLI_MAX_WINDOW_BITS,
    [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return { name, raw: bytes.length, brotli: zlib.brotliCompressSync(bytes, { params }).length };
}

/** Largest first, with a last line for the sum. @param {Size[]} sizes */
export function table(sizes) {
  const sorted = [...sizes].sort((a, b) => b.brotli - a.brotli);
  const rows = [...sorted, total(sizes)].map((size) => [size.name, grouped(size.raw), grouped(size.brotli)]);
  const lines = [['', 'raw', 'brotli'], ...rows];
  const width = [0, 1, 2].map((column) => Math.max(...lines.map((line) => line[column].length)));
  return lines
    .map(([name, raw, brotli]) => `${name.padEnd(width[0])}  ${raw.padStart(width[1])}  ${brotli.padStart(width[2])}`)
    .join('\n');
}

/** @param {Size[]} sizes @returns {Size} */
export function total(sizes) {
  const sum = (key) => sizes.reduce((all, size) => all + size[key], 0);
  return { name: 'total', raw: sum('raw'), brotli: sum('brotli') };
}

/** 1234567 as "1 234 567". */
function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ' ');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const files = process.argv.slice(2);
  if (files.length === 0) {
    console.error('usage: node scripts/sizes.mjs FILE...');
    process.exit(2);
  }
  console.log(table(files.map((file) => sizeOf(file, fs.readFileSync(file)))));
}
