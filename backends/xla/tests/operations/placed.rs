//! Tests of operations over several devices: they give what the reference gives, and each device has and computes its own
//! experts only.

use crate::attention;
use crate::cpu::Cpu;
use crate::experts::{Batch, call, dealt, network, problem, sorted};
use crate::grouped_gemm::{dense, gradient_inputs, inputs, inputs_in_blocks, routed};
use crate::run::{Host, compare, f32s, floats, i32s, noise, of_largest, type_of};
use moebius_ops::attention::{Pattern, Rule, Sizes};
use moebius_ops::blocks::BlockFormat;
use moebius_ops::experts::Problem;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{self, Activation, Source, Stored};
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::scaling::Granularity;
use moebius_ops::{Experts, GroupedGemm, Operation, Routing, TensorInfo};
use moebius_pjrt::ElementType::{self, BF16, F32};
use moebius_pjrt::{TensorType, Value as Setting};
use moebius_xla::custom::{self, CallError};
use moebius_xla::stablehlo::{Axis, Builder, Mesh, Program, Value};
use std::sync::OnceLock;

const DEVICES: usize = 4;

/// Four devices as places of experts and of data.
fn meshes() -> [Mesh; 3] {
    [[4, 1], [2, 2], [1, 4]].map(|[experts, data]| Mesh::new(experts, data).unwrap())
}

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(&[("cpu_device_count", Setting::Int(DEVICES as i64))]))
}

/// What lies in parts on the places of experts, if an operation has several experts.
const STACKS: [&str; 14] = [
    "w_in", "w_out", "b_in", "b_out", "W", "b", "codes", "scales", "dw_in", "dw_out", "db_in",
    "db_out", "dW", "db",
];

/// An operation over several devices.
struct Placed {
    mesh: Mesh,
    program: Program,
    /// Whether each operand and each result is divided.
    divided: [Vec<bool>; 2],
}

impl Placed {
    /// The program of an operation; `stacks` says whether it has several experts.
    fn new(mesh: Mesh, operation: &Operation, stacks: bool) -> Result<Self, CallError> {
        let signature = operation.signature();
        let divided = |all: &[TensorInfo]| -> Vec<bool> {
            let all = all.iter();
            all.map(|info| stacks && STACKS.contains(&info.name))
                .collect()
        };
        let divided = [&signature.operands, &signature.results].map(|all| divided(all));
        let b = Builder::placed(mesh);
        let arguments = signature.operands.iter().zip(&divided[0]);
        let arguments = arguments.map(|(info, divided)| b.argument_of(type_of(info), *divided));
        let arguments: Vec<Value> = arguments.collect();
        let results = custom::lower(operation, &b, &arguments)?;
        Ok(Self {
            mesh,
            program: b.finish_divided(&results, &divided[1]),
            divided,
        })
    }

    /// The results for operands that are given whole. A result that isn't divided must be the same on all devices.
    fn run(&self, inputs: &[Host]) -> Vec<Host> {
        let of_device = |device: usize| -> Vec<Vec<u8>> {
            let place = self.mesh.place(Axis::Experts, device);
            let inputs = inputs.iter().zip(&self.divided[0]);
            let part = |(host, divided): (&Host, &bool)| {
                let size = host.bytes.len() / self.mesh.places(Axis::Experts);
                if *divided {
                    host.bytes[place * size..][..size].to_vec()
                } else {
                    host.bytes.clone()
                }
            };
            inputs.map(part).collect()
        };
        let arguments: Vec<Vec<Vec<u8>>> = (0..DEVICES).map(of_device).collect();
        let results = cpu().execute(&self.program, &arguments);
        let results = results.unwrap_or_else(|error| panic!("{error}\n{}", self.program.text));
        let types = self.program.outputs.iter().zip(&self.divided[1]);
        let joined = |(at, (ty, divided)): (usize, (&TensorType, &bool))| {
            let mut host = Host {
                ty: ty.clone(),
                bytes: results[0][at].clone(),
            };
            for (device, results) in results.iter().enumerate().skip(1) {
                let [experts, data] =
                    [Axis::Experts, Axis::Data].map(|axis| self.mesh.place(axis, device));
                if !divided {
                    assert!(results[at] == host.bytes, "result {at} of device {device}");
                } else if data == 0 {
                    host.bytes.extend(&results[at]);
                    host.ty.shape[0] = ty.shape[0] * (experts + 1);
                }
            }
            host
        };
        types.enumerate().map(joined).collect()
    }
}

