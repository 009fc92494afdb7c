use super::*;
use crate::families::Form;

fn piece(part: Part, form: Form) -> Piece {
    Piece {
        name: String::new(),
        part,
        form,
        expert: None,
        head: 4,
        keys: 3,
        skipped: 0,
        fp8: None,
        blocks: None,
    }
}

#[test]
fn halves_and_pairs_and_transposed_matrices_find_their_rows() {
    let placed = |part, form, values: &[i32], out: &mut [i32], extents| {
        place(&piece(part, form), values, out, extents);
    };
    // The rows are gate 0, gate 1, up 0, up 1.
    let mut out = [0; 8];
    placed(Part::Gate, Form::Plain, &[1, 2, 3, 4], &mut out, [4, 2]);
    placed(Part::Up, Form::Plain, &[5, 6, 7, 8], &mut out, [4, 2]);
    assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
    let turns = [1, 2, 5, 6, 3, 4, 7, 8];
    let turned = [1, 5, 3, 7, 2, 6, 4, 8];
    for (form, values) in [(Form::Pairs, turns), (Form::TransposedPairs, turned)] {
        let mut out = [0; 8];
        placed(Part::Whole, form, &values, &mut out, [4, 2]);
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let (mut out, transposed) = ([0; 6], [1, 4, 2, 5, 3, 6]);
    placed(Part::Whole, Form::Transposed, &transposed, &mut out, [2, 3]);
    assert_eq!(out, [1, 2, 3, 4, 5, 6]);
}

/// Factors w of a norm that multiplies by 1 + w.
#[test]
fn factors_are_written_less_one() {
    let norm = piece(Part::Whole, Form::LessOne);
    assert_eq!(taken(&norm, &[1.0, 0.75, 3.5], [3, 1]), [0.0, -0.25, 2.5]);
}

#[test]
fn codes_of_four_bits_are_the_low_half_first() {
    let mut codes = [0; 16];
    (codes[0], codes[1]) = (0x72, 0x9f);
    let values = decode_mxfp4(&codes, &[128], 32);
    assert_eq!(values[..5], [2.0, 12.0, -12.0, -1.0, 0.0]);
    assert_eq!(values.len(), 32);
    // A row may end within a block.
    assert_eq!(decode_mxfp4(&[0x11; 32], &[127, 126], 20).len(), 40);
}

#[test]
fn neighbours_of_a_head_are_put_into_its_halves() {
    // Two heads of four rows, of which 0 and 2, and 1 and 3, rotate together.
    let stored = [0, 2, 1, 3, 10, 12, 11, 13];
    let (mut out, neighbours) = ([0; 8], piece(Part::Whole, Form::Neighbours));
    place(&neighbours, &stored, &mut out, [8, 1]);
    assert_eq!(out, [0, 1, 2, 3, 10, 11, 12, 13]);
}

#[test]
fn keys_and_values_of_heads_are_put_together() {
    // Two heads of three rows for the key and one for the value, over two columns; keys are stored transposed.
    let keys = [1, 3, 5, 2, 4, 6, 11, 13, 15, 12, 14, 16];
    let values = [7, 8, 17, 18];
    let mut out = [0; 16];
    let of_keys = piece(Part::Keys, Form::TransposedHeads);
    let of_values = piece(Part::Values, Form::Heads);
    assert_eq!([rows_in(&of_keys, 8), rows_in(&of_values, 8)], [6, 2]);
    place(&of_keys, &keys, &mut out, [8, 2]);
    place(&of_values, &values, &mut out, [8, 2]);
    let together = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18];
    assert_eq!(out, together);
    let whole = together.map(|value| value as f32);
    assert_eq!(
        taken(&of_keys, &whole, [8, 2]),
        keys.map(|value| value as f32)
    );
    assert_eq!(
        taken(&of_values, &whole, [8, 2]),
        values.map(|value| value as f32)
    );
}
