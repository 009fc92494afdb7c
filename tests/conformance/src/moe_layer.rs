//! The whole MoE layer through Burn against the f64 oracle, and its promises about memory, launches and order.

use crate::tensors::{drawn, floats, integers, random, words};
use crate::{Outcome, operation};
use burn::module::Param;
use burn::tensor::{DType, Tensor};
use moebius::moe::{
    Activation, Capacity, Experts, FeedForwardBlock, GlamConfig, MoeConfig, MoeLayer, MoeWeights,
    RouteConfig, Variant,
};
use moebius::{Device, Error, ErrorKind, memory, memory_free, memory_in_use_async};
use moebius_device::memory_in_use;
use moebius_ops::{Element, HostTensor, Operation, experts, routing};
use moebius_tests::data::Rng;
use moebius_tests::record::{Launch, launched_by};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, gradient_rel_l2, rel_l2};
use pollster::block_on;

/// A layer with known weights, and their values after rounding to the dtype.
pub(crate) struct Fixture {
    pub(crate) config: MoeConfig,
    pub(crate) layer: MoeLayer,
    pub(crate) dtype: DType,
    /// The kernel variant of a recording layer's experts; `None` for the plan's own choice.
    pub(crate) variant: Option<Variant>,
}

pub(crate) fn fixture(target: &Target, config: MoeConfig, dtype: DType) -> Fixture {
    let mut rng = Rng::new(config.hidden as u64);
    let device = target.burn();
    let (e, h, f) = (config.experts, config.hidden, config.inter);
    let columns = if config.gated { 2 * f } else { f };
    let bound = |k: usize| (3.0 / k as f32).sqrt();
    let bias = |rng: &mut Rng, columns| {
        let bias = config.bias.then_some(rng);
        bias.map(|rng| drawn(rng, [e, columns], 0.3, dtype, &device))
    };
    let weights = MoeWeights {
        router: drawn(&mut rng, [e, h], bound(h), dtype, &device),
        w_in: drawn(&mut rng, [e, columns, h], bound(h), dtype, &device),
        b_in: bias(&mut rng, columns),
        w_out: drawn(&mut rng, [e, h, f], bound(f), dtype, &device),
        b_out: bias(&mut rng, h),
    };
    Fixture {
        config,
        layer: config.with_weights(weights).unwrap(),
        dtype,
        variant: None,
    }
}

impl Fixture {
    pub(crate) fn batch(&self, target: &Target, tokens: usize, seed: u64) -> Tensor<2> {
        let mut rng = Rng::new(seed);
        let shape = [tokens, self.config.hidden];
        drawn(&mut rng, shape, 1.7, self.dtype, &target.burn())
    }

    /// Runs `x` and compares y and the dropped slots with the oracle, given the device's routing.
    fn check(&self, target: &Target, tokens: usize) -> Result<(), Error> {
        let x = self.batch(target, tokens, tokens as u64);
        let out = self.layer.forward(x.clone())?;
        let problem = self.layer.problem(tokens, self.dtype).unwrap();
        let routed = routing::reference(&problem.routing, &floats(out.routing.logits), None);
        assert_eq!(words(out.routing.indices), routed.indices);
        let weights = self.layer.weights().unwrap();
        let (b_in, b_out) = (weights.b_in.map(floats), weights.b_out.map(floats));
        let inputs = experts::ReferenceInputs {
            x: &floats(x),
            indices: &routed.indices,
            weights: &routed.weights,
            w_in: &floats(weights.w_in),
            b_in: b_in.as_deref(),
            w_out: &floats(weights.w_out),
            b_out: b_out.as_deref(),
        };
        let (want, dropped) = experts::reference(&problem, &inputs).unwrap();
        assert_close("y", &floats(out.y), &want, rel_l2(problem.element));
        let got = integers(out.dropped_slots);
        assert_eq!(got, [dropped as i64], "dropped slots");
        Ok(())
    }
}

pub(crate) fn config() -> MoeConfig {
    MoeConfig::new(64, 96, 8)
}

pub(crate) fn relu(target: &Target) -> Result<(), Error> {
    let layer = fixture(target, config(), DType::F32);
    for tokens in [1, 2, 37, 300] {
        layer.check(target, tokens)?;
    }
    let odd = MoeConfig::new(40, 50, 3).with_router(RouteConfig::new(3));
    fixture(target, odd, DType::F32).check(target, 41)
}

pub(crate) fn gated_silu(target: &Target) -> Result<(), Error> {
    let config = config().with_gated(true).with_activation(Activation::Silu);
    fixture(target, config, DType::F32).check(target, 65)
}

pub(crate) fn gelu_with_bias(target: &Target) -> Result<(), Error> {
    let config = MoeConfig::new(33, 47, 5)
        .with_bias(true)
        .with_activation(Activation::Gelu);
    fixture(target, config, DType::F32).check(target, 70)
}

