//! The choices of `plan` on devices that no test machine has, from handwritten capabilities.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use moebius_device::{Capability, Limits};
use moebius_ops::experts::Problem as Layer;
use moebius_ops::grouped_gemm::{Activation, Problem, Source, WeightLayout};
use moebius_ops::permute::Capacity;
use moebius_ops::{Element, routing};
use moebius_profiles::{
    a100, apple_m, cpu_2core_avx512, cpu_4core_avx2, cpu_neon, h100, l4, lavapipe, mi300x, rdna4,
    swiftshader, webgpu_default,
};
use moebius_shaders::experts;
use moebius_shaders::fp8;
use moebius_shaders::grouped_gemm::{Choice, Variant, plan};
use moebius_shaders::{PlanError, Unsupported};
use std::fmt::Debug;

/// A product of 4096 tokens, top-2 of 8 experts, hidden 1024, inter 4096: the larger size of the main job.
fn many() -> Problem {
    Problem::new(8192, 8, 2, 4096, 1024).unwrap()
}

/// A product of four tokens, top-2 of 8 experts.
fn few() -> Problem {
    Problem::new(8, 8, 2, 4096, 1024).unwrap()
}

/// The refusal of a plan, which says what the device lacks.
fn refusal<T: Debug>(planned: Result<T, PlanError>) -> Unsupported {
    match planned.unwrap_err() {
        PlanError::Unsupported(unsupported) => unsupported,
        PlanError::Mismatch(error) => Unsupported::new("plan", "other sizes", error),
    }
}

fn variant(problem: Problem, device: &Capability) -> Variant {
    plan(problem, device, Choice::default()).unwrap().variant
}

fn gpus() -> Vec<Capability> {
    let software = [webgpu_default(), lavapipe(), swiftshader(), apple_m()];
    let cards = [a100(), h100(), l4(), mi300x(), rdna4()];
    software.into_iter().chain(cards).collect()
}

fn cpus() -> [Capability; 3] {
    [cpu_2core_avx512(), cpu_4core_avx2(), cpu_neon()]
}

#[test]
fn a_gpu_takes_the_tile_that_fits_the_batch() {
    for device in gpus() {
        assert_eq!(variant(many(), &device), Variant::Unit, "{}", device.name);
        assert_eq!(variant(few(), &device), Variant::Gemv, "{}", device.name);
    }
}

#[test]
fn a_cpu_takes_its_registers_and_cores() {
    let cores = cpu_neon().cpu_cores.unwrap() as usize;
    for (device, lanes, cores) in [
        (cpu_2core_avx512(), 16, 2),
        (cpu_4core_avx2(), 8, 4),
        (cpu_neon(), 4, cores),
    ] {
        let plan = plan(many(), &device, Choice::default()).unwrap();
        let got = (plan.variant, plan.lanes, plan.cores, plan.slabs.len());
        assert_eq!(got, (Variant::Cpu, lanes, cores, 1), "{}", device.name);
    }
}

/// f16 matrix instructions are available, but only chosen if the caller allows unproven variants.
#[test]
fn an_unproven_variant_is_never_the_default() {
    let half = Problem {
        element: Element::F16,
        ..many()
    };
    let allowed = Choice {
        allow_unproven: true,
        ..Choice::default()
    };
    let (unit, fragments, copies) = (Variant::Unit, Variant::TensorCore, Variant::Pipelined);
    let devices = [
        (a100(), fragments, copies),
        (l4(), fragments, copies),
        (h100(), copies, copies),
        (rdna4(), unit, fragments),
    ];
    for (device, default, best) in devices {
        assert_eq!(variant(half, &device), default, "{}", device.name);
        let plan = plan(half, &device, allowed).unwrap();
        assert_eq!(plan.variant, best, "{}", device.name);
        assert!(default.proven_on(&device));
        assert_eq!(best.proven_on(&device), best == default);
        assert_eq!(variant(many(), &device), unit, "{} in f32", device.name);
    }
    for device in [mi300x(), webgpu_default(), lavapipe()] {
        let forced = Choice {
            variant: Some(Variant::TensorCore),
            allow_unproven: true,
        };
        let refused = refusal(plan(many(), &device, forced));
        assert!(refused.needs.contains("matrix instructions"), "{refused}");
    }
}

/// Matrix instructions also read W \[E, k, n\] where its columns fill whole vectors; a gated product has no such form.
#[test]
fn weights_by_input_columns_are_planned_with_matrix_instructions_where_they_are_whole() {
    let transposed = Problem {
        element: Element::F16,
        layout: WeightLayout::InOut,
        rows: Source::Sorted,
        ..many()
    };
    let choice = |variant| Choice {
        variant,
        allow_unproven: true,
    };
    let device = h100();
    let automatic = plan(transposed, &device, choice(None)).unwrap();
    assert_eq!(automatic.variant, Variant::Pipelined);
    let ragged = Problem {
        n: transposed.n - 1,
        ..transposed
    };
    let automatic = plan(ragged, &device, choice(None)).unwrap();
    assert_eq!(automatic.variant, Variant::Unit);
    let forced = choice(Some(Variant::TensorCore));
    let error = refusal(plan(ragged, &device, forced));
    assert!(error.needs.contains("[E, k, n]"), "{error}");
    let gated = Problem {
        gated: true,
        ..transposed
    };
    for device in gpus().iter().chain(&cpus()).filter(|device| device.f16) {
        let error = refusal(plan(gated, device, choice(None)));
        assert!(error.needs.contains("gated"), "{}: {error}", device.name);
    }
}