/// Runs an operation over all meshes and compares its results with the reference's.
fn check(
    operation: impl Into<Operation>,
    stacks: bool,
    inputs: &[Host],
    tolerance: impl Fn(&[f64]) -> f64,
) {
    let operation = operation.into();
    for mesh in meshes() {
        let placed = Placed::new(mesh, &operation, stacks).unwrap();
        println!("{mesh:?}");
        compare(&operation, inputs, &placed.run(inputs), &tolerance);
    }
}

fn both_passes(p: Problem, of: ElementType, keys: &[usize], tolerance: f64) {
    let batch = Batch::new(p, of, keys);
    let (stacks, problem) = (!p.dense, batch.p);
    let forward = Experts::Forward {
        problem,
        keep: false,
    };
    check(forward, stacks, &batch.inputs(), of_largest(tolerance));
    let shape = [p.routing.tokens(), p.hidden];
    let dy = floats(of, &shape, &noise(shape[0] * shape[1], 7));
    let (backward, inputs) = call(&batch, &dy, None, [true, true]);
    check(backward, stacks, &inputs, of_largest(2.0 * tolerance));
}

#[test]
fn experts_are_divided() {
    // 48 slots, of which 12 have no expert; one expert has none.
    let keys = dealt(48, &[20, 0, 11, 5]);
    let plain = problem(24, 2, 4);
    let gated = Problem {
        gated: true,
        bias: true,
        activation: Activation::Clamped,
        ..plain
    };
    both_passes(plain, F32, &keys, 2e-5);
    both_passes(gated, F32, &keys, 2e-5);
    both_passes(gated, BF16, &keys, 2e-2);
    // All tokens choose one expert, and none any.
    both_passes(plain, F32, &dealt(48, &[0, 0, 0, 48]), 2e-5);
    both_passes(plain, F32, &dealt(48, &[0; 4]), 2e-5);
}

/// No place divides 15 tokens, so that all devices have all of them.
#[test]
fn any_number_of_tokens_is_computed() {
    let keys = dealt(45, &[9, 1, 4, 0, 11, 2, 10, 5]);
    both_passes(problem(15, 3, 8), F32, &keys, 2e-5);
    both_passes(problem(1, 2, 4), F32, &[3, 0], 2e-5);
    both_passes(problem(0, 2, 4), F32, &[], 2e-5);
}

#[test]
fn rows_of_dense_networks_are_divided() {
    for tokens in [16, 15] {
        both_passes(network(tokens), F32, &[], 2e-5);
    }
}

#[test]
fn products_per_expert_are_divided() {
    let loads = [30, 0, 7, 3];
    let offsets = i32s(&[5], &[0, 30, 30, 37, 40]);
    let p = grouped_gemm::Problem {
        rows: Source::Sorted,
        bias: true,
        ..grouped_gemm::Problem::new(44, 4, 1, 12, 20).unwrap()
    };
    let used: usize = loads.iter().sum();
    // The last rows have no expert and may hold anything.
    let mut values = noise(44 * 20, 1);
    values[used * 20..].fill(f32::NAN);
    let (x, w) = (f32s(&[44, 20], &values), f32s(&[4, 12, 20], &noise(960, 2)));
    let bias = f32s(&[4, 12], &noise(48, 3));
    let inputs = [x.clone(), w.clone(), offsets.clone(), bias];
    check(GroupedGemm::Linear(p), true, &inputs, |_| 2e-5);
    let mut values = noise(44 * 12, 4);
    values[used * 12..].fill(f32::NAN);
    let backward = GroupedGemm::LinearBackward {
        problem: p,
        rows: true,
        w: true,
        bias: true,
    };
    let inputs = [f32s(&[44, 12], &values), x, w, offsets];
    check(backward, true, &inputs, |_| 2e-5);
}

