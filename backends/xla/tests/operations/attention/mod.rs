//! Tests of attention under score rules: all passes of an attention run in one program and are compared with the
//! reference.

mod rules;

use crate::run::{Host, execute, noise, travelled, type_of};
use moebius_ops::attention::{Dropout, Problem, Rule, Rules, Sizes, alibi_slopes};
use moebius_ops::{Attention, AttentionPass, HostTensor, Operation, TableGradients, TensorInfo};
use moebius_xla::custom::{Tiling, lower_tiled};
use moebius_xla::stablehlo::{Builder, Program, Value};
use std::collections::HashMap;

/// A tiling that computes all scores at once.
const WHOLE: Tiling = Tiling {
    whole: usize::MAX,
    block: 0,
};

/// A tiling with blocks of `block` queries and keys.
const fn blocks(block: usize) -> Tiling {
    Tiling { whole: 0, block }
}

/// The largest relative distances in f32, of the forward and of the backward passes.
const F32: [f64; 2] = [2e-5, 2e-4];

fn sizes(queries: usize, keys: usize) -> Sizes {
    Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries,
        keys,
        head_dim: 5,
        value_dim: 3,
    }
}

pub(crate) fn problem(sizes: Sizes, rules: &[Rule]) -> Problem {
    let rules = Rules::new(rules.iter().copied()).unwrap();
    let problem = Problem::new(sizes).unwrap().with_scale(0.7).unwrap();
    problem.with_rules(rules).unwrap()
}

/// The forward pass, and the backward passes through o and through the log-sum-exp, with gradients of all tables that
/// there are.
pub(crate) fn passes(problem: &Problem) -> [Operation; 3] {
    let tables = TableGradients {
        bias: problem.rules().bias().is_some(),
        relative: problem.rules().relative().is_some(),
        sinks: problem.sinks(),
    };
    let passes = [
        AttentionPass::Forward,
        AttentionPass::Output(tables),
        AttentionPass::LogSumExp(tables),
    ];
    passes.map(|pass| {
        let problem = *problem;
        travelled(Attention { problem, pass })
    })
}

/// The operands of all passes, except those that the forward pass computes.
fn given(passes: &[Operation; 3]) -> Vec<TensorInfo> {
    let mut all: Vec<TensorInfo> = Vec::new();
    let signatures = passes.iter().map(Operation::signature);
    for operand in signatures.flat_map(|signature| signature.operands) {
        let computed = ["o", "lse"].contains(&operand.name);
        if !computed && all.iter().all(|other| other.name != operand.name) {
            all.push(operand);
        }
    }
    all
}

/// Tensors by name. Operands look random but are reproducible.
type Data = HashMap<&'static str, HostTensor>;

fn data(problem: &Problem) -> Data {
    let tensors = given(&passes(problem)).into_iter().zip(1..);
    tensors
        .map(|(info, seed)| (info.name, tensor(&info, seed)))
        .collect()
}

pub(crate) fn tensor(info: &TensorInfo, seed: u64) -> HostTensor {
    let len = info.shape.iter().product();
    let words = |of: u32| (0..len as u32).map(|i| (i * 7 + i / 3) % of).collect();
    let words: Vec<u32> = match info.name {
        // Tokens of a document are neighbours, except that some documents return.
        "query_documents" | "key_documents" => {
            (0..len as u32).map(|i| (i + i / 11) / 6 % 4).collect()
        }
        "blocks" => words(2),
        "mask" => words(3),
        "dropout" => Dropout::new(0.3, 7).unwrap().words().to_vec(),
        "slopes" => return HostTensor::of_f32(&alibi_slopes(len)),
        _ => {
            let values: Vec<f32> = noise(len, seed).iter().map(|x| 1.5 * x).collect();
            return values_of(info, &values);
        }
    };
    words.into()
}

/// Values rounded to the tensor's type.
fn values_of(info: &TensorInfo, values: &[f32]) -> HostTensor {
    Host::of(info, &HostTensor::of_f32(values)).to_tensor()
}

