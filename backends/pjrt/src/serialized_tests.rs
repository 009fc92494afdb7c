//! Tests of serialised bytes that are truncated, changed, or made by another plugin.

use super::*;

fn reason(bytes: &[u8], identity: &Hash) -> &'static str {
    match unwrap(bytes, identity) {
        Err(Error::Serialized(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_whole_bytes_of_the_same_maker_are_unwrapped() {
    let (ours, theirs) = (blake3::hash(b"ours"), blake3::hash(b"theirs"));
    let bytes = wrap(b"payload", &ours);
    assert_eq!(unwrap(&bytes, &ours).unwrap(), b"payload");
    assert!(reason(&bytes, &theirs).contains("another plugin"));
    for cut in 0..bytes.len() {
        assert!(unwrap(&bytes[..cut], &ours).is_err(), "{cut} bytes");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(unwrap(&changed, &ours).is_err(), "byte {at}");
    }
    assert!(reason(&[0; 500], &ours).contains("header"));
}
