//! Moved rows.

use crate::plugin::{Host, call};
use crate::routed::{Sorted, assert_close, poisoned, wave};
use moebius_xla::ElementType;
use moebius_xla::custom::Call;
use moebius_xla::custom::neighbours::{Neighbours, Sequences};
use moebius_xla::custom::rows::{Rows, Sizes};

const WIDTH: usize = 5;

/// Routings, and how many rows their buffers have.
fn routings() -> Vec<(Sorted, usize)> {
    let all = |sorted: Sorted| {
        let slots = sorted.slots();
        (sorted, slots)
    };
    let some = Sorted::sample(13, 4, 2);
    let rows = some.rows();
    assert!(rows + 1 < some.slots() && some.offsets[1] == some.offsets[2]);
    vec![
        (some, rows + 1),
        all(Sorted::sample(13, 4, 2)),
        all(Sorted::sample(9, 3, 1)),
        all(Sorted::new(&[2; 6], 2, 3)),
        all(Sorted::new(&[0; 8], 3, 2)),
        all(Sorted::new(&[1], 3, 1)),
    ]
}

fn sizes(sorted: &Sorted, row_bound: usize) -> Sizes {
    Sizes {
        tokens: sorted.tokens(),
        experts: sorted.experts,
        top_k: sorted.top_k,
        row_bound,
        width: WIDTH,
    }
}

#[test]
fn rows_come_from_their_tokens() {
    for (sorted, bound) in routings() {
        let x = wave(sorted.tokens() * WIDTH, 0.3);
        let mut want = vec![0.0; bound * WIDTH];
        for row in 0..sorted.rows() {
            let from = &x[sorted.token(row) * WIDTH..][..WIDTH];
            want[row * WIDTH..][..WIDTH].copy_from_slice(from);
        }
        let inputs = [
            Host::f32s(&[sorted.tokens(), WIDTH], &x),
            sorted.order(),
            sorted.offsets(),
        ];
        let got = call(&Call::Rows(Rows::Gather(sizes(&sorted, bound))), &inputs);
        assert_eq!(got[0].floats(), want);
    }
}

#[test]
fn tokens_are_sums_of_their_rows() {
    for (sorted, bound) in routings() {
        let rows = poisoned(wave(bound * WIDTH, 0.9), WIDTH, sorted.rows());
        let weights = wave(sorted.slots(), 1.4);
        for weighted in [true, false] {
            let mut want = vec![0.0; sorted.tokens() * WIDTH];
            for (slot, row) in sorted.positions.iter().enumerate() {
                let weight = if weighted {
                    f64::from(weights[slot])
                } else {
                    1.0
                };
                for i in 0..WIDTH * usize::from(*row != u32::MAX) {
                    want[slot / sorted.top_k * WIDTH + i] +=
                        weight * f64::from(rows[*row as usize * WIDTH + i]);
                }
            }
            let mut inputs = vec![Host::f32s(&[bound, WIDTH], &rows), sorted.positions()];
            if weighted {
                inputs.push(Host::f32s(&[sorted.tokens(), sorted.top_k], &weights));
            }
            let sizes = sizes(&sorted, bound);
            let got = call(&Call::Rows(Rows::Combine { sizes, weighted }), &inputs);
            assert_close(&got[0].floats(), &want, 1e-6, "combine");
        }
    }
}

