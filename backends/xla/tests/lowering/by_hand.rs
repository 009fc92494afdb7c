//! Tests of graphs that ordinary tensors don't record, and of operations that are refused.

use super::harness::execute;
use burn::tensor::{BoolStore, CapturedGraph, DType, Shape, TensorData};
use burn_ir::{
    BinaryOpIr, CtcLossOpIr, CustomOpIr, FloatOperationIr, GraphIr, InterpolateModeIr,
    InterpolateOpIr, InterpolateOptionsIr, ModuleOperationIr, NumericOperationIr, OperationIr,
    ReduceDimsOpIr, TensorId, TensorIr, UnaryOpIr,
};
use moebius_xla::lower::{LowerError, graph};

fn tensor(id: u64, shape: impl Into<Shape>, dtype: DType) -> TensorIr {
    TensorIr::uninit(TensorId::new(id), shape.into(), dtype)
}

/// A graph of one operation that reads tensor 1 and makes tensor 2.
fn of(operation: OperationIr, data: TensorData) -> CapturedGraph {
    CapturedGraph {
        graph: GraphIr {
            operations: vec![operation],
            inputs: vec![TensorId::new(1)],
            outputs: vec![TensorId::new(2)],
        },
        values: [(TensorId::new(1), data)].into(),
    }
}

fn run(operation: OperationIr, data: TensorData) -> TensorData {
    let captured = of(operation, data);
    let lowered = graph(&captured).unwrap();
    execute(&lowered, &captured, None).unwrap().remove(0)
}

#[test]
fn integers_are_summed_over_several_dimensions() {
    let operation = NumericOperationIr::SumDims(ReduceDimsOpIr {
        input: tensor(1, [2, 3, 2], DType::I32),
        out: tensor(2, [1, 3, 1], DType::I32),
        axes: vec![0, 2],
    });
    let data = TensorData::new((0..12).collect::<Vec<i32>>(), [2, 3, 2]);
    let sums = run(OperationIr::NumericInt(DType::I32, operation), data);
    assert_eq!(sums, TensorData::new(vec![14i32, 22, 30], [1, 3, 1]));
}

/// The router records comparisons in place of both operations.
#[test]
fn numbers_that_are_none_are_found() {
    let of = |make: fn(UnaryOpIr) -> FloatOperationIr| {
        let operation = make(UnaryOpIr {
            input: tensor(1, [4], DType::F32),
            out: tensor(2, [4], DType::Bool(BoolStore::Native)),
        });
        let data = TensorData::from([1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        run(OperationIr::Float(DType::F32, operation), data)
    };
    let nan = of(FloatOperationIr::IsNan);
    assert_eq!(nan, TensorData::from([false, true, false, false]));
    let infinite = of(FloatOperationIr::IsInf);
    assert_eq!(infinite, TensorData::from([false, false, true, true]));
}

/// The router refuses to record the operation, because its operands have two types.
#[test]
fn floats_have_integer_powers() {
    let operation = NumericOperationIr::Powi(BinaryOpIr {
        lhs: tensor(1, [4], DType::F32),
        rhs: tensor(3, [4], DType::I64),
        out: tensor(2, [4], DType::F32),
    });
    let operation = OperationIr::NumericFloat(DType::F32, operation);
    let mut captured = of(operation, TensorData::from([0.5f32, -2.0, 4.0, 1.5]));
    let exponents = TensorData::from([2i64, 3, -1, 0]);
    captured.values.insert(TensorId::new(3), exponents);
    let lowered = graph(&captured).unwrap();
    assert_eq!(lowered.constants, [TensorId::new(3)]);
    let y = execute(&lowered, &captured, None).unwrap();
    assert_eq!(y[0], TensorData::from([0.25f32, -8.0, 0.25, 1.0]));
}

#[test]
fn the_exactly_nearest_element_is_that_of_the_middle() {
    let operation = ModuleOperationIr::Interpolate(InterpolateOpIr {
        x: tensor(1, [1, 1, 1, 5], DType::F32),
        output_size: [1, 3],
        options: InterpolateOptionsIr {
            mode: InterpolateModeIr::NearestExact,
            align_corners: false,
        },
        out: tensor(2, [1, 1, 1, 3], DType::F32),
    });
    let data = TensorData::new(vec![0f32, 1.0, 2.0, 3.0, 4.0], [1, 1, 1, 5]);
    // ⌊(i + ½) · 5 / 3⌋
    let y = run(OperationIr::Module(operation), data);
    assert_eq!(y, TensorData::new(vec![0f32, 2.0, 4.0], [1, 1, 1, 3]));
}

#[test]
fn what_has_no_lowering_is_named() {
    let operation = ModuleOperationIr::CtcLoss(CtcLossOpIr {
        log_probs: tensor(1, [4, 1, 3], DType::F32),
        targets: tensor(1, [1, 2], DType::I64),
        input_lengths: tensor(1, [1], DType::I64),
        target_lengths: tensor(1, [1], DType::I64),
        blank: 0,
        out: tensor(2, [1], DType::F32),
    });
    let captured = of(OperationIr::Module(operation), TensorData::from([0f32]));
    let error = graph(&captured).unwrap_err();
    let operation = "Module::CtcLoss".to_owned();
    assert_eq!(error, LowerError::Unsupported(operation));
}

#[test]
fn what_nothing_has_made_is_not_read() {
    let operation = NumericOperationIr::Neg(UnaryOpIr {
        input: tensor(5, [1], DType::F32),
        out: tensor(2, [1], DType::F32),
    });
    let operation = OperationIr::NumericFloat(DType::F32, operation);
    let mut captured = of(operation, TensorData::from([0f32]));
    captured.graph.inputs.clear();
    let error = graph(&captured).unwrap_err();
    assert_eq!(error, LowerError::Unknown(TensorId::new(5)));
}

#[test]
fn custom_operations_of_others_are_refused() {
    let operation = CustomOpIr::new(
        "theirs",
        &[tensor(1, [1], DType::F32)],
        &[tensor(2, [1], DType::F32)],
    );
    let captured = of(OperationIr::Custom(operation), TensorData::from([0f32]));
    let error = graph(&captured).unwrap_err();
    assert_eq!(error, LowerError::Custom("theirs".to_owned()));
}
