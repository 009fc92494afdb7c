//! Devices without memory, and lost devices: a typed error where a result is read, and no other damage.

use burn::tensor::{Device, Tensor};
use cubecl::device::{WgpuBackend, WgpuDevice, WgpuDeviceKind};
use cubecl::wgpu::{AutoGraphicsApi, RuntimeOptions, init_setup};
use moebius::ErrorKind;
use moebius::moe::MoeConfig;
use moebius_device::DeviceKind;
use moebius_engine::{Ended, Engine, EngineOptions, Event, Generation, Limits, RequestId};
use moebius_model::decoder::{Drawn, Model};
use moebius_model::{Checkpoint, DecoderConfig, Text, TrainConfig, Trainer};
use moebius_tests::gradients::filled;
use std::collections::BTreeMap;
use std::process::Command;

/// The result of a small layer, which must be the same before and after a fault.
fn small(device: &Device) -> Vec<f32> {
    let layer = filled(MoeConfig::new(16, 24, 3).init(device).unwrap(), 1, 0.3);
    let y = layer.forward(Tensor::<2>::ones([7, 16], device)).unwrap().y;
    y.try_into_vec_as().unwrap()
}

/// The result of a layer with this width and this many tokens, or the text of its error: the layer's own or that of reading its
/// result.
fn large(device: &Device, inter: usize, tokens: usize) -> Result<Vec<f32>, String> {
    let layer = filled(MoeConfig::new(4, inter, 2).init(device).unwrap(), 1, 0.3);
    let y = match layer.forward(Tensor::<2>::ones([tokens, 4], device)) {
        Ok(out) => out.y.narrow(0, 0, 1),
        Err(error) => {
            let refused = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Shape);
            assert!(refused, "{error}");
            return Err(error.to_string());
        }
    };
    y.try_into_vec_as().map_err(|error| error.to_string())
}

/// Asks for buffers larger than the device's memory: a terabyte between the two products of the experts, and four for a tensor.
pub(crate) fn ask_too_much(arguments: &[String]) {
    let device = moebius::open(&arguments[0].parse().unwrap()).unwrap();
    let before = small(&device);
    println!("{}", large(&device, 1 << 20, 1 << 17).unwrap_err());
    assert_eq!(small(&device), before);
    let tensor = Tensor::<2>::zeros([1 << 20, 1 << 20], &device).narrow(0, 0, 1);
    println!("{}", tensor.try_into_vec_as::<f32>().unwrap_err());
    assert_eq!(small(&device), before);
}

/// Limits this process to its present size plus `more` bytes; `None` lifts the limit.
fn limit(more: Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.unwrap().trim().trim_end_matches(" kB");
    let size: u64 = size.parse().unwrap();
    let most = more.map(|more| (1024 * size + more).to_string());
    let limit = format!("--as={}:", most.unwrap_or("unlimited".to_owned()));
    let pid = std::process::id().to_string();
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid, &limit]);
    assert!(prlimit.status().unwrap().success());
}

/// Allocates buffers of 64 MiB, which fit the device's limits, until the machine has no more memory.
pub(crate) fn run_out(arguments: &[String]) {
    let device = moebius::open(&arguments[0].parse().unwrap()).unwrap();
    let before = small(&device);
    let buffer = |value: usize| {
        let full = Tensor::<2>::full([1 << 12, 1 << 12], value as f32, &device);
        let first = full.clone().narrow(0, 0, 1).try_into_vec_as::<f32>();
        first.map(|_| full).map_err(|error| error.to_string())
    };
    // Compiles the kernels before memory is short.
    drop(buffer(0).unwrap());
    limit(Some(512 << 20));
    let taken: Result<Vec<_>, _> = (0..100).map(buffer).collect();
    println!("{}", taken.unwrap_err());
    limit(None);
    assert_eq!(small(&device), before);
    drop(buffer(1).unwrap());
}

/// An engine on Flex that begins with two pages, for a model whose pages are 4 MiB in each of its two layers.
fn wide_engine() -> Engine {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let sizes = DecoderConfig {
        layers: 2,
        sequence: 1 << 12,
        ..DecoderConfig::default().with_hidden(16)
    };
    let mut spec = sizes.spec();
    for layer in &mut spec.layers {
        let attention = layer.attention_mut().unwrap();
        (attention.heads, attention.kv_heads) = (128, 128);
        (attention.head_dim, attention.value_dim) = (256, 256);
    }
    let model = Model::of_values(&spec, &mut Drawn::new(&spec, 1), &device).unwrap();
    let options = EngineOptions {
        reserve: 2,
        ..EngineOptions::new(Limits::new(1 << 9, 32, 3))
    };
    Engine::new(model, options, &device).unwrap()
}

