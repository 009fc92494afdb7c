// How a client in JavaScript tells what became of its checks: an object on a line for each (report.of_lines).
import { readFileSync } from 'node:fs';

/** Runs the checks that the command line names after the URL and the model, and tells the packages' versions first. */
export async function run(checks, packages) {
  const [url, model, ...names] = process.argv.slice(2);
  const version = (name) =>
    JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
  const versions = packages.map((name) => [name, version(name)]);
  tell({ versions: { ...Object.fromEntries(versions), node: process.versions.node } });
  for (const name of names) {
    const begun = performance.now();
    let good = true;
    let said;
    try {
      said = await checks[name]({ url, model });
    } catch (error) {
      good = false;
      said = `${error?.name}: ${error?.message}`.slice(0, 1000);
    }
    tell({ check: name, good, said, seconds: (performance.now() - begun) / 1e3 });
  }
}

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

export function expect(good, what) {
  if (!good) throw new Error(what);
}

export function same(what, got, want) {
  const [one, other] = [got, want].map((value) => JSON.stringify(value));
  expect(one === other, `${what}: expected ${other}, got ${one}`);
}

/** The error that some work must end with. */
export async function fails(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error('expected an error, got none');
}
