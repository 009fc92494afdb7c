// Tests of the package's TypeScript types: a program that uses all of them compiles, and every type is documented.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export const tests = [aStrictProgramCompiles, everythingPublicIsExplained];

async function aStrictProgramCompiles() {
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const project = fileURLToPath(new URL('types', import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, '--project', project], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, `${stdout}${stderr}`);
}

/** Declarations that the bindings' generator adds for itself; callers don't need them. */
const GENERATED = /initSync|__wbg/;

async function everythingPublicIsExplained(lab) {
  const lines = lab.siteFile('moebius/moebius.d.ts').toString().split('\n');
  const bare = [];
  lines.forEach((line, at) => {
    const declares = /^export (default )?(class|function) /.test(line) && !GENERATED.test(line);
    if (declares && !lines[at - 1].trimEnd().endsWith('*/')) bare.push(`${at + 1}: ${line}`);
  });
  assert.deepEqual(bare, [], 'declarations without a comment');
  assert.ok(
    lines.some((line) => line.startsWith('export class MoeLayer')),
    'no class MoeLayer',
  );
}
