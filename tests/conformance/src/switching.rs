//! Experts that move to the device when they are needed: the same bits as a resident layer, within the memory budget.

use crate::fp8_linear::{BLOCK, e4m3};
use crate::moe_layer::supports;
use crate::tensors::{floats, integers, mask, random, tensor};
use burn::tensor::{DType, Tensor, TensorData};
use moebius::fp8::{Activations, Fp8Conversion, Granularity};
use moebius::moe::switching::{ExpertSource, HostExpert, HostLayer, SwitchedExperts};
use moebius::moe::{
    Activation, Capacity, ExpertChoiceConfig, ExpertKind, Experts, MoeConfig, MoeLayer,
    RouteConfig, RouterConfig, SharedExpertConfig,
};
use moebius::{Error, ErrorKind};
use moebius_device::memory_in_use;
use moebius_tests::gradients::{filled, with_values};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn batch(target: &Target, [tokens, hidden]: [usize; 2], seed: u64) -> Tensor<2> {
    random(seed, [tokens, hidden], 1.5, &target.burn())
}

fn layer(target: &Target, config: MoeConfig) -> MoeLayer {
    filled(config.init(&target.burn()).unwrap(), 9, 0.4)
}

/// The bytes of one expert.
fn expert_bytes(config: &MoeConfig) -> u64 {
    let columns = config.inter * if config.gated { 2 } else { 1 };
    let biases = if config.bias {
        columns + config.hidden
    } else {
        0
    };
    4 * (config.hidden * (columns + config.inter) + biases) as u64
}

fn switched(target: &Target, layer: &MoeLayer, places: usize) -> SwitchedExperts {
    let budget = expert_bytes(layer.config()) * (places as u64 + 1);
    let host = HostLayer::read(layer.clone()).unwrap();
    let switched = host.switched(budget, &target.burn()).unwrap();
    assert_eq!(switched.cache().places(), places);
    let bytes = expert_bytes(layer.config()) * places as u64;
    assert_eq!(switched.cache().device_bytes(), bytes);
    switched
}

pub(crate) fn same_bits_as_in_memory(target: &Target) {
    let config = MoeConfig::new(20, 24, 8).with_activation(Activation::Gelu);
    let shared = SharedExpertConfig::new(12).with_sigmoid_gate(true);
    let choosing = RouterConfig::ExpertChoice(ExpertChoiceConfig::default());
    let configs = [
        config,
        config
            .with_bias(true)
            .with_gated(true)
            .with_router(RouteConfig::new(3)),
        config.with_capacity(Some(Capacity::new(0.6, 1).unwrap())),
        config.with_shared(Some(shared)),
        config.with_router(choosing),
        MoeConfig::adaptive(20, 24, 8),
    ];
    for config in configs {
        let layer = layer(target, config);
        for places in [1, 3, 8] {
            let mut switched = switched(target, &layer, places);
            for (seed, tokens) in [(1, 40), (2, 1), (3, 5), (4, 40)] {
                let x = batch(target, [tokens, 20], seed);
                let want = layer.forward(x.clone()).unwrap();
                let got = switched.forward(x).unwrap();
                let what = format!("{places} places, {config:?}");
                target.assert_same_rows(&what, &floats(got.y), &floats(want.y));
                let (got, want) = (got.dropped_slots, want.dropped_slots);
                assert_eq!(integers(got), integers(want));
            }
        }
    }
}

/// Checks that experts of FP8 codes take the bytes of codes and scales alone, on the host and on the device, and compute what they compute
/// when all of them are on the device, with rounded activations, too.
pub(crate) fn fp8_same_bits_as_in_memory(target: &Target) {
    let config = MoeConfig::new(20, 24, 8).with_activation(Activation::Gelu);
    let gated = config.with_gated(true).with_bias(true);
    let shared = config.with_shared(Some(SharedExpertConfig::new(12)));
    let rows = Activations::Dynamic(Granularity::Row);
    for (config, granularity, activations) in [
        (config, Granularity::Row, Activations::Float),
        (gated.with_router(RouteConfig::new(3)), BLOCK, rows),
        (shared, Granularity::Mx, Activations::Float),
    ] {
        let conversion = Fp8Conversion::new(e4m3(granularity)).with_activations(activations);
        let float = layer(target, config);
        let (layer, _) = conversion.convert(float, &target.burn()).unwrap();
        let Experts::FeedForward(stack) = &layer.experts else {
            panic!("they are feed-forward");
        };
        let all = stack.bytes() as u64;
        for places in [1, 3, 8] {
            let host = HostLayer::read(layer.clone()).unwrap();
            assert_eq!(host.experts.iter().map(HostExpert::bytes).sum::<u64>(), all);
            let budget = all / 8 * (places as u64 + 1);
            let mut switched = host.switched(budget, &target.burn()).unwrap();
            assert_eq!(switched.cache().places(), places);
            assert_eq!(switched.cache().device_bytes(), all / 8 * places as u64);
            for (seed, tokens) in [(1, 40), (2, 1), (3, 5), (4, 40)] {
                let x = batch(target, [tokens, 20], seed);
                let want = floats(layer.forward(x.clone()).unwrap().y);
                let got = floats(switched.forward(x).unwrap().y);
                let what = format!("{places} places, {granularity:?}, {config:?}");
                target.assert_same_rows(&what, &got, &want);
            }
            let statistics = switched.cache().statistics();
            assert_eq!(statistics.moved_bytes, statistics.misses * (all / 8));
        }
    }
}

