// Tests the package as npm packs it: a program that installs it compiles and loads it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const tests = [aPackedPackageIsWhole];

const PACKAGE = fileURLToPath(new URL('../../wasm/pkg', import.meta.url));

function run(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  assert.equal(status, 0, `${command} ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

async function aPackedPackageIsWhole() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moebius-npm-'));
  try {
    const [{ filename, files }] = JSON.parse(run('npm', ['pack', '--json', PACKAGE], folder));
    const names = files.map((file) => file.path).sort();
    const code = ['moebius.d.ts', 'moebius.js', 'moebius_bg.wasm', 'moebius_bg.wasm.d.ts'];
    const words = ['moebius_words.js', 'moebius_words_bg.wasm'];
    const [snippet, ...others] = names.filter((name) => name.startsWith('snippets/'));
    assert.match(snippet, /^snippets\/moebius-wasm-[0-9a-f]+\/words\.js$/);
    assert.deepEqual(others, []);
    const about = ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md'];
    assert.deepEqual(names, [...about, ...code, ...words, 'package.json', snippet]);
    const modules = path.join(folder, 'node_modules', 'moebius-web');
    fs.mkdirSync(modules, { recursive: true });
    run('tar', ['-xzf', filename, '--strip-components=1', '-C', modules], folder);
    const program = "import init, { MoeLayer } from 'moebius-web';\nconsole.log(typeof init, MoeLayer.name);\n";
    fs.writeFileSync(path.join(folder, 'program.mts'), program);
    fs.writeFileSync(path.join(folder, 'program.mjs'), program);
    assert.equal(run(process.execPath, ['program.mjs'], folder), 'function MoeLayer\n');
    const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
    const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext'];
    const libraries = ['--lib', 'es2022,dom,esnext.disposable'];
    run(process.execPath, [compiler, ...options, ...libraries, 'program.mts'], folder);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
