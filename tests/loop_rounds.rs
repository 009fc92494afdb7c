//! Plans for devices that end the loops of an invocation after a number of rounds, as llvmpipe does after 65,535.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use moebius_device::Capability;
use moebius_ops::experts::Problem as Layer;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{Activation, Problem, bias_gradient, weight_gradient};
use moebius_ops::kv_cache::{Append, Attend, CacheFormat, Layout};
use moebius_ops::permute::Capacity;
use moebius_ops::scaling::Granularity;
use moebius_ops::{Attention, AttentionPass, Element, TableGradients};
use moebius_ops::{attention, permute, quantize, routing, segment_attention};
use moebius_profiles::{lavapipe, webgpu_default};
use moebius_shaders::grouped_gemm::{Choice, Variant, plan};
use moebius_shaders::{self as kernels, Family, PlanError, Unsupported, experts};

/// A product of four tokens, top-2 of 8 experts.
fn few() -> Problem {
    Problem::new(8, 8, 2, 4096, 1024).unwrap()
}

/// Experts of 100 tokens with a capacity.
fn layer() -> Layer {
    let capacity = Some(Capacity::new(1.25, 4).unwrap());
    let routing = routing::Problem::new(100, 8, 2).unwrap();
    let sort = permute::sorting::Problem::new(&routing, capacity, false).unwrap();
    Layer {
        routing,
        row_bound: sort.row_bound(),
        dense: false,
        hidden: 64,
        inter: 128,
        element: Element::F32,
        gated: false,
        activation: Activation::Relu,
        bias: true,
        capacity,
    }
}

/// The refusal of a plan.
fn refusal(error: PlanError) -> Unsupported {
    match error {
        PlanError::Unsupported(unsupported) => unsupported,
        PlanError::Mismatch(error) => Unsupported::new("plan", "other sizes", error),
    }
}

/// A device that plans kernels, with the number of rounds after which it ends an invocation's loops.
fn ending(device: Capability, rounds: Option<u32>) -> Capability {
    Capability {
        loop_rounds: rounds,
        ..device
    }
}

/// The plans of every family whose kernels have loops, as functions of the device.
fn plans() -> Vec<(&'static str, Plans)> {
    let routed = routing::Problem::new(300, 64, 4).unwrap();
    let grouped = routed
        .with_groups(Some(routing::Groups {
            count: 8,
            chosen: 4,
            best: 2,
        }))
        .unwrap();
    let position = routing::HashKey::Position { sequence: 100 };
    let hash = routing::HashProblem::new(routed, position).unwrap();
    let load = routing::LoadProblem::new(routed, 1).unwrap();
    let (product, dense) = (few(), Problem::dense(300, 64, 64).unwrap());
    let network = layer();
    let sorted = permute::Problem::new(8192, 64, 16).unwrap();
    let sort = permute::sorting::Problem::new(&network.routing, network.capacity, false).unwrap();
    let rows = permute::RowsProblem::new(&routed, 1200, 256, Element::F32).unwrap();
    let sizes = attention::Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries: 40,
        keys: 70,
        head_dim: 64,
        value_dim: 64,
    };
    let pairs = attention::Problem::new(sizes).unwrap();
    let tables = TableGradients {
        bias: false,
        relative: false,
        sinks: false,
    };
    let backward = Attention {
        problem: pairs,
        pass: AttentionPass::Output(tables),
    };
    let layout = Layout::new([8, 512], 2, [64, 64], CacheFormat::E4m3).unwrap();
    let cached = Attend::new(
        pairs
            .with_sizes(attention::Sizes { keys: 512, ..sizes })
            .unwrap(),
        layout,
        1,
    );
    let cached = cached.unwrap();
    let append = Append {
        layout,
        batch: 2,
        tokens: 3,
        table: 1,
        element: Element::F32,
    };
    let segments = segment_attention::Segments::new(512, 8, 1, 128).unwrap();
    let segments = segment_attention::Problem::new(segments, 4, 64).unwrap();
    let codes = quantize::Problem::new(
        [1, 64, 4096],
        Element::F32,
        Granularity::Row,
        Fp8Format::E4M3,
    );
    let codes = codes.unwrap();
    let amax = quantize::AmaxProblem::new(1 << 20, Element::F32).unwrap();
    let activation = moebius_ops::expert_activation::Problem::new(300, 8, 512).unwrap();
    let bias = moebius_ops::expert_activation::output_bias::Problem::new(300, 8, 2, 512).unwrap();
    vec![
        ("route", of(move |d| kernels::routing::plan(routed, d))),
        (
            "route in groups",
            of(move |d| kernels::routing::plan(grouped, d)),
        ),
        (
            "logits",
            of(move |d| kernels::routing::plan_logits(routed, 512, Element::F32, d)),
        ),
        (
            "logits backward",
            of(move |d| kernels::routing::plan_logits_backward(routed, 512, Element::F32, d)),
        ),
        (
            "weights",
            of(move |d| {
                kernels::routing::plan_topk_backward(routed, routing::TopkGradient::Weights, d)
            }),
        ),
        (
            "probabilities",
            of(move |d| {
                kernels::routing::plan_topk_backward(routed, routing::TopkGradient::Probs, d)
            }),
        ),
        (
            "hash",
            of(move |d| kernels::routing::plan_hash(hash, false, d)),
        ),
        ("load", of(move |d| kernels::routing::plan_load(load, d))),
        ("sort", of(move |d| kernels::permute::plan(sorted, d))),
        (
            "sort with a capacity",
            of(move |d| kernels::permute::sorting::plan(sort, 16, d)),
        ),
        ("rows", of(move |d| kernels::permute::plan_rows(rows, d))),
        ("product", of(move |d| plan(product, d, Choice::default()))),
        (
            "naive product",
            of(move |d| plan(product, d, Choice::of(Variant::Naive))),
        ),
        (
            "weight gradient",
            of(move |d| {
                let problem = weight_gradient::Problem::of(&dense);
                kernels::grouped_gemm::weight_gradient::plan(problem, d, Choice::default())
            }),
        ),
        (
            "bias gradient",
            of(move |d| {
                kernels::grouped_gemm::bias_gradient::plan(bias_gradient::Problem::of(&dense), d)
            }),
        ),
        (
            "experts",
            of(move |d| experts::plan(network, d, Choice::default())),
        ),
        (
            "training",
            of(move |d| experts::plan_training(network, Variant::Unit, d)),
        ),
        (
            "activation",
            of(move |d| kernels::expert_activation::plan(activation, d)),
        ),
        (
            "output bias",
            of(move |d| kernels::expert_activation::output_bias::plan(bias, d)),
        ),
        (
            "attention",
            of(move |d| kernels::attention::plan(pairs, None, d)),
        ),
        (
            "attention backward",
            of(move |d| backward.kernels(&None, d)),
        ),
        ("cache", of(move |d| kernels::kv_cache::plan(cached, d))),
        (
            "append",
            of(move |d| kernels::kv_cache::plan_append(append, d)),
        ),
        (
            "segments",
            of(move |d| kernels::segment_attention::plan(segments, d)),
        ),
        ("codes", of(move |d| kernels::quantize::plan(codes, d))),
        (
            "largest magnitude",
            of(move |d| kernels::quantize::plan_amax(amax, d)),
        ),
    ]
}