pub(crate) fn fp8_refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let float = layer(target, MoeConfig::new(20, 24, 8));
    let conversion = Fp8Conversion::new(e4m3(Granularity::Row));
    let (coded, _) = conversion.convert(float.clone(), &device).unwrap();
    let host = HostLayer::read(coded.clone()).unwrap();
    let bytes = host.experts[0].bytes();
    let refused = |host: HostLayer, budget, kind| {
        assert_refused(kind, host.switched(budget, &device));
    };
    refused(host.clone(), 2 * bytes - 1, ErrorKind::Config);
    // Values among codes, and codes of another shape.
    let mut mixed = host.clone();
    mixed.experts[3] = HostLayer::read(float.clone()).unwrap().experts[3].clone();
    refused(mixed, 4 * bytes, ErrorKind::Shape);
    let mut turned = host.clone();
    turned.experts[3].w_out = turned.experts[3].w_in.clone();
    refused(turned, 4 * bytes, ErrorKind::Shape);
    // Only one of the two weights as codes, and activations whose scale follows the batches.
    let mut half = float.clone();
    let (Experts::FeedForward(experts), Experts::FeedForward(codes)) =
        (&mut half.experts, &coded.experts)
    else {
        panic!("they are feed-forward");
    };
    experts.w_in = codes.w_in.clone();
    assert_refused(ErrorKind::Unsupported, HostLayer::read(half));
    let delayed = conversion.with_activations(Activations::Delayed { history: 4 });
    let (delayed, _) = delayed.convert(float, &device).unwrap();
    assert_refused(ErrorKind::Unsupported, HostLayer::read(delayed));
}

/// Tokens that each choose one of `experts`, in this order: the router's weights are the identity.
fn wanting(target: &Target, experts: &[usize]) -> Tensor<2> {
    let mut values = vec![0.0; experts.len() * 8];
    for (t, e) in experts.iter().enumerate() {
        values[t * 8 + e] = 3.0;
    }
    tensor(&values, [experts.len(), 8], &target.burn())
}

fn one_hot_layer(target: &Target) -> MoeLayer {
    let config = MoeConfig::new(8, 16, 8).with_router(RouteConfig::new(1));
    let layer = layer(target, config);
    let mut identity = vec![0.0; 64];
    identity.iter_mut().step_by(9).for_each(|v| *v = 1.0);
    with_values(layer, "router.TopK.weight", &identity)
}

pub(crate) fn cold_experts_go_and_come_back(target: &Target) {
    let layer = one_hot_layer(target);
    let mut switched = switched(target, &layer, 2);
    let bytes = expert_bytes(layer.config());
    // For each step: the experts that a batch chooses, the experts on the device after it, and the hits, misses and evictions
    // so far.
    let steps: [(&[usize], [usize; 2], [u64; 3]); 7] = [
        (&[0, 1], [0, 1], [0, 2, 0]),
        (&[1, 1], [0, 1], [1, 2, 0]),
        // Expert 0 was used before expert 1, so expert 0 is evicted.
        (&[2], [2, 1], [1, 3, 1]),
        // Expert 0 returns in the place of expert 1.
        (&[0], [2, 0], [1, 4, 2]),
        (&[2, 0], [2, 0], [3, 4, 2]),
        // Five experts share two places: first 0 and 2, which are there; then 1 and 3 in their places; then 4 in the place of 1.
        (&[0, 1, 2, 3, 4], [3, 4], [5, 7, 5]),
        (&[3], [3, 4], [6, 7, 5]),
    ];
    for (wanted, residents, [hits, misses, evictions]) in steps {
        let x = wanting(target, wanted);
        let got = switched.forward(x.clone()).unwrap();
        let wanted: Vec<i64> = wanted.iter().map(|e| *e as i64).collect();
        assert_eq!(integers(got.routing.indices), wanted);
        let want = floats(layer.forward(x).unwrap().y);
        target.assert_same_rows("switched", &floats(got.y), &want);
        let cache = switched.cache();
        assert_eq!(cache.residents(), residents.map(Some), "{wanted:?}");
        let statistics = cache.statistics();
        let counted = [statistics.hits, statistics.misses, statistics.evictions];
        assert_eq!(counted, [hits, misses, evictions], "{wanted:?}");
        assert_eq!(statistics.moved_bytes, misses * bytes);
    }
}

