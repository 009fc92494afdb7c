// Contender Moebius, by its package.

/** Opens Moebius; `address` is the folder of moebius.js. */
export async function open(address) {
  const moebius = await import(`${address}/moebius.js`);
  await moebius.default();
  const device = await moebius.Device.open({ powerPreference: 'high-performance' });
  const { vendor, architecture } = device.report;
  return {
    version: moebius.version(),
    adapter: { vendor, architecture },
    prepare: async (work) => WORKS[work.kind](moebius, device, work),
  };
}

function matmul(moebius, device, { m, n, k, a, b }) {
  const product = new moebius.Matmul(device, { m, n, k }, a, b);
  return { run: () => product.run(), close: () => product.free() };
}

function moe(moebius, device, { hidden, inter, experts, topK, router, wIn, wOut }) {
  const options = { hidden, inter, experts, topK, router: 'topk', activation: 'relu' };
  const layer = new moebius.MoeLayer(device, options, { router, wIn, wOut });
  return { run: (x) => layer.forwardOutput(x), close: () => layer.free() };
}

function attention(moebius, device, { heads, tokens, headDim }) {
  const options = { heads, queries: tokens, headDim };
  const run = async ({ apart: { q, k, v } }) => (await moebius.attention(device, q, k, v, options)).o;
  return { run, close: () => {} };
}

const WORKS = { matmul, moe, attention };
