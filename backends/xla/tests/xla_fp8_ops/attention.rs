//! Attention within sequences.

use crate::plugin::{Host, call};
use crate::routed::{Sorted, assert_close, poisoned, wave};
use moebius_ops::Rows;
use moebius_ops::segment_attention::{Problem, Segments};

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

/// The oracle: row by row, in f64.
struct Oracle<'a> {
    case: &'a Case,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl<'a> Oracle<'a> {
    fn new(case: &'a Case) -> Self {
        let rows = case.sorted.rows();
        let wave = |phase| poisoned(wave(case.bound * WIDTH, phase), WIDTH, rows);
        Self {
            case,
            q: wave(0.1),
            k: wave(0.7),
            v: wave(1.9),
        }
    }

    /// The rows that a row attends to.
    fn seen(&self, row: usize) -> Vec<usize> {
        let sorted = &self.case.sorted;
        let last = if self.case.causal {
            row + 1
        } else {
            sorted.rows()
        };
        let together = |other: &usize| sorted.together(row, *other, self.case.sequence);
        (0..last).filter(together).collect()
    }

    fn dot(a: &[f32], i: usize, b: &[f32], j: usize, head: usize) -> f64 {
        let at = |row: usize| row * WIDTH + head * D..row * WIDTH + (head + 1) * D;
        let pairs = a[at(i)].iter().zip(&b[at(j)]);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    /// Probabilities of the rows that a row attends to, and their log-sum-exp.
    fn probabilities(&self, row: usize, head: usize) -> (Vec<(usize, f64)>, f64) {
        let score = |j: usize| Self::dot(&self.q, row, &self.k, j, head) / (D as f64).sqrt();
        let seen = self.seen(row);
        let lse = seen.iter().map(|j| score(*j).exp()).sum::<f64>().ln();
        (
            seen.into_iter()
                .map(|j| (j, (score(j) - lse).exp()))
                .collect(),
            lse,
        )
    }

    fn attended(&self) -> (Vec<f64>, Vec<f64>) {
        let mut o = vec![0.0; self.case.bound * WIDTH];
        let mut lse = vec![0.0; self.case.bound * HEADS];
        for row in 0..self.case.sorted.rows() {
            for head in 0..HEADS {
                let (p, sum) = self.probabilities(row, head);
                lse[row * HEADS + head] = sum;
                for ((j, p), i) in p.iter().flat_map(|p| (0..D).map(move |i| (p, i))) {
                    o[row * WIDTH + head * D + i] +=
                        p * f64::from(self.v[j * WIDTH + head * D + i]);
                }
            }
        }
        (o, lse)
    }

    fn gradients(&self, gradient: &[f32], o: &[f32]) -> [Vec<f64>; 3] {
        let mut out = [(); 3].map(|()| vec![0.0; self.case.bound * WIDTH]);
        let scale = 1.0 / (D as f64).sqrt();
        for row in 0..self.case.sorted.rows() {
            for head in 0..HEADS {
                let delta = Self::dot(gradient, row, o, row, head);
                for (j, p) in self.probabilities(row, head).0 {
                    let ds = p * (Self::dot(gradient, row, &self.v, j, head) - delta) * scale;
                    for i in head * D..(head + 1) * D {
                        out[0][row * WIDTH + i] += ds * f64::from(self.k[j * WIDTH + i]);
                        out[1][j * WIDTH + i] += ds * f64::from(self.q[row * WIDTH + i]);
                        out[2][j * WIDTH + i] += p * f64::from(gradient[row * WIDTH + i]);
                    }
                }
            }
        }
        out
    }
}

#[test]
fn rows_attend_to_their_sequence() {
    for case in cases() {
        let oracle = Oracle::new(&case);
        let host = |x: &[f32]| Host::f32s(&[case.bound, WIDTH], x);
        let sorted = &case.sorted;
        let (slots, experts, top_k) = (sorted.slots(), sorted.experts, sorted.top_k);
        let segments = Segments::new(slots, experts, top_k, case.sequence).unwrap();
        let problem = problem(segments.with_row_bound(case.bound).unwrap(), case.causal);
        let attention = |backward| Rows::Attention {
            problem,
            dense: false,
            backward,
        };
        let mut inputs = vec![
            host(&oracle.q),
            host(&oracle.k),
            host(&oracle.v),
            case.sorted.order(),
            case.sorted.offsets(),
        ];
        let what = format!("{problem:?}");
        let got = call(attention(false), &inputs);
        let (o, lse) = oracle.attended();
        assert_close(&got[0].floats(), &o, 3e-6, &what);
        assert_close(&got[1].floats(), &lse, 3e-6, &what);

        let wave = wave(case.bound * WIDTH, 2.3);
        let gradient = poisoned(wave, WIDTH, case.sorted.rows());
        inputs.extend([got[0].clone(), got[1].clone(), host(&gradient)]);
        let want = oracle.gradients(&gradient, &got[0].floats());
        let got = call(attention(true), &inputs);
        for (got, want) in got.iter().zip(want) {
            assert_close(&got.floats(), &want, 1e-5, &what);
        }
    }
}

/// Scores in the thousands, of which one has all the weight.
#[test]
fn large_scores_do_not_overflow() {
    let segments = Segments::new(70, 1, 1, 70).unwrap();
    let attention = Rows::Attention {
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
        let attention = |backward| Rows::Attention {
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
