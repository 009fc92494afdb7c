// ?worker loads the package in a worker, which this page only starts; otherwise the page itself loads it.
if (new URLSearchParams(location.search).has('worker')) {
  globalThis.worker = new Worker('bench.js', { type: 'module' });
} else {
  await import('./bench.js');
}