pub(crate) fn capacity(target: &Target) -> Result<(), Error> {
    for factor in [0.3, 0.75, 1.0, 10.0] {
        let capacity = Some(Capacity::new(factor, 4).unwrap());
        fixture(target, config().with_capacity(capacity), DType::F32).check(target, 100)?;
    }
    Ok(())
}

pub(crate) fn ranks_and_empty_batch(target: &Target) {
    let fixture = fixture(target, config(), DType::F32);
    let x = fixture.batch(target, 30, 4);
    let flat = floats(fixture.layer.forward(x.clone()).unwrap().y);
    let cube = x.clone().reshape([2, 3, 5, 64]);
    let cube = fixture.layer.forward(cube).unwrap().y;
    assert_eq!(cube.dims(), [2, 3, 5, 64]);
    assert_eq!(floats(cube), flat);
    // A strided view of the same values.
    let turned = x.swap_dims(0, 1).swap_dims(0, 1);
    assert_eq!(floats(fixture.layer.forward(turned).unwrap().y), flat);
    let empty = Tensor::<3>::zeros([2, 0, 64], &target.burn());
    let empty = fixture.layer.forward(empty).unwrap();
    assert_eq!(empty.y.dims(), [2, 0, 64]);
    assert_eq!(empty.routing.indices.dims(), [0, 2]);
}

pub(crate) fn half(target: &Target, dtype: DType) -> Result<(), Error> {
    supports(target, dtype)?;
    let config = config()
        .with_gated(true)
        .with_activation(Activation::Silu)
        .with_bias(true);
    fixture(target, config, dtype).check(target, 50)
}

/// Asks the plan whether the device supports the dtype: Burn would panic on an unsupported one.
pub(crate) fn supports(target: &Target, dtype: DType) -> Result<(), Error> {
    let layer = config().init(&target.burn())?;
    layer.plan(8, dtype, &target.burn()).map(drop)
}

pub(crate) fn repeats_bit_for_bit(target: &Target) {
    let fixture = fixture(target, config(), DType::F32);
    let x = || fixture.batch(target, 200, 8);
    let run = || floats(fixture.layer.forward(x()).unwrap().y);
    let first = run();
    for _ in 0..3 {
        assert!(run() == first, "two runs of the same input differ");
    }
}

/// Checks that a token's output has the same bits alone, in a small batch and in a large one.
pub(crate) fn independent_of_the_batch(target: &Target) {
    for config in [config(), MoeConfig::new(600, 40, 3)] {
        let fixture = fixture(target, config, DType::F32);
        let (x, h) = (fixture.batch(target, 300, 8), config.hidden);
        let whole = floats(fixture.layer.forward(x.clone()).unwrap().y);
        for (from, tokens) in [(0, 1), (299, 1), (17, 2), (17, 9), (30, 64), (100, 130)] {
            let part = x.clone().narrow(0, from, tokens);
            let got = floats(fixture.layer.forward(part).unwrap().y);
            let want = &whole[from * h..(from + tokens) * h];
            let what = format!("hidden {h}: tokens {from}..+{tokens}");
            assert!(got == want, "{what} differ: {got:?} instead of {want:?}");
        }
    }
}

/// Checks that device memory stays within 1.5 × the size of weights and activations, which are so large that CubeCL's 8 MiB
/// page for small buffers doesn't matter.
pub(crate) fn device_memory(target: &Target) -> Outcome {
    let awaited = || block_on(memory_in_use_async(&target.burn())).unwrap();
    let Some(client) = target.client() else {
        let told = memory(&target.burn()).unwrap();
        assert_eq!([awaited(), told.in_use, told.reserved], [None; 3]);
        return Outcome::Unsupported("no device allocator".into());
    };
    client.memory_cleanup().unwrap();
    let before = memory_in_use(&client).reserved;
    let fixture = fixture(target, MoeConfig::new(512, 2048, 8), DType::F32);
    let tokens = 1024;
    let x = fixture.batch(target, tokens, 3);
    let out = fixture.layer.forward(x).unwrap();
    target.burn().sync().unwrap();
    let held = memory_in_use(&client).reserved - before;
    let told = memory(&target.burn()).unwrap();
    let pools = memory_in_use(&client);
    assert_eq!([awaited(), told.in_use], [Some(pools.in_use); 2]);
    assert_eq!(told.reserved, Some(pools.reserved));
    let tells = memory_free(&target.burn()).is_some();
    assert_eq!(told.free.is_some(), tells);
    let plan = fixture
        .layer
        .plan(tokens, DType::F32, &target.burn())
        .unwrap()
        .unwrap();
    let floor = plan.problem.floor_bytes();
    assert!(
        held as f64 <= 1.5 * floor as f64,
        "{held} bytes held, {floor} needed"
    );
    drop(out);
    Outcome::Ran
}