/// The tokens of each request and its end, in the order of the requests. A request is the first token of its prompt, and how many the
/// prompt has.
fn answers(engine: &mut Engine, requests: &[(u32, u32)]) -> Vec<(Vec<u32>, Option<Ended>)> {
    for &(first, tokens) in requests {
        let prompt = (first..first + tokens).map(|token| token % 256).collect();
        engine.add(Generation::new(prompt, 5)).unwrap();
    }
    let mut all = BTreeMap::<RequestId, (Vec<u32>, Option<Ended>)>::new();
    while !engine.is_idle() {
        for (id, event) in engine.step().unwrap() {
            let (tokens, ended) = all.entry(id).or_default();
            match event {
                Event::Token(draw) => tokens.push(draw.id),
                Event::End(reason) => *ended = Some(reason),
            }
        }
    }
    all.into_values().collect()
}

/// Fills the cache of an engine until the process has no memory for more: the request that needs it ends and says so, and the requests
/// beside and after it get what they get alone. When there is memory again, a long request is answered, too.
pub(crate) fn fill_a_cache(_: &[String]) {
    let mut engine = wide_engine();
    let short = [(3, 10), (77, 20)];
    let alone = short.map(|request| answers(&mut engine, &[request]).remove(0));
    limit(Some(256 << 20));
    let mut got = answers(&mut engine, &[short[0], (150, 2000), short[1]]);
    limit(None);
    let (tokens, ended) = got.remove(1);
    let Some(Ended::NoRoom(error)) = ended else {
        panic!("the request ended with {ended:?}");
    };
    println!("{error}");
    assert!(tokens.is_empty() && error.needed > error.free && error.free < 1 << 30);
    // A page of 16 tokens takes 8 MiB, so 256 MiB hold less than 512 tokens; 64 MiB stay free.
    assert!((32..512).contains(&error.tokens), "{error}");
    assert_eq!(got, alone);
    assert_eq!(engine.usage().used, 0);
    let (tokens, ended) = answers(&mut engine, &[(150, 300)]).remove(0);
    assert_eq!((tokens.len(), ended), (5, Some(Ended::Length)));
}

/// The adapter behind the device `wgpu`.
fn adapter() -> WgpuDevice {
    let capability = moebius_device::probe(&moebius::Device::Wgpu(None)).unwrap();
    let kind = match capability.kind {
        DeviceKind::DiscreteGpu => WgpuDeviceKind::DiscreteGpu(0),
        DeviceKind::IntegratedGpu => WgpuDeviceKind::IntegratedGpu(0),
        DeviceKind::VirtualGpu => WgpuDeviceKind::VirtualGpu(0),
        DeviceKind::Cpu => WgpuDeviceKind::Cpu,
        _ => WgpuDeviceKind::Other(0),
    };
    WgpuDevice::new(kind).on(WgpuBackend::Auto)
}

/// A function that destroys the adapter's device. It makes CubeCL start the device here if our code doesn't start it.
fn taking_away(adapter: WgpuDevice) -> Box<dyn FnOnce()> {
    if let Some(handle) = moebius_device::wgpu_handle(&adapter.kind) {
        return Box::new(move || handle.destroy());
    }
    let options = RuntimeOptions::try_default().unwrap();
    let handle = init_setup::<AutoGraphicsApi>(&adapter, options).device;
    let opened = moebius_device::open(&moebius::Device::Wgpu(None)).unwrap();
    assert_eq!(opened.cubecl(), Some(cubecl::Device::Wgpu(adapter)));
    Box::new(move || handle.destroy())
}

/// Loses the device during a training: every later use of the device is an error, and the training continues elsewhere from the
/// finished checkpoint.
pub(crate) fn lose(_: &[String]) {
    let take_away = taking_away(adapter());
    let device = moebius::open(&moebius::Device::Wgpu(None)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = TrainConfig {
        batch: 1,
        sequence: 8,
        ..TrainConfig::default()
    };
    let sizes = DecoderConfig {
        layers: 1,
        sequence: 8,
        ..DecoderConfig::default().with_hidden(16)
    };
    let ids = Text::bundled().ids();
    let mut trainer = Trainer::new(config, sizes, ids.clone(), &device).unwrap();
    trainer.step().unwrap();
    trainer.report().unwrap();
    trainer.checkpoint().unwrap().write(folder.path()).unwrap();
    let layer = MoeConfig::new(16, 24, 3).init(&device).unwrap();
    trainer.step().unwrap();

    take_away();

    println!("report: {}", trainer.report().unwrap_err());
    println!("checkpoint: {}", trainer.checkpoint().unwrap_err());
    let step = trainer.step().and_then(|()| trainer.report());
    println!("step: {}", step.unwrap_err());
    let out = layer.forward(Tensor::<2>::ones([7, 16], &device)).unwrap();
    let read = out.y.try_into_vec_as::<f32>();
    println!("layer: {}", read.unwrap_err());
    println!("memory: {}", moebius::memory_in_use(&device).unwrap_err());

    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let checkpoint = Checkpoint::read(folder.path()).unwrap();
    let mut trainer = Trainer::resume(checkpoint, sizes, ids, &flex).unwrap();
    trainer.step().unwrap();
    assert_eq!(trainer.report().unwrap().step, 2);
}