#[test]
fn gradients_of_rows_and_weights() {
    for (sorted, bound) in routings() {
        let dy = wave(sorted.tokens() * WIDTH, 0.2);
        let rows = poisoned(wave(bound * WIDTH, 0.9), WIDTH, sorted.rows());
        let weights = wave(sorted.slots(), 1.4);
        let mut drows = vec![0.0; bound * WIDTH];
        let mut dweights = vec![0.0; sorted.slots()];
        for row in 0..sorted.rows() {
            let slot = sorted.order[row] as usize;
            for i in 0..WIDTH {
                let dy = f64::from(dy[sorted.token(row) * WIDTH + i]);
                drows[row * WIDTH + i] = f64::from(weights[slot]) * dy;
                dweights[slot] += f64::from(rows[row * WIDTH + i]) * dy;
            }
        }
        let inputs = [
            Host::f32s(&[sorted.tokens(), WIDTH], &dy),
            Host::f32s(&[bound, WIDTH], &rows),
            Host::f32s(&[sorted.tokens(), sorted.top_k], &weights),
            sorted.order(),
            sorted.offsets(),
            sorted.positions(),
        ];
        let backward = Call::Rows(Rows::CombineBackward(sizes(&sorted, bound)));
        let got = call(&backward, &inputs);
        assert_close(&got[0].floats(), &drows, 1e-6, "drows");
        assert_close(&got[1].floats(), &dweights, 1e-6, "dweights");
    }
}

/// bf16 rows are summed in f32 and rounded once.
#[test]
fn sixteen_bits_are_summed_in_32() {
    let sorted = Sorted::new(&[0, 1, 2], 3, 3);
    let bits = |x: f32| half::bf16::from_f32(x).to_bits();
    let rows = Host::halves(ElementType::BF16, &[256.0, 1.0, 1.0].map(bits)).reshaped(&[3, 1]);
    let sizes = Sizes {
        width: 1,
        ..sizes(&sorted, 3)
    };
    let combine = Rows::Combine {
        sizes,
        weighted: false,
    };
    let got = call(&Call::Rows(combine), &[rows, sorted.positions()]);
    assert_eq!(got[0].halves_of().collect::<Vec<_>>(), [bits(258.0)]);
}

/// (row, place, the row it shows there), wherever it shows one.
fn pairs(sorted: &Sorted, bound: usize, sequence: usize, causal: bool) -> Vec<[usize; 3]> {
    let back = if causal { 2 } else { 1 };
    let places = (0..bound.min(sorted.rows())).flat_map(|row| (0..3).map(move |p| (row, p)));
    let shown =
        places.filter_map(|(row, place)| Some([row, place, (row + place).checked_sub(back)?]));
    let rows = sorted.rows();
    shown
        .filter(|[row, _, other]| *other < rows && sorted.together(*row, *other, sequence))
        .collect()
}

#[test]
fn neighbours_are_of_one_expert_and_one_sequence() {
    for (sorted, bound) in routings() {
        for (sequence, causal) in [(3, false), (3, true), (1, false), (1000, true)] {
            let pairs = pairs(&sorted, bound, sequence, causal);
            let x = poisoned(wave(bound * WIDTH, 0.6), WIDTH, sorted.rows());
            let dout = poisoned(wave(bound * 3 * WIDTH, 1.1), 3 * WIDTH, sorted.rows());
            let mut out = vec![0.0; bound * 3 * WIDTH];
            let mut dx = vec![0.0; bound * WIDTH];
            for [row, place, other] in pairs {
                for i in 0..WIDTH {
                    let wide = (row * 3 + place) * WIDTH + i;
                    out[wide] = x[other * WIDTH + i];
                    dx[other * WIDTH + i] += f64::from(dout[wide]);
                }
            }
            let forward = Neighbours {
                sequences: Sequences {
                    slots: sorted.slots(),
                    experts: sorted.experts,
                    row_bound: bound,
                    sequence_slots: sequence * sorted.top_k,
                },
                width: WIDTH,
                causal,
                backward: false,
            };
            let (order, offsets) = (sorted.order(), sorted.offsets());
            let x = Host::f32s(&[bound, WIDTH], &x);
            let got = call(
                &Call::Neighbours(forward),
                &[x, order.clone(), offsets.clone()],
            );
            assert_eq!(got[0].floats(), out);
            let backward = Neighbours {
                backward: true,
                ..forward
            };
            let dout = Host::f32s(&[bound, 3 * WIDTH], &dout);
            let got = call(&Call::Neighbours(backward), &[dout, order, offsets]);
            assert_close(&got[0].floats(), &dx, 1e-6, "dx");
        }
    }
}
