// Serves this folder, and the package below /pkg/, on localhost. The page loads nothing from elsewhere.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { serve } from '../../../scripts/serve.mjs';

// onnxruntime's wasm provider gets its threads only on an isolated page.
const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' };

const PACKAGE = /^pkg\/((?:[\w-][\w.-]*\/)*[\w-][\w.-]*)$/;

/** Serves `folder`, with the files of `pkg` below /pkg/. Resolves with `{url, close}`. */
export function servePeers(folder, pkg, port = 0) {
  const replace = (name) => {
    const [, file] = PACKAGE.exec(name) ?? [];
    if (file === undefined) return undefined;
    const path = join(pkg, file);
    return existsSync(path) ? readFileSync(path) : null;
  };
  return serve(folder, { port, replace, headers: ISOLATED });
}