/// Builds a program of all passes; also returns the operands that it reads.
fn program(problem: &Problem, tiling: Tiling) -> (Program, Vec<TensorInfo>) {
    let passes = passes(problem);
    let operands = given(&passes);
    let b = Builder::new();
    let arguments = operands
        .iter()
        .map(|info| (info.name, b.argument(type_of(info))));
    let mut values: HashMap<&str, Value> = arguments.collect();
    let mut results = Vec::new();
    for operation in &passes {
        let signature = operation.signature();
        let inputs: Vec<Value> = signature.operands.iter().map(|x| values[x.name]).collect();
        let lowered = lower_tiled(operation, &b, &inputs, tiling).unwrap();
        for (info, value) in signature.results.iter().zip(lowered) {
            values.insert(info.name, value);
            results.push(value);
        }
    }
    (b.finish(&results), operands)
}

/// Runs all passes and returns their results in order.
fn run(problem: &Problem, data: &Data, tiling: Tiling) -> Vec<Vec<f32>> {
    let (program, operands) = program(problem, tiling);
    let inputs = operands.iter().map(|info| Host::of(info, &data[info.name]));
    let results = execute(&program, &inputs.collect::<Vec<_>>());
    results.iter().map(Host::to_floats).collect()
}

/// An expected result of a pass.
struct Expected {
    /// The result's name, e.g. `dq of attention backward`.
    name: String,
    /// Whether the tolerance of backward passes applies.
    backward: bool,
    values: Vec<f64>,
}

/// The results that the reference gives for all passes.
fn expected(problem: &Problem, data: &Data) -> Vec<Expected> {
    let mut data = data.clone();
    let mut all = Vec::new();
    for operation in passes(problem) {
        let signature = operation.signature();
        let operands = signature
            .operands
            .iter()
            .map(|info| data[info.name].clone());
        let results = operation.reference(&operands.collect::<Vec<_>>()).unwrap();
        for (info, result) in signature.results.iter().zip(results) {
            let HostTensor::Floats(values) = &result else {
                panic!("words: {info:?}");
            };
            all.push(Expected {
                name: format!("{} of {}", info.name, signature.name),
                backward: info.name.starts_with('d'),
                values: values.clone(),
            });
            data.insert(info.name, result);
        }
    }
    all
}

/// Compares all results by relative distance; NaN and infinities must be at the same places, and lse of rows that see
/// nothing must be equal.
fn assert_close(got: &[Vec<f32>], want: &[Expected], tolerance: [f64; 2], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        let name = &want.name;
        assert_eq!(got.len(), want.values.len(), "{what}: {name}");
        let (mut square, mut error) = (0.0, 0.0);
        for (i, (got, want)) in got.iter().zip(&want.values).enumerate() {
            let got = f64::from(*got);
            let at = || format!("{what}: {name}[{i}] is {got}, not {want}");
            assert_eq!(got.is_finite(), want.is_finite(), "{}", at());
            if *want == f64::from(f32::MIN) {
                assert_eq!(got, *want, "{}", at());
            } else if want.is_finite() {
                square += want * want;
                error += (got - want) * (got - want);
            }
        }
        let allowed = tolerance[usize::from(want.backward)];
        // Gradients that cancel to 0 are exact only up to the rounding of their terms.
        let distance = error.sqrt() / square.sqrt().max(1e-2);
        assert!(distance <= allowed, "{what}: {name} differs by {distance}");
    }
}

/// Runs an attention with each of the tilings and compares its results with the reference.
fn check_by(p: &Problem, data: &Data, tilings: &[Tiling], tolerance: [f64; 2]) {
    let want = expected(p, data);
    for tiling in tilings {
        let what = format!("{p:?} {tiling:?}");
        assert_close(&run(p, data, *tiling), &want, tolerance, &what);
    }
}

/// Checks an attention in f32 on random-looking operands, at once and in blocks.
fn check(p: &Problem) {
    check_by(p, &data(p), &[WHOLE, blocks(8)], F32);
}
