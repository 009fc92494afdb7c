// Runs the package in Deno on its own WebGPU. Prints a line of JSON for every case, then one for a layer.
//
//   deno run --unstable-webgpu --allow-read verify.js PACKAGE CASES NATIVE
const [pkg, cases, native] = Deno.args;

// wgpu looks for a page's or a worker's scope before it asks for a GPU, and Deno's main program has neither.
globalThis.WorkerGlobalScope ??= Object;
const { default: init, Device, MoeLayer } = await import(`file://${pkg}/moebius.js`);
await init({ module_or_path: Deno.readFileSync(`${pkg}/moebius_bg.wasm`) });
const device = await Device.open();
const print = (line) => console.log(JSON.stringify(line));

print({ adapter: device.report.name });
for (const { name } of Deno.readDirSync(cases)) {
  if (!name.endsWith('.safetensors')) continue;
  // A case that the device refuses has the error's code in place of a verdict.
  const verdict = await device.verify(Deno.readFileSync(`${cases}/${name}`)).then(
    (report) => report.verdict,
    (error) => error.code ?? String(error),
  );
  print({ name, verdict });
}
const { tokens, layer: options } = JSON.parse(Deno.readTextFileSync(native));
const x = Float32Array.from({ length: tokens * options.hidden }, (_, i) => ((i * 7919) % 1000) / 500 - 1);
const layer = new MoeLayer(device, options);
print({ y: [...(await layer.forward(x)).y] });
layer.free();
device.destroy();
print({ loss: (await device.lost).reason });
Deno.exit(0);
