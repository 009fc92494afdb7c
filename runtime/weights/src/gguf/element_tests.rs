use std::path::Path;

use safetensors::SafeTensors;

use super::*;

/// Compares the decoded blocks of each type with those of the Python package `gguf` (`tests/cases/gguf/make_gguf.py`), bit for bit.
#[test]
fn blocks_have_the_bits_of_another_program() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/gguf");
    let file = std::fs::read(cases.join("blocks.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    for &kind in DECODED.iter().filter(|kind| **kind != GgmlType::F32) {
        let part = |part: &str| file.tensor(&format!("{kind}.{part}")).unwrap();
        let values = part("values");
        let expected = values.data().as_chunks::<4>().0.iter();
        let expected: Vec<u32> = expected.map(|&four| u32::from_le_bytes(four)).collect();
        let mut got = vec![f32::NAN; expected.len()];
        decode(kind, part("bytes").data(), &mut got);
        let got: Vec<u32> = got.into_iter().map(f32::to_bits).collect();
        assert_eq!(got, expected, "{kind}");
    }
}

#[test]
fn floats_of_32_bits_are_themselves() {
    let values = [1.5, -0.0, f32::INFINITY, f32::MIN_POSITIVE / 2.0];
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value: &f32| value.to_le_bytes())
        .collect();
    let mut got = [f32::NAN; 4];
    decode(GgmlType::F32, &bytes, &mut got);
    assert_eq!(got.map(f32::to_bits), values.map(f32::to_bits));
}

/// Expected values derived by hand from ggml's layout: the last groups' scales take their upper bits from the first four groups' bytes.
#[test]
fn scales_of_six_bits_are_put_together() {
    let packed = [0xc1, 0x02, 0x03, 0x44, 0x85, 6, 7, 8, 0x21, 0, 0, 0xf3];
    assert_eq!(scale_and_least(&packed, 0), [1, 5]);
    assert_eq!(scale_and_least(&packed, 3), [4, 8]);
    assert_eq!(scale_and_least(&packed, 4), [0x31, 0x22]);
    assert_eq!(scale_and_least(&packed, 7), [0x13, 0x0f]);
}
