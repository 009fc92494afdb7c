// Loads the package: with ?worker, in a worker that this page only starts; otherwise, in the page itself.
if (new URLSearchParams(location.search).has('worker')) {
  globalThis.worker = new Worker('bench.js', { type: 'module' });
} else {
  await import('./bench.js');
}
