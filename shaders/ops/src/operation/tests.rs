use super::*;
use crate::grouped_gemm::{self, Source, Stored};
use crate::permute::sorting;
use crate::permute::{Capacity, RowsProblem};
use crate::routing;

fn shapes(tensors: &[TensorInfo]) -> Vec<(&'static str, Vec<usize>)> {
    let pairs = tensors.iter().map(|t| (t.name, t.shape.clone()));
    pairs.collect()
}

#[test]
fn absent_operands_and_results_are_left_out() {
    let problem = routing::Problem::new(5, 4, 2).unwrap();
    let rows = RowsProblem::new(&problem, 7, 3, Element::F16).unwrap();
    let combine = |weighted| {
        let problem = rows;
        Operation::from(Permute::Combine { problem, weighted }).signature()
    };
    let both = [("rows", vec![7, 3]), ("positions", vec![10])];
    assert_eq!(shapes(&combine(false).operands), both);
    assert_eq!(combine(true).operands[2].shape, [5, 2]);
    assert_eq!(combine(true).results[0].shape, [5, 3]);
    assert_eq!(combine(true).results[0].scalar, Scalar::Float(Element::F16));
    let problem = grouped_gemm::Problem {
        rows: Source::Sorted,
        ..grouped_gemm::Problem::new(10, 4, 2, 6, 3).unwrap()
    };
    let backward = GroupedGemm::LinearBackward {
        problem,
        rows: false,
        w: true,
        bias: false,
    };
    let backward = backward.signature();
    assert_eq!(shapes(&backward.results), [("dW", vec![4, 6, 3])]);
    assert_eq!(backward.operands[3].shape, [5]);
}

/// Public fields and fields set by a parser are checked again.
#[test]
fn what_no_constructor_makes_is_refused() {
    let problem = grouped_gemm::Problem::dense(3, 4, 5).unwrap();
    assert!(GroupedGemm::Linear(problem).check().is_ok());
    let bad = [
        grouped_gemm::Problem { n: 0, ..problem },
        grouped_gemm::Problem {
            row_bound: 4,
            ..problem
        },
        grouped_gemm::Problem {
            experts: 2,
            ..problem
        },
        grouped_gemm::Problem {
            gated: true,
            ..problem
        },
        grouped_gemm::Problem {
            rows: Source::Tokens,
            ..problem
        },
        // Rows of 5 weights end inside a group of four.
        grouped_gemm::Problem {
            stored: Stored::Sparse24,
            ..problem
        },
    ];
    for problem in bad {
        assert!(GroupedGemm::Linear(problem).check().is_err(), "{problem:?}");
    }
    assert!(GroupedGemm::Fp8Linear(problem).check().is_err(), "no codes");
    let amax = |shape| Quantize::Amax {
        shape,
        element: Element::F32,
    };
    assert!(amax(vec![0]).check().is_ok());
    assert!(amax(vec![usize::MAX, 2]).check().is_err());
}

#[test]
fn half_of_sparse_weights_are_operands() {
    let problem = grouped_gemm::Problem {
        element: Element::F16,
        stored: Stored::Sparse24,
        ..grouped_gemm::Problem::dense(3, 4, 64).unwrap()
    };
    let linear = Operation::from(GroupedGemm::Linear(problem));
    let (operands, flops) = (linear.signature().operands, linear.flops());
    let kept = [
        ("rows", vec![3, 64]),
        ("W", vec![1, 4, 32]),
        ("places", vec![1, 4, 2]),
    ];
    assert_eq!(shapes(&operands), kept);
    assert_eq!(
        operands[1].bytes() + operands[2].bytes(),
        4 * 64 * 2 * 9 / 16
    );
    assert_eq!(flops, Some(2 * 3 * 4 * 64), "those of the dense product");
    let backward = |w| GroupedGemm::LinearBackward {
        problem,
        rows: true,
        w,
        bias: false,
    };
    assert!(backward(false).check().is_ok());
    assert!(backward(true).check().is_err(), "a gradient of W");
}

#[test]
fn a_sort_has_the_operands_of_its_rule() {
    let routing = routing::Problem::new(6, 3, 2).unwrap();
    let capacity = Some(Capacity::new(1.1, 0).unwrap());
    let problem = sorting::Problem::new(&routing, capacity, true).unwrap();
    let sort = Permute::Sort {
        problem,
        mask: true,
    };
    let operands = shapes(&sort.signature().operands);
    let names: Vec<_> = operands.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["weights", "indices", "mask", "factors"]);
    assert_eq!(sort.signature().results[2].shape, [12]);
}

#[test]
fn every_line_of_the_list_is_a_signature() {
    assert_eq!(TABLES.len(), SIGNATURES.lines().count());
    for (name, sides) in TABLES.iter() {
        let mut entries = sides.iter().flatten();
        assert!(
            entries.all(|e| !e.name.is_empty() && !e.sizes.is_empty()),
            "{name}"
        );
    }
}
