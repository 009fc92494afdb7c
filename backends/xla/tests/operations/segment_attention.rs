//! Tests of attention within sequences.

use crate::experts::sorted;
use crate::run::{Host, check, f32s, noise, run, words};
use moebius_ops::SegmentAttention;
use moebius_ops::permute::Sorted;
use moebius_ops::segment_attention::{Problem, Segments};

const HEADS: usize = 2;
const D: usize = 3;
const WIDTH: usize = HEADS * D;

/// A routing, by the expert of each slot.
struct Routing {
    keys: Vec<usize>,
    experts: usize,
    top_k: usize,
}

impl Routing {
    /// A routing of `tokens` tokens that choose `top_k` experts each; some slots are dropped, and expert 1 has no rows.
    fn sample(tokens: usize, experts: usize, top_k: usize) -> Self {
        let key = |slot: usize| match ((slot * 2654435761) >> 7) % (experts + 2) {
            1 => 0,
            key => key.min(experts),
        };
        let keys = (0..tokens * top_k).map(key).collect();
        Self {
            keys,
            experts,
            top_k,
        }
    }

    fn of(keys: &[usize], experts: usize, top_k: usize) -> Self {
        let keys = keys.to_vec();
        Self {
            keys,
            experts,
            top_k,
        }
    }

    /// An attention within sequences of `sequence` tokens. Its rows are those with an expert and `spare` more, or one
    /// for each slot.
    fn attention(&self, sequence: usize, spare: Option<usize>) -> Problem {
        let slots = self.keys.len();
        let used = self.sorted().offsets[self.experts] as usize;
        let bound = spare.map_or(slots, |spare| used + spare);
        let segments = Segments::new(slots, self.experts, self.top_k, sequence).unwrap();
        Problem::new(segments.with_row_bound(bound).unwrap(), HEADS, D).unwrap()
    }

    fn sorted(&self) -> Sorted {
        sorted(&self.keys, self.experts)
    }
}

/// The order and the offsets.
fn places(sorted: &Sorted) -> [Host; 2] {
    [&sorted.order, &sorted.offsets].map(|places| words(&[places.len()], places))
}

fn pass(problem: Problem, backward: bool) -> SegmentAttention {
    SegmentAttention { problem, backward }
}

fn both_passes(routing: &Routing, problem: Problem) {
    let (sorted, rows) = (routing.sorted(), problem.rows());
    let used = sorted.offsets[routing.experts] as usize;
    let operand = |seed| {
        let mut x = noise(rows * WIDTH, seed);
        x[used * WIDTH..].fill(f32::NAN);
        f32s(&[rows, WIDTH], &x)
    };
    let [q, k, v, gradient] = [1, 2, 3, 4].map(operand);
    let mut inputs = vec![q, k, v];
    inputs.extend(places(&sorted));
    let forward = check(pass(problem, false), &inputs, |_| 3e-6);
    inputs.extend(forward.into_iter().chain([gradient]));
    check(pass(problem, true), &inputs, |_| 1e-5);
}

/// Sequences longer than a block, cut by blocks, and of one token; and routings without rows.
#[test]
fn rows_attend_to_their_sequence() {
    let some = Routing::sample(13, 4, 2);
    let many = Routing::sample(150, 3, 2);
    let nowhere = Routing::of(&[2; 6], 2, 3);
    let one_each = Routing::sample(20, 3, 1);
    let (full, single) = (Routing::of(&[0; 130], 3, 1), Routing::of(&[1], 3, 1));
    let causal: [(&Routing, usize, Option<usize>); 4] = [
        (&some, 5, Some(1)),
        (&many, 150, None),
        (&nowhere, 4, None),
        (&one_each, 1, None),
    ];
    for (routing, sequence, spare) in causal {
        both_passes(
            routing,
            routing.attention(sequence, spare).with_causal(true),
        );
    }
    let rest = [(&many, 40, None), (&full, 1000, None), (&single, 1, None)];
    for (routing, sequence, spare) in causal[..3].iter().copied().chain(rest) {
        both_passes(routing, routing.attention(sequence, spare));
    }
}

/// Scores in the thousands, of which the largest has all the weight.
#[test]
fn large_scores_do_not_overflow() {
    let segments = Segments::new(70, 1, 1, 70).unwrap();
    let problem = Problem::new(segments, 1, 1).unwrap();
    let k: Vec<f32> = (0..70).map(|i| i as f32 * 100.0).collect();
    let v: Vec<f32> = (0..70).map(|i| i as f32).collect();
    let mut inputs = Vec::from([&[1.0; 70], &k[..], &v].map(|x| f32s(&[70, 1], x)));
    inputs.extend(places(&sorted(&[0; 70], 1)));
    let got = run(pass(problem, false), &inputs);
    assert_eq!(got[0].to_floats(), [69.0; 70]);
    assert_eq!(got[1].to_floats(), [6900.0; 70]);
}

/// A sequence of 100 rows gets the same bits after 0 … 64 rows of another sequence, whatever those hold, and before a
/// third that has no rows.
#[test]
fn a_sequence_does_not_depend_on_where_it_lies() {
    const LENGTH: usize = 100;
    // The results of the sequence that begins at row `start`: o, lse, and gradients of q, k and v.
    let results = |start: usize, sequences: usize, causal: bool| -> Vec<Vec<u32>> {
        let (rows, slots) = (start + LENGTH, sequences * LENGTH);
        let own = |slot: usize| slot < start || (LENGTH..2 * LENGTH).contains(&slot);
        let keys: Vec<usize> = (0..slots).map(|slot| usize::from(!own(slot))).collect();
        let segments = Segments::new(slots, 1, 1, LENGTH).unwrap();
        let problem = Problem::new(segments, HEADS, D)
            .unwrap()
            .with_causal(causal);
        let operand = |seed| {
            let other = vec![f32::NAN; start * WIDTH];
            let nothing = vec![f32::INFINITY; (slots - rows) * WIDTH];
            let values = [other, noise(LENGTH * WIDTH, seed), nothing].concat();
            f32s(&[slots, WIDTH], &values)
        };
        let [q, k, v, gradient] = [1, 2, 3, 4].map(operand);
        let mut inputs = vec![q, k, v];
        inputs.extend(places(&sorted(&keys, 1)));
        let forward = run(pass(problem, false), &inputs);
        inputs.extend(forward.iter().cloned().chain([gradient]));
        let backward = run(pass(problem, true), &inputs);
        let own = |host: &Host| {
            let (width, values) = (host.ty.shape[1], host.to_floats());
            let none = values[rows * width..]
                .iter()
                .all(|value| value.to_bits() == 0);
            assert!(none, "rows without an expert are 0");
            let own = &values[start * width..rows * width];
            own.iter().map(|value| value.to_bits()).collect()
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