#[test]
fn codes_and_scales_are_divided() {
    let keys = dealt(26, &[9, 0, 7, 5]);
    for granularity in [Granularity::Row, Granularity::Mx] {
        let p = dense(26, [70, 36], granularity, Fp8Format::E4M3);
        let x = |rows: usize| f32s(&[rows, 36], &noise(rows * 36, 2));
        let product = GroupedGemm::CodedLinear(p);
        check(product, false, &inputs(&p, x(26), None), of_largest(1e-5));
        let dy = || f32s(&[26, 70], &noise(26 * 70, 3));
        let backward = |problem| GroupedGemm::CodedLinearBackward {
            problem,
            x: true,
            bias: true,
        };
        let of_all = gradient_inputs(&p, dy(), None);
        check(backward(p), false, &of_all, of_largest(1e-5));
        let sort = sorted(&keys, 4);
        let sorted_rows = routed(p, 26, [4, 1], Source::Sorted);
        let of_experts = gradient_inputs(&sorted_rows, dy(), Some(&sort));
        check(backward(sorted_rows), true, &of_experts, of_largest(1e-5));
        let p = routed(p, 26, [4, 2], Source::Tokens);
        let inputs = inputs(&p, x(13), Some(&sort));
        check(GroupedGemm::CodedLinear(p), true, &inputs, of_largest(1e-5));
    }
}

#[test]
fn blocks_of_codes_are_divided() {
    let sort = sorted(&dealt(26, &[9, 0, 7, 5]), 4);
    for format in [BlockFormat::Mxfp4, BlockFormat::Q4K] {
        let p = grouped_gemm::Problem {
            stored: Stored::Blocks(format),
            ..grouped_gemm::Problem::dense(26, 70, 256).unwrap()
        };
        let product = GroupedGemm::CodedLinear(p);
        let whole = inputs_in_blocks(&p, format, None);
        check(product, false, &whole, of_largest(1e-5));
        let p = grouped_gemm::Problem {
            gated: true,
            activation: Some(Activation::Silu),
            bias: true,
            ..routed(p, 26, [4, 2], Source::Tokens)
        };
        let product = GroupedGemm::CodedLinear(p);
        let stacks = inputs_in_blocks(&p, format, Some(&sort));
        check(product, true, &stacks, of_largest(1e-5));
    }
}

#[test]
fn tokens_are_routed_where_they_are() {
    for tokens in [16, 15] {
        let problem = routing::Problem::new(tokens, 6, 2).unwrap();
        let logits = |backward| Routing::Logits {
            problem,
            hidden: 12,
            element: moebius_ops::Element::F32,
            backward,
        };
        let x = f32s(&[tokens, 12], &noise(tokens * 12, 1));
        let w = f32s(&[6, 12], &noise(72, 2));
        let of_tokens = f32s(&[tokens, 6], &noise(tokens * 6, 3));
        check(logits(false), false, &[x.clone(), w.clone()], |_| 1e-5);
        let inputs = [x, w, of_tokens.clone()];
        check(logits(true), false, &inputs, |_| 1e-5);
        let mask = i32s(&[6], &[1, 1, 0, 1, 1, 1]);
        let route = Routing::Route {
            problem,
            mask: true,
            bias: true,
        };
        let inputs = [of_tokens.clone(), mask.clone(), f32s(&[6], &noise(6, 4))];
        check(route, false, &inputs, |_| 2e-6);
        let chosen = crate::run::run(route, &inputs);
        let backward = Routing::RouteBackward {
            problem,
            mask: true,
            of: TopkGradient::Weights,
        };
        let dweights = f32s(&[tokens, 2], &noise(tokens * 2, 5));
        let inputs = [&[dweights, of_tokens, mask], chosen.as_slice()].concat();
        check(backward, false, &inputs, |_| 1e-5);
    }
}