/// A source of experts that notes what it is told, and can't read one of them.
#[derive(Debug)]
struct Noted {
    experts: Vec<HostExpert>,
    lost: AtomicUsize,
    read: Mutex<Vec<usize>>,
    expected: Mutex<Vec<usize>>,
}

impl ExpertSource for Noted {
    fn blank(&self) -> Result<HostExpert, Error> {
        Ok(self.experts[0].clone())
    }

    fn read(&self, expert: usize) -> Result<HostExpert, Error> {
        self.read.lock().unwrap().push(expert);
        if expert == self.lost.load(Ordering::Relaxed) {
            return Err(Error::unread(io::Error::other("the drive was taken out")));
        }
        Ok(self.experts[expert].clone())
    }

    fn expect(&self, experts: &[usize]) {
        self.expected.lock().unwrap().extend(experts);
    }

    fn bytes_of_each(&self) -> u64 {
        7
    }
}

/// Checks that experts of a source are read when a batch needs them and not before, that the source hears of them first, and that one that can't
/// be read, or isn't like the others, is an error of this batch alone.
pub(crate) fn experts_of_a_source(target: &Target) {
    let layer = one_hot_layer(target);
    let device = target.burn();
    let mut experts = HostLayer::read(layer.clone()).unwrap().experts;
    experts[6].w_out = TensorData::new(vec![0.0f32; 8 * 15], [8, 15]).into();
    let source = Arc::new(Noted {
        experts,
        lost: AtomicUsize::new(5),
        read: Mutex::default(),
        expected: Mutex::default(),
    });
    let taken = |notes: &Mutex<Vec<usize>>| std::mem::take(&mut *notes.lock().unwrap());
    let host = HostLayer::in_files(layer.clone(), source.clone(), &device);
    let budget = 3 * expert_bytes(layer.config());
    let mut switched = host.switched(budget, &device).unwrap();
    assert!(taken(&source.read).is_empty());
    let right = |switched: &mut SwitchedExperts, wanted: &[usize]| {
        let x = wanting(target, wanted);
        let want = floats(layer.forward(x.clone()).unwrap().y);
        let got = floats(switched.forward(x).unwrap().y);
        target.assert_same_rows("of a source", &got, &want);
    };
    let steps: [(&[usize], &[usize]); 4] = [
        (&[0, 1], &[0, 1]),
        (&[1, 1], &[]),
        (&[2], &[2]),
        (&[0], &[0]),
    ];
    for (wanted, read) in steps {
        right(&mut switched, wanted);
        assert_eq!(taken(&source.read), read);
        assert_eq!(taken(&source.expected), read);
    }
    // Expert 0 is on the device, and two tokens want expert 3.
    switched
        .expect(wanting(target, &[0, 4, 3, 3, 5]), 2)
        .unwrap();
    assert_eq!(taken(&source.expected), [3, 4]);
    assert!(taken(&source.read).is_empty());

    let said = assert_refused(ErrorKind::Read, switched.forward(wanting(target, &[5])));
    assert!(said.contains("taken out"), "{said}");
    assert_refused(ErrorKind::Shape, switched.forward(wanting(target, &[6])));
    source.lost.store(8, Ordering::Relaxed);
    right(&mut switched, &[5, 0, 2]);
    let statistics = switched.cache().statistics();
    assert!(statistics.misses >= 6, "{statistics:?}");
    assert_eq!(statistics.read_bytes, 7 * statistics.misses);
}

pub(crate) fn masks_and_empty_batches(target: &Target) {
    let layer = layer(target, MoeConfig::new(20, 24, 8));
    let mut switched = switched(target, &layer, 2);
    let available = [false, true, false, false, true, false, true, false];
    let some = mask(&available, &target.burn());
    let x = batch(target, [30, 20], 5).reshape([5, 6, 20]);
    let got = switched.forward_masked(x.clone(), some.clone()).unwrap().y;
    assert_eq!(got.dims(), [5, 6, 20]);
    let want = floats(layer.forward_masked(x.clone(), some).unwrap().y);
    target.assert_same_rows("masked", &floats(got), &want);
    assert_eq!(switched.cache().statistics().misses, 3);
    // With no expert available, nothing is moved and y is 0.
    let none = mask(&[false; 8], &target.burn());
    let got = switched.forward_masked(x, none).unwrap();
    assert!(floats(got.y).iter().all(|y| *y == 0.0));
    let empty = switched.forward(Tensor::<2>::zeros([0, 20], &target.burn()));
    assert_eq!(empty.unwrap().y.dims(), [0, 20]);
    assert_eq!(switched.cache().statistics().misses, 3);
}

