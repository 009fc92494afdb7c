use super::*;
use crate::Element;
use crate::fp8::{Fp8Format, unpack};
use crate::scaling::Granularity;

fn problem(shape: [usize; 3], granularity: Granularity) -> Problem {
    Problem::new(shape, Element::F32, granularity, Fp8Format::E4M3).unwrap()
}

#[test]
fn rows_by_hand() {
    let problem = problem([1, 2, 3], Granularity::Row);
    let x = [448.0, -224.0, 1.0, 0.0, 896.0, f32::NAN];
    let scales = scales_reference(&problem, &x).unwrap();
    assert_eq!(scales, Scales::F32(vec![1.0, 2.0]));
    let words = encode_reference(&problem, &x, &scales).unwrap();
    assert_eq!(unpack(&words[..1], 4), [0x7E, 0xF6, 0x38, 0]);
    assert_eq!(unpack(&words[1..], 4), [0x00, 0x7E, 0x7F, 0]);
    let back = dequantize_reference(&problem, &words, &scales).unwrap();
    assert_eq!(back[..5], [448.0, -224.0, 1.0, 0.0, 896.0]);
    assert!(back[5].is_nan());
}

#[test]
fn blocks_end_with_their_matrix() {
    let block = Granularity::Block {
        rows: 2,
        columns: 3,
    };
    // Two matrices of 3 × 4 with blocks of 2 × 3; the cut ones are 2 × 1, 1 × 3 and 1 × 1.
    let problem = problem([2, 3, 4], block);
    let x: Vec<f32> = (0..24).map(|i| 448.0 * i as f32).collect();
    let scales = scales_reference(&problem, &x).unwrap();
    let want = vec![6.0, 7.0, 10.0, 11.0, 18.0, 19.0, 22.0, 23.0];
    assert_eq!(scales, Scales::F32(want));
}

#[test]
fn mx_bytes_are_packed_by_row() {
    let problem = problem([1, 2, 40], Granularity::Mx);
    let mut x = vec![0.0; 80];
    (x[0], x[32], x[40]) = (448.0, 449.0, 224.0);
    let scales = scales_reference(&problem, &x).unwrap();
    let want = [[127, 128, 0, 0], [126, 127, 0, 0]].map(u32::from_le_bytes);
    assert_eq!(scales, Scales::E8M0(want.to_vec()));
}

#[test]
fn wrong_lengths_and_types_are_shape_errors() {
    let problem = problem([1, 2, 3], Granularity::Row);
    assert!(scales_reference(&problem, &[0.0; 5]).is_err());
    let bytes = Scales::E8M0(vec![0; 2]);
    assert!(encode_reference(&problem, &[0.0; 6], &bytes).is_err());
    assert!(dequantize_reference(&problem, &[0; 2], &Scales::F32(vec![1.0])).is_err());
    assert!(problem.with_margin(65).is_err() && problem.with_margin(-64).is_ok());
}
