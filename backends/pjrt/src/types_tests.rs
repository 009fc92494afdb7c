//! Tests of the types' names, codes and sizes.

use super::*;

#[test]
fn names_are_those_of_stablehlo() {
    let spec = TensorType::new([2, 3], ElementType::F8E4M3FN);
    assert_eq!(spec.to_string(), "tensor<2x3xf8E4M3FN>");
    assert_eq!(
        TensorType::new([], ElementType::Pred).to_string(),
        "tensor<i1>"
    );
    assert_eq!(
        TensorType::new([0], ElementType::U32).to_string(),
        "tensor<0xui32>"
    );
}

#[test]
fn codes_are_distinct_and_read_back() {
    for element in ElementType::ALL {
        assert_eq!(ElementType::from_code(element.code()), Some(element));
    }
    let token = ElementType::from_code(23);
    assert_eq!(token, None);
}

#[test]
fn bytes_are_counted_or_refused() {
    let bytes = |dims: &[usize]| TensorType::new(dims, ElementType::F32).checked_bytes();
    assert_eq!(bytes(&[]), Some(4));
    assert_eq!(bytes(&[3, 5]), Some(60));
    assert_eq!(bytes(&[0, 7]), Some(0));
    for dims in [
        &[usize::MAX][..],
        &[1 << 40, 1 << 40],
        &[0, usize::MAX],
        &[1 << 61],
    ] {
        assert_eq!(bytes(dims), None, "{dims:?}");
    }
}