/// A plan for a device, or its refusal, without what was planned.
type Plans = Box<dyn Fn(&Capability) -> Result<(), PlanError>>;

fn of<T, E: Into<PlanError>>(plan: impl Fn(&Capability) -> Result<T, E> + 'static) -> Plans {
    Box::new(move |device| plan(device).map(drop).map_err(Into::into))
}

/// Whatever the number of rounds, a plan is made whose loops stay below, or refused with rounds, limit and adapter; ordinary sizes
/// fit llvmpipe's limit.
#[test]
fn loops_that_a_device_would_end_are_cut_or_refused() {
    for (name, plan) in plans() {
        for device in [webgpu_default(), lavapipe()] {
            plan(&ending(device, None)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        plan(&lavapipe()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut fits = false;
        for rounds in (1..17).map(|log| 1 << log) {
            let device = ending(lavapipe(), Some(rounds - 1));
            match plan(&device) {
                Ok(()) => fits = true,
                Err(error) => {
                    let error = refusal(error);
                    assert!(!fits, "{name}: more rounds are refused than {rounds}");
                    assert!(error.needs.contains("rounds of loops"), "{name}: {error}");
                    let limit = format!("{}, after which {} ends", rounds - 1, device.name);
                    assert!(error.have.starts_with(&limit), "{name}: {error}");
                }
            }
        }
        assert!(fits, "{name}");
        assert!(
            plan(&ending(lavapipe(), Some(1))).is_err(),
            "{name} has no loop"
        );
    }
}

/// Sizes just below and above llvmpipe's limit, counted by hand from the kernels' loops.
#[test]
fn the_limit_is_where_the_loops_say() {
    let device = lavapipe();
    // 64 vectors of a head are a loop of 65 rounds with its end; a key takes three of them and its own round, and the heads
    // of a query three more: 3 · 65 + (332 + 1) · 196 = 65,463.
    let wide = |keys| {
        let sizes = attention::Sizes {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 4,
            keys,
            head_dim: 256,
            value_dim: 256,
        };
        kernels::attention::plan(attention::Problem::new(sizes).unwrap(), None, &device)
    };
    assert!(wide(332).is_ok());
    assert!(wide(333).is_err());
    // A row, and the round that finds the end.
    let bias = |rows| {
        let dense = Problem::dense(rows, 8, 8).unwrap();
        kernels::grouped_gemm::bias_gradient::plan(bias_gradient::Problem::of(&dense), &device)
    };
    assert!(bias(65_534).is_ok());
    assert!(bias(65_535).is_err());
    // 1024 vectors of 4096 experts: three loops for the scores, and one for each choice. 3 · 1025 + (58 + 1) · 1026 = 63,609; 64
    // choices are cut into 62, which take 63 · 1026 = 64,638 rounds, and 2.
    let choices = |top_k| {
        let problem = routing::Problem::new(5, 4096, top_k).unwrap();
        let problem = problem.with_score(routing::Score::Softmax, false);
        format!("{:?}", kernels::routing::plan(problem, &device).unwrap())
    };
    assert!(choices(58).contains("choices: None"));
    assert!(choices(64).contains("choices: Some(62)"));
    // A million experts are more than one search may visit.
    let many = routing::Problem::new(5, 1 << 20, 2).unwrap();
    assert!(kernels::routing::plan(many, &device).is_err());
}
