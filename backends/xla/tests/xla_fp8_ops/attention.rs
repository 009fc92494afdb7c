//! Attention within sequences.

use crate::plugin::{Host, call};
use crate::routed::{Sorted, assert_close, poisoned, wave, wide};
use moebius_ops::SegmentAttention;
use moebius_ops::segment_attention::{
    Inputs, Problem, Segments, reference, reference_backward, reference_segments,
};

const HEADS: usize = 2;
const D: usize = 3;
const WIDTH: usize = HEADS * D;

fn problem(segments: Segments, causal: bool) -> Problem {
    let problem = Problem::new(segments, HEADS, D).unwrap();
    problem.with_causal(causal)
}

/// A routing, rows of its buffers, tokens of a sequence.
struct Case {
    sorted: Sorted,
    bound: usize,
    sequence: usize,
    causal: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for causal in [false, true] {
        let all = |sorted: Sorted, sequence| Case {
            bound: sorted.slots(),
            sorted,
            sequence,
            causal,
        };
        let some = Sorted::sample(13, 4, 2);
        cases.push(Case {
            bound: some.rows() + 1,
            sorted: some,
            sequence: 5,
            causal,
        });
        // Sequences beyond a block, cut by blocks, of one token, and routings without rows.
        cases.push(all(Sorted::sample(150, 3, 2), 150));
        cases.push(all(Sorted::new(&[2; 6], 2, 3), 4));
        if causal {
            cases.push(all(Sorted::sample(20, 3, 1), 1));
        } else {
            cases.push(all(Sorted::sample(150, 3, 2), 40));
            cases.push(all(Sorted::new(&[0; 130], 3, 1), 1000));
            cases.push(all(Sorted::new(&[1], 3, 1), 1));
        }
    }
    cases
}

#[test]
fn rows_attend_to_their_sequence() {
    for case in cases() {
        let operand = |phase| poisoned(wave(case.bound * WIDTH, phase), WIDTH, case.sorted.rows());
        let [q, k, v, gradient] = [0.1, 0.7, 1.9, 2.3].map(operand);
        let host = |x: &[f32]| Host::f32s(&[case.bound, WIDTH], x);
        let sorted = &case.sorted;
        let (slots, experts, top_k) = (sorted.slots(), sorted.experts, sorted.top_k);
        let segments = Segments::new(slots, experts, top_k, case.sequence).unwrap();
        let problem = problem(segments.with_row_bound(case.bound).unwrap(), case.causal);
        let attention = |backward| SegmentAttention {
            problem,
            dense: false,
            backward,
        };
        let mut inputs = vec![
            host(&q),
            host(&k),
            host(&v),
            case.sorted.order(),
            case.sorted.offsets(),
        ];
        let what = format!("{problem:?}");
        let got = call(attention(false), &inputs);
        let [q, k, v, d_o] = [&q, &k, &v, &gradient].map(|x| wide(x));
        let wanted = Inputs {
            q: &q,
            k: &k,
            v: &v,
        };
        let found = reference_segments(&problem.segments(), &sorted.words);
        let want = reference(&problem, &found, &wanted);
        assert_close(&got[0].floats(), &want.o, 3e-6, &what);
        assert_close(&got[1].floats(), &want.lse, 3e-6, &what);

        inputs.extend([got[0].clone(), got[1].clone(), host(&gradient)]);
        let want = reference_backward(&problem, &found, &wanted, &d_o);
        let got = call(attention(true), &inputs);
        for (got, want) in got.iter().zip([want.dq, want.dk, want.dv]) {
            assert_close(&got.floats(), &want, 1e-5, &what);
        }
    }
}

/// Scores in the thousands, of which one has all the weight.
#[test]
fn large_scores_do_not_overflow() {
    let segments = Segments::new(70, 1, 1, 70).unwrap();
    let attention = SegmentAttention {
        problem: Problem::new(segments, 1, 1).unwrap(),
        dense: true,
        backward: false,
    };
    let k: Vec<f32> = (0..70).map(|i| i as f32 * 100.0).collect();
    let v: Vec<f32> = (0..70).map(|i| i as f32).collect();
    let host = |x: &[f32]| Host::f32s(&[70, 1], x);
    let q = [1.0; 70];
    let inputs = [host(&q), host(&k), host(&v)];
    let got = call(attention, &inputs);
    assert_eq!(got[0].floats(), [69.0; 70]);
    assert_eq!(got[1].floats(), [6900.0; 70]);
}

/// A sequence of 100 rows gets the same bits behind 0 … 64 rows of another, whatever those hold, and before
/// a third that has no rows.
#[test]
fn a_sequence_does_not_depend_on_where_it_lies() {
    const LENGTH: usize = 100;
    // What it gets that begins at row `start`: o, lse, and gradients of q, k and v.
    let results = |start: usize, sequences: usize, causal: bool| -> Vec<Vec<u32>> {
        let (rows, slots) = (start + LENGTH, sequences * LENGTH);
        let own = |slot: usize| slot < start || (LENGTH..2 * LENGTH).contains(&slot);
        let keys = (0..slots).map(|slot| usize::from(!own(slot)));
        let sorted = Sorted::new(&keys.collect::<Vec<_>>(), 1, 1);
        let segments = Segments::new(slots, 1, 1, LENGTH).unwrap();
        let problem = problem(segments, causal);
        let attention = |backward| SegmentAttention {
            problem,
            dense: false,
            backward,
        };
        let operand = |phase| {
            let other = vec![f32::NAN; start * WIDTH];
            let nothing = vec![f32::INFINITY; (slots - rows) * WIDTH];
            let values = [other, wave(LENGTH * WIDTH, phase), nothing].concat();
            Host::f32s(&[slots, WIDTH], &values)
        };
        let [q, k, v, gradient] = [0.1, 0.7, 1.9, 2.3].map(operand);
        let mut inputs = vec![q, k, v, sorted.order(), sorted.offsets()];
        let forward = call(attention(false), &inputs);
        inputs.extend([forward[0].clone(), forward[1].clone(), gradient]);
        let backward = call(attention(true), &inputs);
        let own = |host: &Host| {
            let width = host.ty.shape[1];
            let words = host.words();
            let none = words[rows * width..].iter().all(|word| *word == 0);
            assert!(none, "rows without an expert are 0");
            words[start * width..rows * width].to_vec()
        };
        forward.iter().chain(&backward).map(own).collect()
    };
    for causal in [false, true] {
        let first = results(0, 2, causal);
        let finite = |word: &u32| f32::from_bits(*word).is_finite();
        assert!(first.iter().flatten().all(finite));
        for start in 1..=64 {
            assert!(results(start, 2, causal) == first, "from row {start}");
        }
        assert!(results(7, 3, causal) == first, "in a larger batch");
    }
}
