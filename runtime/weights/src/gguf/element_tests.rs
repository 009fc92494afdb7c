use std::path::Path;

use safetensors::SafeTensors;

use super::*;

/// Compares the decoded blocks of each type with those of the Python package `gguf` (`tests/cases/gguf/make_gguf.py`), bit for bit.
#[test]
fn blocks_have_the_bits_of_another_program() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/gguf");
    let file = std::fs::read(cases.join("blocks.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let by_hand = [GgmlType::F32, GgmlType::TQ1_0, GgmlType::TQ2_0];
    for &kind in DECODED.iter().filter(|kind| !by_hand.contains(kind)) {
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

/// Values of −1, 0 and 1 in no regular order.
fn ternary() -> [i8; 256] {
    std::array::from_fn(|i| ((i * 7 + i / 5 + i * i % 11) % 3) as i8 - 1)
}

/// Expects the values that were packed as ggml does: as digits of base 3, the first one the highest, scaled up from 243 to 256.
#[test]
fn digits_of_base_3_are_values() {
    let values = ternary();
    let digit = |at: usize| u32::from((values[at] + 1).cast_unsigned());
    let packed = |first: usize, apart: usize, digits: usize| {
        let all = (0..digits).map(|n| digit(first + n * apart) * 3_u32.pow(4 - n as u32));
        (all.sum::<u32>() * 256).div_ceil(243) as u8
    };
    let mut block: Vec<u8> = (0..32).map(|j| packed(j, 32, 5)).collect();
    block.extend((0..16).map(|j| packed(160 + j, 16, 5)));
    block.extend((0..4).map(|j| packed(240 + j, 4, 4)));
    // 0.5 in F16.
    block.extend([0x00, 0x38]);
    let mut got = [f32::NAN; 256];
    decode(GgmlType::TQ1_0, &block, &mut got);
    assert_eq!(got, values.map(|value| 0.5 * f32::from(value)));
}

/// Expects the values that were packed as ggml does: four groups of 32 in the bits of 32 bytes, for each half of a block.
#[test]
fn codes_of_two_bits_are_values() {
    let values = ternary();
    let code = |at: usize| (values[at] + 1).cast_unsigned();
    let byte = |j: usize| {
        (0..4).fold(0, |all, g| {
            all | code(j / 32 * 128 + g * 32 + j % 32) << (2 * g)
        })
    };
    let mut block: Vec<u8> = (0..64).map(byte).collect();
    // −2 in F16.
    block.extend([0x00, 0xc0]);
    let mut got = [f32::NAN; 256];
    decode(GgmlType::TQ2_0, &block, &mut got);
    assert_eq!(got, values.map(|value| -2.0 * f32::from(value)));
}

#[test]
fn formats_of_blocks_have_the_sizes_and_names_of_their_types() {
    for format in BlockFormat::ALL {
        let Some(kind) = GgmlType::of_blocks(format) else {
            let own = ["int4_32", "int4_64", "int4_128", "nvfp4"];
            assert!(own.contains(&format.name()), "{format}");
            continue;
        };
        let layout = format.layout();
        // A number of 16 bits is a block of its own in a file.
        let of_file = layout.values / kind.values;
        let sizes = [layout.values, layout.bytes].map(|size| size / of_file);
        assert_eq!([kind.values, kind.bytes], sizes, "{kind}");
        assert!(of_file == 1 || layout.levels.are_numbers(), "{kind}");
        assert_eq!(kind.name(), format.name().to_uppercase());
        assert_eq!(kind.blocks(), Some(format), "{kind}");
    }
    assert_eq!(GgmlType::IQ4_XS.blocks(), None);
}