/// Tiles and bindings follow the number of rows that a capacity leaves, not the number of slots.
#[test]
fn a_row_bound_makes_the_sorted_side_smaller() {
    let bounded = Problem {
        row_bound: 1024,
        ..many()
    };
    let device = webgpu_default();
    let [whole, part] =
        [many(), bounded].map(|problem| plan(problem, &device, Choice::default()).unwrap());
    assert!(part.max_tiles() < whole.max_tiles());
    assert_eq!(part.problem.row_bound, 1024);
    assert_eq!(part.problem.input_rows(), 4096);
    let none = Problem {
        row_bound: 0,
        ..many()
    };
    let none = plan(none, &device, Choice::default()).unwrap();
    assert_eq!(none.launches(), 0);
}

#[test]
fn a_type_the_device_lacks_is_refused_by_name() {
    for (device, element, word) in [
        (webgpu_default(), Element::F16, "f16"),
        (swiftshader(), Element::F16, "f16"),
        (apple_m(), Element::Bf16, "bf16"),
    ] {
        let problem = Problem { element, ..few() };
        let error = refusal(plan(problem, &device, Choice::default()));
        let needs = format!("{word} storage buffers");
        assert_eq!(error.needs, needs, "{}", device.name);
    }
    let half = Problem {
        element: Element::F16,
        ..few()
    };
    assert!(plan(half, &lavapipe(), Choice::default()).is_ok());
}

/// 256 MiB of weights, 8 experts of 32 MiB, in bindings of at most 128 MiB.
#[test]
fn weights_beyond_a_binding_are_split() {
    let gated = Problem {
        gated: true,
        ..many()
    };
    let device = webgpu_default();
    let plan = plan(gated, &device, Choice::default()).unwrap();
    let slabs = plan.slabs.iter().map(|slab| (slab.first, slab.last));
    assert_eq!(slabs.collect::<Vec<_>>(), [(0, 4), (4, 8)]);
    for slab in &plan.slabs {
        let bytes = u64::from(slab.last - slab.first) * gated.expert_bytes() as u64;
        assert!(bytes <= device.limits.max_binding_bytes);
    }
    // Half the bytes per element need half the slabs.
    let half = Problem {
        element: Element::F16,
        ..gated
    };
    let plan = moebius_shaders::grouped_gemm::plan(half, &lavapipe(), Choice::default());
    assert_eq!(plan.unwrap().slabs.len(), 1);
    // One expert of 140 MiB can't be divided.
    let huge = Problem::new(8, 1, 1, 8960, 4096).unwrap();
    let error = moebius_shaders::grouped_gemm::plan(huge, &device, Choice::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("weights of one expert"), "{error}");
}

#[test]
fn workgroups_stay_within_the_default_limits() {
    let limits = Limits::WEBGPU_DEFAULT;
    let gated = Problem {
        gated: true,
        bias: true,
        ..many()
    };
    for problem in [many(), few(), gated] {
        let plan = plan(problem, &webgpu_default(), Choice::default()).unwrap();
        assert!(plan.tile.units() <= limits.max_units_per_cube);
        assert!(plan.tile.shared_bytes(problem.parts()) <= limits.max_shared_memory);
        assert!(plan.max_tiles() <= limits.max_cube_count[0] as usize);
    }
    let mut small = webgpu_default();
    small.limits.max_shared_memory = 8 * 1024;
    let error = refusal(plan(many(), &small, Choice::default()));
    assert!(error.needs.contains("bytes of workgroup memory"), "{error}");
}

fn layer(tokens: usize, capacity: Option<Capacity>) -> Layer {
    let routing = routing::Problem::new(tokens, 8, 2).unwrap();
    let sort = moebius_ops::permute::sorting::Problem::new(&routing, capacity, false).unwrap();
    Layer {
        routing,
        row_bound: sort.row_bound(),
        dense: false,
        hidden: 64,
        inter: 128,
        element: Element::F32,
        gated: false,
        activation: Activation::Relu,
        bias: false,
        capacity,
    }
}

/// A layer makes six launches after routing, eleven with a capacity, on every device and for every batch; a dense network makes
/// two.
#[test]
fn a_layer_takes_the_same_launches_everywhere() {
    let capacity = Some(Capacity::new(1.25, 4).unwrap());
    for device in gpus().iter().chain(&cpus()) {
        for tokens in [1, 100, 4096] {
            let planned = |problem| experts::plan(problem, device, Choice::default());
            let launches = |problem| planned(problem).unwrap().launches();
            let network = Layer {
                routing: routing::Problem::new(tokens, 1, 1).unwrap(),
                row_bound: tokens,
                dense: true,
                ..layer(tokens, None)
            };
            let problems = [layer(tokens, None), layer(tokens, capacity), network];
            assert_eq!(problems.map(launches), [6, 11, 2], "{}", device.name);
        }
    }
}

