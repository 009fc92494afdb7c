//! The choice by hash, exact.

use crate::run::{floats, i32s, noise, run};
use moebius_xla::ElementType::{self, BF16, F16, F32};
use moebius_xla::custom::Call;
use moebius_xla::custom::router::{Hash, HashKey};

const PHI: u32 = 0x9E37_79B9;

fn mix(value: u32) -> u32 {
    let a = (value ^ (value >> 16)).wrapping_mul(0x7FEB_352D);
    let b = (a ^ (a >> 15)).wrapping_mul(0x846C_A68B);
    b ^ (b >> 16)
}

fn content(row: &[f32]) -> u32 {
    let word = |(h, value): (usize, &f32)| {
        let bits = match value {
            value if value.is_nan() => 0x7FC0_0000,
            value if value.abs() < f32::MIN_POSITIVE => 0,
            value => value.to_bits(),
        };
        mix(bits.wrapping_add(PHI.wrapping_mul(h as u32)))
    };
    row.iter().enumerate().map(word).fold(0, u32::wrapping_add)
}

fn check(p: Hash, element: ElementType, x: &[f32], mask: Option<&[i32]>) {
    let p = Hash {
        mask: mask.is_some(),
        ..p
    };
    let x = floats(element, &[p.tokens, p.hidden], x);
    let mut inputs = vec![x.clone()];
    inputs.extend(mask.map(|mask| i32s(&[p.experts], mask)));
    let got = run(&Call::Hash(p), &inputs);
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    for (token, row) in x.to_floats().chunks(p.hidden).enumerate() {
        let key = match p.key {
            HashKey::Position { sequence } => (token % sequence) as u32,
            HashKey::Content => content(row),
        };
        let mut state = mix(key ^ mix(p.seed));
        let mut left: Vec<usize> = (0..p.experts)
            .filter(|e| mask.is_none_or(|m| m[*e] != 0))
            .collect();
        for _ in 0..p.top_k {
            state = mix(state.wrapping_add(PHI));
            let some = !left.is_empty();
            indices.push(if some {
                left.remove(state as usize % left.len())
            } else {
                p.experts
            } as i32);
            weights.push(if some { 1.0 / p.top_k as f32 } else { 0.0 });
        }
    }
    assert_eq!(got[0].to_ints(), indices, "{p:?}");
    assert_eq!(got[1].to_floats(), weights, "{p:?}");
}

fn problem(key: HashKey) -> Hash {
    Hash {
        tokens: 200,
        hidden: 24,
        experts: 10,
        top_k: 3,
        key,
        seed: 0xDEAD_BEEF,
        mask: false,
    }
}

#[test]
fn positions_and_contents_choose_as_the_definition_says() {
    let mut x = noise(200 * 24, 1);
    x[..6].copy_from_slice(&[0.0, -0.0, f32::NAN, -f32::NAN, 1e-40, f32::INFINITY]);
    let mask: Vec<i32> = (0..10).map(|e| i32::from(e % 3 != 1)).collect();
    for key in [HashKey::Position { sequence: 7 }, HashKey::Content] {
        for element in [F32, F16, BF16] {
            check(problem(key), element, &x, None);
        }
        check(problem(key), F32, &x, Some(&mask));
    }
}

#[test]
fn slots_beyond_the_available_experts_are_empty() {
    let p = problem(HashKey::Position { sequence: 200 });
    let x = vec![0.0; 200 * 24];
    check(p, F32, &x, Some(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 1]));
    check(p, F32, &x, Some(&[0; 10]));
    let all = Hash { top_k: 10, ..p };
    check(all, F32, &x, None);
}