pub(crate) fn warm_forward_allocates_nothing(target: &Target) {
    let client = target.client().unwrap();
    // Rows of tokens and of experts exceed CubeCL's 8 MiB page for small buffers, so that one buffer more would show.
    let (tokens, config) = (33_000, MoeConfig::new(64, 36, 4));
    let fixture = fixture(target, config, DType::F32);
    let x = fixture.batch(target, tokens, 3);
    let run = || {
        let y = fixture.layer.forward(x.clone()).unwrap().y;
        target.burn().sync().unwrap();
        y
    };
    let memory = || {
        let memory = memory_in_use(&client);
        (memory.reserved, memory.in_use)
    };
    drop(run());
    drop(run());
    let warm = memory();
    for _ in 0..3 {
        drop(run());
        assert_eq!(memory(), warm, "a warm forward took new device memory");
    }
    // The figures react to a leak: results that are held soon need new memory.
    let mut held = Vec::new();
    while memory().0 == warm.0 {
        held.push(run());
        assert!(held.len() < 64, "64 results took no memory");
    }
}

/// Counts the launches of a forward of `tokens` tokens, Burn's included, and those of our planned kernels.
fn forward_launches(target: &Target, config: MoeConfig, tokens: usize) -> [usize; 2] {
    let fixture = fixture(target, config, DType::F32);
    let planned = fixture.layer.plan(tokens, DType::F32, &target.burn());
    let planned = planned.unwrap().unwrap();
    let x = fixture.batch(target, tokens, 5);
    let launched = launched_by(|| {
        drop(fixture.layer.forward(x).unwrap());
        target.burn().sync().unwrap();
    });
    [launched.len(), planned.launches() + 2]
}

/// Counts the launches of a dense block as wide as an expert, Burn's included.
fn dense_launches(target: &Target, config: MoeConfig, tokens: usize) -> usize {
    let glam = GlamConfig {
        moe: config,
        dense_inter: config.inter,
    };
    let blocks = glam.init(1, &target.burn()).unwrap();
    let FeedForwardBlock::Dense(block) = &blocks[0] else {
        panic!("the first block is dense");
    };
    let x = random(5, [tokens, config.hidden], 1.0, &target.burn());
    // Burn initialises the weights when they are first read.
    drop(block.forward(x.clone()).unwrap());
    target.burn().sync().unwrap();
    let launched = launched_by(|| {
        drop(block.forward(x).unwrap());
        target.burn().sync().unwrap();
    });
    launched.len()
}

/// Checks the launches of a forward: router, top-k, histogram, scan, scatter, two products, combine, and no copy or cast, for
/// any batch and any number of experts. A capacity adds the capacities and the drop rule, and a second sort. A dense block is
/// two products.
pub(crate) fn launches_are_fixed(target: &Target) {
    let capacity = Some(Capacity::new(1.0, 1).unwrap());
    for (experts, tokens) in [(8, 1), (8, 64), (8, 1000), (3, 64), (20, 64)] {
        // Rows of 512 bytes: CUDA pads other rows to a multiple of 512 bytes and has them copied first.
        let config = MoeConfig::new(128, 256, experts);
        let dropless = forward_launches(target, config, tokens);
        assert_eq!(dropless, [8, 8], "{tokens} tokens, {experts} experts");
        let limited = forward_launches(target, config.with_capacity(capacity), tokens);
        assert_eq!(limited, [13, 13], "{tokens} tokens, a capacity");
        assert_eq!(dense_launches(target, config, tokens), 2, "{tokens} tokens");
    }
}

/// Counts the launches of a forward and a backward pass: ours, Burn's, and those that sum the router's gradient over blocks of
/// tokens, of which a GPU needs one only for larger batches.
fn training_launches(target: &Target, experts: usize, tokens: usize) -> [usize; 3] {
    let device = target.burn().autodiff();
    let config = MoeConfig::new(64, 96, experts).with_bias(true);
    let layer = config.init(&device).unwrap();
    let step = || {
        let x = Tensor::<2>::ones([tokens, 64], &device).require_grad();
        let gradients = layer.forward(x.clone()).unwrap().y.sum().backward();
        assert!(x.grad(&gradients).is_some());
        target.burn().sync().unwrap();
    };
    // Burn tunes its own kernels when it first meets a shape.
    step();
    let launched = launched_by(step);
    let ours = launched.iter().filter(|launch| launch.ours()).count();
    let named = |launch: &&Launch| launch.name.as_deref() == Some("router_dw_sum");
    let sums = launched.iter().filter(named).count();
    [ours - sums, launched.len() - ours, sums]
}

