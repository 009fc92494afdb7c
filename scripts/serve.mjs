// A static web server for one folder, for localhost only.
//
//   node scripts/serve.mjs FOLDER [PORT]
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.ts': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm', // anything else and the browser can't compile it while it arrives
  '.webmanifest': 'application/manifest+json',
};

/**
 * Serves `root`; `replace(path)` may return other bytes for a path, or null for "no such file".
 * @param {string} root
 * @param {{ port?: number, replace?: (path: string) => Buffer | null | undefined, headers?: Record<string, string> }}
 *   [options] port 0: any free one; every answer has the headers
 * @returns {Promise<{ url: string, close: () => Promise<void> }>}
 */
export async function serve(root, { port = 0, replace = () => undefined, headers = {} } = {}) {
  const server = http.createServer((request, response) => {
    const { status, type, body } = answer(path.resolve(root), request, replace);
    // Without a cache, so that a page in work shows what was saved last.
    const own = { 'content-type': type, 'content-length': body.length, 'cache-control': 'no-store' };
    response.writeHead(status, { ...headers, ...own });
    response.end(request.method === 'HEAD' ? undefined : body);
  });
  await new Promise((listening, failed) => {
    server.once('error', failed);
    server.listen(port, '127.0.0.1', listening);
  });
  const close = () =>
    new Promise((closed) => {
      server.close(closed);
      server.closeAllConnections();
    });
  return { url: `http://localhost:${server.address().port}/`, close };
}

function answer(root, request, replace) {
  const text = (status, message) => ({ status, type: TYPES['.ts'], body: Buffer.from(`${message}\n`) });
  if (request.method !== 'GET' && request.method !== 'HEAD') return text(405, 'only GET and HEAD');
  const name = nameOf(request.url);
  if (name === null) return text(400, `not a path: ${request.url}`);
  const type = TYPES[path.extname(name)] ?? 'application/octet-stream';
  const replaced = replace(name);
  if (replaced) return { status: 200, type, body: replaced };
  const file = path.join(root, name);
  const inside = file.startsWith(root + path.sep);
  if (replaced === null || !inside || !fs.existsSync(file) || !fs.statSync(file).isFile())
    return text(404, `no file ${name}`);
  return { status: 200, type, body: fs.readFileSync(file) };
}

/** The path of a request relative to the root: no query, `index.html` for a folder; null if it is not one. */
function nameOf(url) {
  try {
    const name = decodeURIComponent(new URL(url, 'http://localhost').pathname).slice(1);
    if (name.includes('\0')) return null;
    return name === '' || name.endsWith('/') ? `${name}index.html` : name;
  } catch {
    return null;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [root, port = '8080'] = process.argv.slice(2);
  if (root === undefined || !/^\d{1,5}$/.test(port)) {
    console.error('usage: node scripts/serve.mjs FOLDER [PORT]');
    process.exit(2);
  }
  try {
    const { url } = await serve(root, { port: Number(port) });
    console.log(`${url}  (Ctrl-C ends)`);
  } catch (error) {
    console.error(error.code === 'EADDRINUSE' ? `port ${port} is taken; choose another` : error.message);
    process.exit(1);
  }
}