#[test]
fn more_than_a_binding_of_activations_is_refused() {
    let device = webgpu_default();
    let wide = Layer {
        inter: 1 << 15,
        ..layer(4096, None)
    };
    let error = experts::plan(wide, &device, Choice::default()).unwrap_err();
    assert!(matches!(error, PlanError::Unsupported(_)), "{error}");
    let cast = moebius_ops::fp8::Problem::new(1 << 26, 1 << 24, moebius_ops::fp8::Fp8Format::E4M3)
        .unwrap();
    assert!(fp8::plan(cast, &device).is_err());
    assert!(fp8::plan(cast, &h100()).is_ok());
}

#[test]
fn sizes_that_make_no_sense_are_shape_errors() {
    for (slots, experts, top_k, n, k) in [
        (4, 0, 1, 8, 8),
        (4, 2, 0, 8, 8),
        (5, 2, 2, 8, 8),
        (4, 2, 1, 0, 8),
        (4, 2, 1, 8, 0),
        (4, 2, 1, 1 << 20, 1 << 20),
    ] {
        let error = Problem::new(slots, experts, top_k, n, k).unwrap_err();
        assert!(error.to_string().contains("expected"), "{error}");
    }
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Capacity::new(factor, 4).is_err());
    }
    // The capacity counts all K choices of a token, and never falls below its minimum.
    let slots = |factor, slots| Capacity::new(factor, 4).unwrap().slots_per_expert(slots, 8);
    assert_eq!([slots(1.25, 8192), slots(0.1, 16)], [1280, 4]);
}

/// A layer with a published model's experts, as its configuration gives them, and 8 choices per token.
fn model(experts: usize, hidden: usize, inter: usize, tokens: usize) -> Layer {
    let routing = routing::Problem::new(tokens, experts, 8).unwrap();
    Layer {
        routing,
        row_bound: routing.slots(),
        hidden,
        inter,
        element: Element::F16,
        gated: true,
        activation: Activation::Silu,
        ..layer(tokens, None)
    }
}

#[test]
fn qwen3_30b_a3b_is_planned() {
    let shape = |tokens| model(128, 2048, 768, tokens);
    assert_eq!(shape(4096).flops(), 2 * 3 * 4096 * 8 * 2048 * 768);
    // Weights of 1.21 GB and activations of 0.22 GB.
    let bytes = 2 * (128 * (3 * 2048 * 768 + 2048) + 2 * 4096 * 2048 + 32768 * (768 + 2048));
    assert_eq!(shape(4096).floor_bytes(), bytes);
    // A browser's GPU and a laptop's take the 805 MB of first weights as one buffer.
    for device in [swiftshader(), apple_m()] {
        let device = Capability {
            f16: true,
            ..device
        };
        for tokens in [1, 16, 4096] {
            let plan = experts::plan(shape(tokens), &device, Choice::default()).unwrap();
            assert_eq!((plan.up.slabs.len(), plan.down.slabs.len()), (1, 1));
            // The weights' gradient is f32: 1.6 GB.
            let training = experts::plan_training(shape(tokens), plan.up.variant, &device);
            let fits = device.limits.max_buffer_bytes >= 1_610_612_736;
            assert_eq!(training.is_ok(), fits);
        }
    }
    let default = Capability {
        f16: true,
        ..webgpu_default()
    };
    let refused = experts::plan(shape(1), &default, Choice::default()).unwrap_err();
    assert!(refused.to_string().contains("805306368 bytes"), "{refused}");
}

#[test]
fn deepseek_v3_is_planned() {
    let shape = |tokens| model(256, 7168, 2048, tokens);
    for device in [h100(), mi300x()] {
        for tokens in [1, 64, 4096] {
            let plan = experts::plan(shape(tokens), &device, Choice::default()).unwrap();
            assert_eq!((plan.up.slabs.len(), plan.down.slabs.len()), slabs(&device));
        }
    }
    let device = mi300x();
    let plan = experts::plan(shape(4096), &device, Choice::default()).unwrap();
    experts::plan_training(shape(4096), plan.up.variant, &device).unwrap();
    // The first weights have 15 GB.
    let refused = experts::plan(shape(1), &l4(), Choice::default()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("15032385536 bytes"), "{refused}");
}

/// The numbers of slabs of DeepSeek-V3's weights on a device: a slab has as many experts as a binding and 31 bits hold.
fn slabs(device: &Capability) -> (usize, usize) {
    let of = |elements: u64| {
        let bytes = device.limits.max_binding_bytes / (2 * elements);
        let per_slab = bytes.min(i32::MAX as u64 / elements).min(256);
        256u64.div_ceil(per_slab) as usize
    };
    (of(2 * 2048 * 7168), of(2048 * 7168))
}