/// Checks that a forward and backward pass has as many launches for few experts as for many, Burn's included.
pub(crate) fn training_launches_are_fixed(target: &Target) {
    let [_, burn, _] = training_launches(target, 3, 64);
    for (experts, tokens) in [(3, 64), (8, 64), (20, 64), (8, 1), (8, 200)] {
        let [ours, others, sums] = training_launches(target, experts, tokens);
        let what = format!("{tokens} tokens, {experts} experts");
        assert_eq!([ours, others], [21, burn], "{what}");
        assert!(sums <= 1, "{what}");
    }
}

/// Checks a dense network, which needs no sort, forward and backward, with the first product kept or recomputed.
fn check_network(target: &Target, [tokens, hidden, inter]: [usize; 3]) -> Outcome {
    let problem = experts::Problem {
        routing: routing::Problem::new(tokens, 1, 1).unwrap(),
        hidden,
        inter,
        element: Element::F32,
        gated: true,
        activation: Activation::Silu,
        bias: true,
        capacity: None,
        row_bound: tokens,
        dense: true,
    };
    let forward = |keep| moebius_ops::Experts::Forward { problem, keep };
    let kept = Operation::from(forward(true));
    let mut rng = Rng::new(tokens as u64);
    let mut tensor = |len: usize| HostTensor::of_f32(&rng.vec(len, 0.3));
    let infos = kept.signature().operands;
    let lens = infos
        .iter()
        .map(|info| info.shape.iter().product::<usize>());
    let operands: Vec<HostTensor> = lens.map(&mut tensor).collect();
    let pre = kept.reference(&operands).unwrap().remove(1);
    let read = [vec![tensor(tokens * hidden)], operands.clone()].concat();
    let read_kept = [read.clone(), vec![pre]].concat();
    let backward = |pre| moebius_ops::Experts::Backward {
        problem,
        pre,
        x: true,
        weights: true,
    };
    let close = |_: &str| rel_l2(Element::F32);
    let close_back = |_: &str| gradient_rel_l2(Element::F32);
    Outcome::of([
        operation::check(target, forward(false), &operands, close),
        operation::check(target, forward(true), &operands, close),
        operation::check(target, backward(false), &read, close_back),
        operation::check(target, backward(true), &read_kept, close_back),
    ])
}

/// Checks few rows, numbers of rows around tiles, and columns that don't fill vectors.
pub(crate) fn dense_networks(target: &Target) -> Outcome {
    let sizes = [
        [65, 33, 47],
        [1, 64, 96],
        [3, 64, 96],
        [64, 64, 96],
        [130, 40, 50],
    ];
    let sizes = operation::some_of(target, sizes);
    Outcome::of(sizes.map(|sizes| check_network(target, sizes)))
}

/// A device other than the target.
fn other_device(target: &Target) -> burn::tensor::Device {
    let other = if target.name == "flex" {
        Device::Cpu
    } else {
        Device::Flex
    };
    moebius::open(&other).unwrap()
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let layer = config().init(&device).unwrap();
    let x = |hidden: usize, device: &burn::tensor::Device| Tensor::<2>::zeros([3, hidden], device);
    let error = assert_refused(ErrorKind::Shape, layer.forward(x(63, &device)));
    assert_eq!(error, "last dimension of x: expected 64, got 63");
    let elsewhere = x(64, &other_device(target));
    let error = assert_refused(ErrorKind::Device, layer.forward(elsewhere));
    assert!(error.starts_with("device of x: expected"), "{error}");
    // A record or a caller may have replaced a weight by one of another shape.
    let mut swapped = layer.clone();
    if let Experts::FeedForward(experts) = &mut swapped.experts {
        experts.w_out = Param::from_tensor(Tensor::zeros([8, 64, 95], &device)).into();
    }
    let error = swapped.forward(x(64, &device)).unwrap_err().to_string();
    let want = "w_out [E,H,F]: expected [8, 64, 96], got [8, 64, 95]";
    assert_eq!(error, want);
    let capacity = |factor| Some(Capacity { factor, min: 4 });
    let bad = [
        config().with_router(RouteConfig::new(9)),
        config().with_router(RouteConfig::new(0)),
        MoeConfig::new(0, 1, 1),
        config().with_capacity(capacity(f64::NAN)),
        config().with_capacity(capacity(-1.0)),
    ];
    for config in bad {
        let error = assert_refused(ErrorKind::Config, config.init(&device));
        assert!(error.contains("expected"), "{error}");
    }
    if target.client().is_some() && target.capability().mma.is_empty() {
        let layer = layer.with_variant(Some(Variant::TensorCore));
        assert_refused(ErrorKind::Unsupported, layer.forward(x(64, &device)));
    }
}
