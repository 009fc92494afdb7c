//! Tests that words that are no description, or that don't fit one, are refused with the numbers in the message.

use moebius_ops::grouped_gemm::{self, Source};
use moebius_ops::{Element, GroupedGemm, Operation, Routing, routing};
use moebius_pjrt::ElementType::F32;
use moebius_pjrt::TensorType;
use moebius_xla::custom::{CallError, outputs, pack, unpack};

fn logits(tokens: usize, hidden: usize, experts: usize) -> Operation {
    let logits = Routing::Logits {
        problem: routing::Problem::new(tokens, experts, 1).unwrap(),
        hidden,
        element: Element::F32,
        backward: false,
    };
    logits.into()
}

#[test]
fn operands_are_counted_and_their_shapes_compared() {
    let call = logits(4, 8, 2);
    let x = TensorType::new([4, 8], F32);
    let error = outputs(&call, std::slice::from_ref(&x)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "router logits expected 2 operands, got 1"
    );
    let error = outputs(&call, &[x.clone(), x.clone()]).unwrap_err();
    assert_eq!(
        error,
        CallError::Tensor {
            operation: "router logits",
            tensor: "Wg",
            expected: TensorType::new([2, 8], F32),
            got: TensorType::new([4, 8], F32),
        }
    );
    let logits = outputs(&call, &[x, TensorType::new([2, 8], F32)]).unwrap();
    assert_eq!(logits, [TensorType::new([4, 2], F32)]);
}

#[test]
fn words_that_are_no_call_are_refused() {
    assert_eq!(unpack(&[]).unwrap_err(), CallError::Length { words: 0 });
    let mut words = pack(&logits(1, 1, 1));
    words[1] ^= 1;
    assert!(matches!(unpack(&words), Err(CallError::Syntax { .. })));
    words.pop();
    assert!(matches!(unpack(&words), Err(CallError::Length { .. })));
}

/// Sizes that no constructor accepts would overflow in products.
#[test]
fn descriptions_that_no_constructor_makes_are_refused() {
    let problem = grouped_gemm::Problem {
        rows: Source::Sorted,
        n: usize::MAX,
        ..grouped_gemm::Problem::new(4, 2, 1, 3, 5).unwrap()
    };
    let words = pack(&GroupedGemm::Linear(problem).into());
    assert!(matches!(unpack(&words), Err(CallError::Sizes(_))));
}
