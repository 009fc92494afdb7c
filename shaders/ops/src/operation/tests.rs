use super::*;
use crate::blocks::BlockFormat;
use crate::fp8::Fp8Format;
use crate::grouped_gemm::{self, Source, Stored, fp8};
use crate::permute::sorting;
use crate::permute::{Capacity, RowsProblem};
use crate::routing;
use crate::scaling::{Fp8Scheme, Granularity};

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
    assert!(
        GroupedGemm::CodedLinear(problem).check().is_err(),
        "no codes"
    );
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

/// The gradient through codes is that through the decoded weights, whose oracle is the same, and reads the panels of the forward.
#[test]
fn a_gradient_through_codes_is_one_through_decoded_weights() {
    let of = |stored| grouped_gemm::Problem {
        stored,
        ..grouped_gemm::Problem::dense(2, 70, 6).unwrap()
    };
    let coded = of(Stored::Fp8(Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    }));
    let code = |at: u32| (at * 37 % 0x70) | (at % 3 / 2 * 0x80);
    let word = |at: u32| (0..4).fold(0, |word, lane| word << 8 | code(4 * at + lane));
    let words: Vec<u32> = (0..70 * 2).map(word).collect();
    let panels = fp8::to_panels(&coded, &words);
    assert_eq!(panels.len(), 2 * 2 * 64);
    let scales: Vec<f32> = (0..70).map(|row| 0.25 + row as f32 / 64.0).collect();
    let bits: Vec<u32> = scales.iter().map(|scale| scale.to_bits()).collect();
    let weights = fp8::decoded(&coded, &panels, &bits);
    assert_eq!(fp8::decoded(&coded.turned(), &panels, &bits), weights);
    let dy: Vec<f32> = (0..140).map(|at| (at % 11) as f32 - 5.0).collect();
    let [dy, rows] = [&dy[..], &[0.0; 12]].map(HostTensor::of_f32);
    let through_codes = GroupedGemm::CodedLinearBackward {
        problem: coded,
        x: true,
        bias: true,
    };
    let plain = GroupedGemm::LinearBackward {
        problem: of(Stored::Values),
        rows: true,
        w: false,
        bias: true,
    };
    let codes = [dy.clone(), panels.into(), HostTensor::of_f32(&scales)];
    let got = Operation::from(through_codes).reference(&codes).unwrap();
    let values = [dy, rows, HostTensor::of_f32(&weights)];
    assert_eq!(got, Operation::from(plain).reference(&values).unwrap());
    assert_eq!(Operation::from(through_codes).flops(), Some(2 * 2 * 70 * 6));
    let gated = grouped_gemm::Problem {
        gated: true,
        ..coded
    };
    let forward = Operation::from(GroupedGemm::CodedLinear(gated));
    assert!(forward.differentiable().is_empty(), "a gate");
}

#[test]
fn blocks_of_weights_are_words_of_rows() {
    let problem = grouped_gemm::Problem {
        stored: Stored::Blocks(BlockFormat::Q8_0),
        gated: true,
        ..grouped_gemm::Problem::new(6, 3, 2, 5, 96).unwrap()
    };
    let linear = GroupedGemm::CodedLinear(problem);
    assert!(linear.check().is_ok());
    let plain = grouped_gemm::Problem {
        gated: false,
        rows: Source::Sorted,
        ..problem
    };
    assert!(GroupedGemm::Linear(plain).check().is_err(), "codes");
    // Three blocks of 34 bytes are 25.5 words.
    let (operands, all) = (linear.signature().operands, Operation::from(linear).bytes());
    let codes = ("codes", vec![3, 10, 26]);
    assert_eq!(shapes(&operands[..2]), [("x", vec![3, 96]), codes]);
    assert_eq!(all, Some(4 * (3 * 96 + 3 * 10 * 26 + 6 + 4 + 6 * 5)));
    let cut = grouped_gemm::Problem { k: 80, ..problem };
    let error = GroupedGemm::CodedLinear(cut).check().unwrap_err();
    assert_eq!(error.got, "80");
}

/// A product with blocks is one with what they decode to, whose oracle is the same.
#[test]
fn a_product_with_blocks_is_one_of_decoded_weights() {
    let of = |stored| grouped_gemm::Problem {
        stored,
        ..grouped_gemm::Problem::dense(2, 3, 64).unwrap()
    };
    let format = BlockFormat::Q4_1;
    let bytes: Vec<u8> = (0..3 * format.row_bytes(64))
        .map(|i| (i * 41 % 64) as u8)
        .collect();
    let words = format.to_words(&bytes, 64).unwrap();
    let x: Vec<f32> = (0..128).map(|i| (i % 7) as f32 - 3.0).collect();
    let (x, w) = (
        HostTensor::of_f32(&x),
        HostTensor::of_f32(&format.decoded(&words, 64)),
    );
    let coded = Operation::from(GroupedGemm::CodedLinear(of(Stored::Blocks(format))));
    let plain = Operation::from(GroupedGemm::Linear(of(Stored::Values)));
    let got = coded.reference(&[x.clone(), words.clone().into()]).unwrap();
    assert_eq!(got, plain.reference(&[x, w.clone()]).unwrap());
    let dy = HostTensor::of_f32(&[1.0, -2.0, 0.5, 3.0, 0.25, -1.0]);
    let back = Operation::from(GroupedGemm::CodedLinearBackward {
        problem: of(Stored::Blocks(format)),
        x: true,
        bias: true,
    });
    let got = back.reference(&[dy.clone(), words.into()]).unwrap();
    let back = Operation::from(GroupedGemm::LinearBackward {
        problem: of(Stored::Values),
        rows: true,
        w: false,
        bias: true,
    });
    let rows = HostTensor::of_f32(&[0.0; 128]);
    assert_eq!(got, back.reference(&[dy, rows, w]).unwrap());
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
