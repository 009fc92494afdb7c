// Serves this folder and the package on localhost. Nothing else is reachable, and nothing is fetched from elsewhere.

import { createServer } from 'node:http';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname, join, normalize, sep } from 'node:path';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

function fileOf(roots, url) {
  const path = normalize(decodeURIComponent(new URL(url, 'http://localhost').pathname));
  const [prefix, folder] = Object.entries(roots).find(([prefix]) => path.startsWith(prefix));
  const file = join(folder, path.slice(prefix.length) || 'index.html');
  return file.startsWith(folder + sep) ? file : undefined;
}

/** `roots` maps prefixes of paths to folders, the most particular first and '/' last. Resolves with the server. */
export function serve(roots, port = 0) {
  const server = createServer(async (request, response) => {
    const file = fileOf(roots, request.url);
    const found = file && await stat(file).catch(() => undefined);
    if (!found?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {
      'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream',
      'Content-Length': found.size,
      // onnxruntime's wasm provider gets its threads only on an isolated page.
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Embedder-Policy': 'require-corp',
      'Cache-Control': 'no-store',
    });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => server.listen(port, 'localhost', () => resolve(server)));
}
