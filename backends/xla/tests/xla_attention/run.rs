//! All passes of one attention in one program on the CPU plugin.

use crate::cpu::Cpu;
use crate::data::Data;
use moebius_ops::attention::Problem;
use moebius_ops::{Attention, AttentionPass, Element, Operation, Scalar, TableGradients};
use moebius_ops::{Signature, TensorInfo};
use moebius_xla::ElementType;
use moebius_xla::custom::{Tiling, lower_tiled, pack, unpack};
use moebius_xla::pjrt::{Buffer, Donate};
use moebius_xla::stablehlo::{Builder, Program, TensorType, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

/// All scores at once.
pub(crate) const WHOLE: Tiling = Tiling {
    whole: usize::MAX,
    block: 0,
};

/// Blocks of so many queries and keys.
pub(crate) const fn blocks(block: usize) -> Tiling {
    Tiling { whole: 0, block }
}

/// Results by name; gradients of the log-sum-exp end in `of_lse`.
pub(crate) type Results = HashMap<String, Vec<f64>>;

fn element(element: Element) -> ElementType {
    match element {
        Element::F32 => ElementType::F32,
        Element::F16 => ElementType::F16,
        Element::Bf16 => ElementType::BF16,
    }
}

fn type_of(tensor: &TensorInfo) -> TensorType {
    let element = match tensor.scalar {
        Scalar::Float(float) => element(float),
        Scalar::Word => ElementType::S32,
    };
    TensorType::new(tensor.shape.clone(), element)
}

/// The operation of a pass, with gradients of all tables that there are.
pub(crate) fn operation(problem: &Problem, pass: fn(TableGradients) -> AttentionPass) -> Operation {
    let tables = TableGradients {
        bias: problem.rules().bias().is_some(),
        relative: problem.rules().relative().is_some(),
        sinks: problem.sinks(),
    };
    let attention = Attention {
        problem: *problem,
        pass: pass(tables),
    };
    let operation = Operation::from(attention);
    assert_eq!(unpack(&pack(&operation)).as_ref(), Ok(&operation));
    operation
}

/// The operands that a test gives: those of both backward passes but for what the forward pass computes.
fn given(signatures: &[Signature]) -> Vec<TensorInfo> {
    let mut all: Vec<TensorInfo> = Vec::new();
    for operand in signatures.iter().flat_map(|s| &s.operands) {
        let computed = ["o", "lse"].contains(&operand.name);
        if !computed && all.iter().all(|other| other.name != operand.name) {
            all.push(operand.clone());
        }
    }
    all
}

/// A program of all passes, the operands it reads and the names of its results.
pub(crate) fn program(
    problem: &Problem,
    tiling: Tiling,
) -> (Program, Vec<TensorInfo>, Vec<String>) {
    let passes = [
        operation(problem, |_| AttentionPass::Forward),
        operation(problem, AttentionPass::Output),
        operation(problem, AttentionPass::LogSumExp),
    ];
    let signatures = passes.each_ref().map(Operation::signature);
    let operands = given(&signatures);
    let b = Builder::new();
    let arguments = operands.iter().map(|x| (x.name, b.argument(type_of(x))));
    let mut values: HashMap<&str, Value> = arguments.collect();
    let (mut results, mut names) = (Vec::new(), Vec::new());
    for ((operation, signature), suffix) in passes.iter().zip(&signatures).zip(["", "", " of lse"])
    {
        let inputs: Vec<Value> = signature.operands.iter().map(|x| values[x.name]).collect();
        let lowered = lower_tiled(operation, &b, &inputs, tiling).unwrap();
        for (info, value) in signature.results.iter().zip(lowered) {
            names.push(format!("{}{suffix}", info.name));
            results.push(value);
            values.insert(info.name, value);
        }
    }
    (b.finish(&results), operands, names)
}

/// Runs all passes.
pub(crate) fn run(problem: &Problem, data: &Data, tiling: Tiling) -> Results {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    let cpu = CPU.get_or_init(|| Cpu::new(&[]));
    let (program, operands, names) = program(problem, tiling);
    let executable = cpu.compile(&program, 1);
    let executable = executable.unwrap_or_else(|error| panic!("{error}\n{}", program.text));
    let device = cpu.client.device(0).unwrap();
    let arguments = operands.iter().map(|operand| {
        let ty = type_of(operand);
        let bytes = data.bytes(operand.name, ty.element);
        Buffer::from_host(&device, &ty, &bytes).unwrap()
    });
    let arguments: Vec<Buffer> = arguments.collect();
    let arguments: Vec<&Buffer> = arguments.iter().collect();
    let results = executable.execute(&arguments, Donate::Nothing).unwrap();
    let results = results.iter().zip(&program.outputs).zip(names);
    results
        .map(|((result, ty), name)| (name, floats(ty.element, &result.read().unwrap())))
        .collect()
}

fn floats(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    let of = |bytes: &[u8]| match element {
        ElementType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        ElementType::BF16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        ElementType::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        other => panic!("{other}"),
    };
    bytes.chunks(element.bytes()).map(of).collect()
}