pub(crate) fn half(target: &Target, dtype: DType) -> Result<(), Error> {
    supports(target, dtype)?;
    let layer = layer(target, MoeConfig::new(20, 24, 8));
    let layer = layer.cast(dtype).unwrap();
    let host = HostLayer::read(layer.clone()).unwrap();
    let budget = expert_bytes(layer.config()) / 2 * 4;
    let mut switched = host.switched(budget, &target.burn()).unwrap();
    assert_eq!(switched.cache().places(), 3);
    let x = batch(target, [30, 20], 6).cast(dtype);
    let got = floats(switched.forward(x.clone()).unwrap().y);
    let want = floats(layer.forward(x).unwrap().y);
    // On Flex each slot's output is rounded here, but not in a layer with all experts on the device.
    let tolerance = if target.client().is_some() { 0.0 } else { 1e-2 };
    for (got, want) in got.iter().zip(&want) {
        let close = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(close, "{got} {want}");
    }
    Ok(())
}

/// Checks that experts that take turns on the device stay within the budget of live bytes, and that CubeCL reserves much less
/// than for all experts.
pub(crate) fn device_memory(target: &Target) {
    let client = target.client().unwrap();
    // Free memory from earlier cases would hide what this case takes.
    client.memory_cleanup().unwrap();
    let config = MoeConfig::new(512, 1024, 16).with_router(RouteConfig::new(1));
    let layer = layer(target, config);
    drop(layer.forward(batch(target, [64, 512], 0)).unwrap());
    target.burn().sync().unwrap();
    let whole = memory_in_use(&client);
    let host = HostLayer::read(layer).unwrap();
    target.burn().sync().unwrap();
    client.memory_cleanup().unwrap();
    let before = memory_in_use(&client);
    // An expert has 4 MiB: the budget holds five in place and one in transfer. The 64 MiB of all sixteen were freed above.
    let budget = 6 * expert_bytes(&config);
    assert!(whole.in_use - before.in_use > 15 * expert_bytes(&config));
    let mut switched = host.switched(budget, &target.burn()).unwrap();
    for seed in 0..6 {
        drop(switched.forward(batch(target, [64, 512], seed)).unwrap());
        target.burn().sync().unwrap();
        let now = memory_in_use(&client);
        let held = now.in_use - before.in_use;
        assert!(held <= budget, "{held} bytes held, {budget} allowed");
        // Ten of the sixteen experts aren't on the device. CubeCL frees only whole pages, so at least seven experts' bytes must
        // be free.
        let (held, all) = (now.reserved, whole.reserved);
        let freed = 7 * expert_bytes(&config);
        assert!(held + freed <= all, "{held} bytes reserved, {all} for all");
    }
    let statistics = switched.cache().statistics();
    assert!(statistics.evictions > 16, "{statistics:?}");
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let layer = layer(target, MoeConfig::new(20, 24, 8));
    let bytes = expert_bytes(layer.config());
    let host = HostLayer::read(layer.clone()).unwrap();
    let refused = |host: &HostLayer, budget, device, kind| {
        assert_refused(kind, host.clone().switched(budget, device));
    };
    refused(&host, 2 * bytes - 1, &device, ErrorKind::Config);
    let recording = device.clone().autodiff();
    refused(&host, 4 * bytes, &recording, ErrorKind::Device);
    let mut short = host.clone();
    short.experts.pop();
    refused(&short, 4 * bytes, &device, ErrorKind::Shape);
    let mut wrong = host.clone();
    wrong.experts[3].w_out = TensorData::new(vec![0.0f32; 24 * 20], [24, 20]).into();
    refused(&wrong, 4 * bytes, &device, ErrorKind::Shape);
    let attention = MoeConfig::new(20, 24, 8).with_kind(ExpertKind::Attention {
        heads: 2,
        causal: false,
    });
    let attention = attention.init(&device).unwrap();
    assert_refused(ErrorKind::Unsupported, HostLayer::read(attention));
    let mut switched = host.switched(4 * bytes, &device).unwrap();
    let wide = Tensor::<2>::zeros([3, 21], &device);
    assert_refused(ErrorKind::Shape, switched.forward(wide));
}