/// Tables may belong to a sequence or to all of them; their gradients are sums over the sequences then.
#[test]
fn sequences_are_attended_where_they_are() {
    let sizes = |batch| Sizes {
        batch,
        heads: 2,
        kv_heads: 1,
        queries: 9,
        keys: 9,
        head_dim: 5,
        value_dim: 3,
    };
    let table = |batch| Pattern {
        batch,
        heads: false,
    };
    let rules = [
        vec![Rule::Causal, Rule::Relative(3)],
        vec![Rule::Mask(table(true)), Rule::Bias(table(false))],
        vec![Rule::Mask(table(false)), Rule::Bias(table(true))],
        vec![Rule::Documents, Rule::Alibi],
    ];
    for rules in rules {
        for batch in [4, 3] {
            let problem = attention::problem(sizes(batch), &rules).with_sinks(true);
            attended(problem);
        }
    }
    attended(attention::problem(sizes(4), &[]).with_dropout(true));
}

/// Checks the forward pass of an attention, and the backward pass through o on its results.
fn attended(problem: moebius_ops::attention::Problem) {
    let [forward, backward, _] = attention::passes(&problem);
    let host =
        |(at, info): (usize, &TensorInfo)| Host::of(info, &attention::tensor(info, at as u64));
    let described = forward.signature();
    let inputs: Vec<Host> = described.operands.iter().enumerate().map(host).collect();
    check(forward.clone(), false, &inputs, of_largest(2e-5));
    let made = crate::run::run(forward, &inputs);
    let given: Vec<(&str, Host)> = described
        .operands
        .iter()
        .map(|info| info.name)
        .zip(inputs)
        .chain(described.results.iter().map(|info| info.name).zip(made))
        .collect();
    let operands = backward.signature().operands.into_iter().enumerate();
    let operands = operands.map(|(at, info)| {
        let known = given.iter().find(|(name, _)| *name == info.name);
        known.map_or_else(|| host((at + 20, &info)), |(_, host)| host.clone())
    });
    check(
        backward,
        false,
        &operands.collect::<Vec<_>>(),
        of_largest(2e-4),
    );
}

#[test]
fn what_devices_cannot_share_is_refused() {
    let [four, ..] = meshes();
    let refused = |operation: Experts, mesh| {
        let refused = Placed::new(mesh, &operation.into(), true);
        refused.err().unwrap().to_string()
    };
    let forward = |experts, keep| Experts::Forward {
        problem: problem(8, 1, experts),
        keep,
    };
    assert_eq!(
        refused(forward(6, false), four),
        "experts: expected a multiple of 4 places, got 6"
    );
    assert_eq!(
        refused(forward(4, true), four),
        "experts over several devices expected the first product to be computed again, got it kept"
    );
}

/// Whether the compiled program has an operation of this name.
fn has(placed: &Placed, name: &str) -> bool {
    let compiled = cpu().compile(&placed.program, DEVICES).unwrap();
    let optimized = compiled.executable().optimized().unwrap();
    let mut windows = optimized.code.windows(name.len());
    windows.any(|at| at == name.as_bytes())
}

/// The weights of sixteen experts are 4 MiB on each of four places. A device has its part of them in memory and never the
/// whole, and what travels along `experts` are sums.
#[test]
fn no_device_gathers_the_experts() {
    let large = Problem {
        hidden: 256,
        inter: 512,
        ..problem(8, 2, 16)
    };
    let stacks = 2 * 16 * 256 * 512 * 4;
    let passes: [Operation; 2] = [
        Experts::Forward {
            problem: large,
            keep: false,
        }
        .into(),
        Experts::Backward {
            problem: large,
            pre: false,
            x: true,
            weights: true,
        }
        .into(),
    ];
    let [four, ..] = meshes();
    for operation in passes {
        let placed = Placed::new(four, &operation, true).unwrap();
        let compiled = cpu().compile(&placed.program, DEVICES).unwrap();
        let memory = compiled.executable().memory().unwrap();
        let types = placed.program.inputs.iter();
        let arguments: usize = types.map(TensorType::bytes).sum();
        assert_eq!(memory.arguments, arguments as u64);
        assert!(arguments < stacks / 4 + stacks / 64, "{arguments}");
        assert!(memory.temporary < stacks as u64, "{memory:?}");
        assert!(has(&placed, "all-reduce"));
        for other in ["all-gather", "all-to-all", "collective-permute"] {
            assert!(!has(&placed, other), "{other}");
        }
    }
}
