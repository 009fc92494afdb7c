//! What isn't a call, or doesn't fit one, is refused with the numbers.

use moebius_xla::ElementType::F32;
use moebius_xla::custom::router::Logits;
use moebius_xla::custom::{Call, CallError};
use moebius_xla::stablehlo::TensorType;

#[test]
fn operands_are_counted_and_their_shapes_compared() {
    let call = Call::Logits(Logits {
        tokens: 4,
        hidden: 8,
        experts: 2,
    });
    let x = TensorType::new([4, 8], F32);
    let error = call.outputs(std::slice::from_ref(&x)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "router logits expected 2 operands, got 1"
    );
    let error = call.outputs(&[x.clone(), x.clone()]).unwrap_err();
    assert_eq!(
        error,
        CallError::Shape {
            operation: "router logits".to_owned(),
            operand: 1,
            expected: vec![2, 8],
            got: vec![4, 8],
        }
    );
    let logits = call.outputs(&[x, TensorType::new([2, 8], F32)]).unwrap();
    assert_eq!(logits, [TensorType::new([4, 2], F32)]);
}

#[test]
fn words_that_are_no_call_are_refused() {
    assert_eq!(
        Call::unpack(&[]).unwrap_err(),
        CallError::Length { words: 0 }
    );
    let mut words = Call::Logits(Logits {
        tokens: 1,
        hidden: 1,
        experts: 1,
    })
    .pack();
    words[1] ^= 1;
    assert!(matches!(
        Call::unpack(&words),
        Err(CallError::Syntax { .. })
    ));
    words.pop();
    assert!(matches!(
        Call::unpack(&words),
        Err(CallError::Length { .. })
    ));
}
