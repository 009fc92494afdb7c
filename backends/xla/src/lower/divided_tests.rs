//! Tests of which tensors are divided with the stacks of experts.

use super::*;
use crate::custom::{ID, pack};
use burn_backend::{DType, Shape};
use burn_ir::{NumericOperationIr, ScalarOpIr, ShapeOpIr, SwapDimsOpIr, TensorStatus};
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::{Problem, Source};

fn tensor<const D: usize>(id: u64, shape: [usize; D]) -> TensorIr {
    let mut tensor = TensorIr::uninit(TensorId::new(id), Shape::new(shape), DType::F32);
    tensor.status = TensorStatus::ReadOnly;
    tensor
}

/// A product of 8 rows with the stack `w` of four matrices \[6, 5\].
fn product(w: u64, of: usize) -> OperationIr {
    let problem = Problem {
        rows: Source::Sorted,
        ..Problem::new(8, of, 1, 6, 5).unwrap()
    };
    OperationIr::Custom(CustomOpIr {
        id: ID.to_owned(),
        inputs: vec![
            tensor(1, [8, 5]),
            tensor(w, [of, 6, 5]),
            tensor(2, [of + 1]),
        ],
        outputs: vec![tensor(3, [8, 6])],
        scalars: pack(&GroupedGemm::Linear(problem).into())
            .into_iter()
            .map(ScalarIr::UInt)
            .collect(),
    })
}

fn doubled<const D: usize>(from: u64, to: u64, shape: [usize; D]) -> OperationIr {
    OperationIr::NumericFloat(
        DType::F32,
        NumericOperationIr::MulScalar(ScalarOpIr {
            lhs: tensor(from, shape),
            rhs: ScalarIr::Float(2.0),
            out: tensor(to, shape),
        }),
    )
}

fn divided(operations: &[OperationIr], given: &[u64], places: usize) -> Vec<u64> {
    let mesh = Mesh::new(places, 2).unwrap();
    let given = given.iter().map(|id| TensorId::new(*id));
    let found = Divided::of(mesh, operations, given);
    (0..20)
        .filter(|id| found.contains(TensorId::new(*id)))
        .collect()
}

#[test]
fn a_stack_is_divided_and_so_is_what_it_is_made_of() {
    let reshaped = OperationIr::BaseFloat(BaseOperationIr::Reshape(ShapeOpIr {
        input: tensor(10, [24, 5]),
        out: tensor(11, [4, 6, 5]),
    }));
    let operations = [reshaped, doubled(11, 12, [4, 6, 5]), product(12, 4)];
    assert_eq!(divided(&operations, &[], 2), [10, 11, 12]);
    assert_eq!(divided(&operations, &[], 4), [10, 11, 12]);
    // With one place of experts nothing is divided, and three places don't divide four experts.
    for places in [1, 3] {
        assert_eq!(divided(&operations, &[], places), [0; 0], "{places}");
    }
}

#[test]
fn what_loses_the_first_dimension_is_whole() {
    let swapped = OperationIr::BaseFloat(BaseOperationIr::SwapDims(SwapDimsOpIr {
        input: tensor(10, [6, 4, 5]),
        out: tensor(11, [4, 6, 5]),
        dim1: 0,
        dim2: 1,
    }));
    let operations = [swapped, product(11, 4)];
    assert_eq!(divided(&operations, &[], 4), [11]);
}

#[test]
fn what_is_divided_already_stays_so() {
    let operations = [doubled(10, 11, [4, 6]), doubled(12, 13, [4, 6])];
    assert_eq!(divided(&operations, &[10], 2), [10, 11]);
    assert_eq!(divided(&operations, &[], 2), [0; 0]);
}
