//! Moved rows.

use crate::plugin::{Host, call};
use crate::routed::{Sorted, assert_close, poisoned, wave, wide};
use moebius_ops::permute::{RowsProblem, combine, dispatch, weights_gradient};
use moebius_ops::{Element, Permute, routing};
use moebius_xla::ElementType;

const WIDTH: usize = 5;

/// Routings, and how many rows their buffers have.
fn routings() -> Vec<(Sorted, usize)> {
    let all = |sorted: Sorted| {
        let slots = sorted.slots();
        (sorted, slots)
    };
    let some = Sorted::sample(13, 4, 2);
    let rows = some.rows();
    assert!(rows + 1 < some.slots() && some.words.offsets[1] == some.words.offsets[2]);
    vec![
        (some, rows + 1),
        all(Sorted::sample(13, 4, 2)),
        all(Sorted::sample(9, 3, 1)),
        all(Sorted::new(&[3; 6], 3, 3)),
        all(Sorted::new(&[0; 8], 3, 2)),
        all(Sorted::new(&[1], 3, 1)),
    ]
}

fn problem(sorted: &Sorted, row_bound: usize) -> RowsProblem {
    RowsProblem::new(&sorted.routing(), row_bound, WIDTH, Element::F32).unwrap()
}

#[test]
fn rows_come_from_their_tokens() {
    for (sorted, bound) in routings() {
        let x = wave(sorted.tokens() * WIDTH, 0.3);
        let problem = problem(&sorted, bound);
        let want = dispatch::reference(&problem, &sorted.words, None, &wide(&x)).unwrap();
        let inputs = [
            Host::f32s(&[sorted.tokens(), WIDTH], &x),
            sorted.order(),
            sorted.offsets(),
        ];
        let got = call(Permute::Gather(problem), &inputs);
        assert_eq!(wide(&got[0].floats()), want);
    }
}

#[test]
fn tokens_are_sums_of_their_rows() {
    for (sorted, bound) in routings() {
        let rows = poisoned(wave(bound * WIDTH, 0.9), WIDTH, sorted.rows());
        let weights = wave(sorted.slots(), 1.4);
        for weighted in [true, false] {
            let problem = problem(&sorted, bound);
            let (positions, factors) = (&sorted.words.positions, wide(&weights));
            let factors = weighted.then_some(&factors[..]);
            let want = combine::reference(&problem, positions, factors, &wide(&rows)).unwrap();
            let mut inputs = vec![Host::f32s(&[bound, WIDTH], &rows), sorted.positions()];
            if weighted {
                inputs.push(Host::f32s(&[sorted.tokens(), sorted.top_k], &weights));
            }
            let got = call(Permute::Combine { problem, weighted }, &inputs);
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
        let (problem, factors) = (problem(&sorted, bound), wide(&weights));
        let (d, positions) = (wide(&dy), &sorted.words.positions);
        let drows = dispatch::reference(&problem, &sorted.words, Some(&factors), &d).unwrap();
        let dweights = weights_gradient::reference(&problem, positions, &d, &wide(&rows)).unwrap();
        let inputs = [
            Host::f32s(&[sorted.tokens(), WIDTH], &dy),
            Host::f32s(&[bound, WIDTH], &rows),
            Host::f32s(&[sorted.tokens(), sorted.top_k], &weights),
            sorted.order(),
            sorted.offsets(),
            sorted.positions(),
        ];
        let got = call(Permute::CombineBackward(problem), &inputs);
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
    let routing = routing::Problem::new(1, 3, 3).unwrap();
    let combine = Permute::Combine {
        problem: RowsProblem::new(&routing, 3, 1, Element::Bf16).unwrap(),
        weighted: false,
    };
    let got = call(combine, &[rows, sorted.positions()]);
    assert_eq!(got[0].halves_of().collect::<Vec<_>>(), [bits(258.0)]);
}
