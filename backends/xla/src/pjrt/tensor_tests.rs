//! Names, codes and sizes.

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
        assert_eq!(from_code(element.pjrt()).unwrap(), element);
    }
    let token = from_code(23).unwrap_err();
    assert!(matches!(token, Error::UnknownElementType(23)));
}

#[test]
fn bytes_are_counted_or_refused() {
    let bytes = |dims: &[usize]| host_bytes(&TensorType::new(dims, ElementType::F32));
    assert_eq!(bytes(&[]).unwrap(), 4);
    assert_eq!(bytes(&[3, 5]).unwrap(), 60);
    assert_eq!(bytes(&[0, 7]).unwrap(), 0);
    for dims in [
        &[usize::MAX][..],
        &[1 << 40, 1 << 40],
        &[0, usize::MAX],
        &[1 << 61],
    ] {
        assert!(
            matches!(bytes(dims), Err(Error::TooLarge { .. })),
            "{dims:?}"
        );
    }
}
