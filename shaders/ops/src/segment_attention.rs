//! Attention among the rows of a segment: the tokens of one sequence that went to one expert.
//!
//! Rows are sorted by expert ([`crate::permute`]) and the slots of an expert ascend, so the rows of a
//! sequence (L tokens each) are neighbours. Within a segment, for each head of D values,
//! - s_ij = ⟨q_i, k_j⟩ / √D, p_ij = exp(s_ij − lse_i), lse_i = ln Σ_j exp(s_ij), o_i = Σ_j p_ij · v_j,
//!   over the rows j of the segment, or j ≤ i when causal;
//! - backward, with ds_ij = p_ij · (⟨do_i, v_j⟩ − ⟨do_i, o_i⟩): dq_i = Σ_j ds_ij · k_j / √D,
//!   dk_j = Σ_i ds_ij · q_i / √D, dv_j = Σ_i p_ij · do_i.
//!
//! Shapes: q, k, v, o and their gradients \[R, heads·D\] of the element type, lse f32 \[R, heads\], segments u32 \[R,2\] (first
//! row, and one past the last), order u32 \[S\], offsets u32 \[E+1\]. Rows from offsets\[E\] on belong to no segment: their
//! values don't matter, and their outputs are 0. D is at most 128.
//!
//! With P the sum of squared lengths of all segments, halved when causal: 4·P·heads·D FLOPs forward and 16·P·heads·D backward.
//! Bytes: 4·R·heads·D elements forward, and each segment's rows again from cache.
//!
//! A segment's results equal those of a [`crate::attention`] of that segment alone ([`Problem::of_segment`]). One attention over
//! all R rows, with segments as documents, has the same formula; but there a row's last bits depend on where its segment lies,
//! and the work grows with R² on devices that learn the documents only at run time.

use crate::attention::{self, Rule, Rules, Sizes, Tables};
use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::permute::{Sorted, check_row_bound};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The largest D: a unit keeps up to three rows of a head.
pub const MAX_HEAD_DIM: usize = 128;

getters! {
    /// Which rows form a segment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Segments {
        /// Slots S.
        slots: usize,
        /// Sorted rows R.
        rows: usize,
        /// Experts E.
        experts: usize,
        /// Slots per sequence.
        sequence_slots: usize,
    }
}

impl Segments {
    /// The segments of `slots` = T·`top_k` slots in sequences of `sequence` tokens; the last sequence may be shorter.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, `slots` isn't a multiple of `top_k`, or there are more slots than 30 bits count.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        sequence: usize,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[
            ("experts", experts),
            ("top_k", top_k),
            ("sequence", sequence),
        ])?;
        Mismatch::of_tokens(slots, top_k)?;
        Mismatch::unless(slots < 1 << 30, "slots", "fewer than 2^30", slots)?;
        Ok(Self {
            slots,
            rows: slots,
            experts,
            // A sequence longer than all tokens counts as one of all tokens.
            sequence_slots: sequence.min((slots / top_k).max(1)) * top_k,
        })
    }

    /// A copy with at most `rows` sorted rows for every routing.
    ///
    /// # Errors
    /// [`Mismatch`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, Mismatch> {
        check_row_bound(rows, self.slots)?;
        Ok(Self { rows, ..self })
    }

    /// Repeats the constructors' checks for deserialised segments.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let all = Self::new(self.slots, self.experts, 1, self.sequence_slots)?;
        all.with_row_bound(self.rows).map(drop)
    }
}

/// The oracle of segments: for every row, (first row, one past the last) of its segment \[R,2\].
pub fn reference_segments(segments: &Segments, sorted: &Sorted) -> Vec<u32> {
    let mut found = vec![0; 2 * segments.rows];
    for e in 0..segments.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        let sequence = |row: usize| sorted.order[row] as usize / segments.sequence_slots;
        for row in rows.clone() {
            let mut same = rows
                .clone()
                .filter(|other| sequence(*other) == sequence(row));
            let first = same.next().unwrap_or(row);
            let last = same.next_back().unwrap_or(first);
            found[2 * row] = first as u32;
            found[2 * row + 1] = last as u32 + 1;
        }
    }
    found
}

getters! {
    /// Attention of some heads within [`Segments`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// Which rows form a segment.
        segments: Segments,
        /// The number of heads.
        heads: usize,
        /// Values per head D.
        head_dim: usize,
        /// Type of the rows.
        element: Element => with_element,
        /// Whether a row attends only to itself and the rows before it.
        causal: bool => with_causal,
    }
}

impl Problem {
    /// An attention of `heads` heads of `head_dim` values in f32, not causal.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, `head_dim` exceeds 128, or an index would not fit 31 bits.
    pub fn new(segments: Segments, heads: usize, head_dim: usize) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("heads", heads)])?;
        let right = (1..=MAX_HEAD_DIM).contains(&head_dim);
        let expected = format_args!("1 to {MAX_HEAD_DIM}");
        Mismatch::unless(right, "head size", expected, head_dim)?;
        let right = fits(&[heads, head_dim.max(2), segments.rows()]);
        let expected = "matrices of at most 2^31 - 1 elements";
        let got = format_args!("{} rows, {heads} heads of {head_dim}", segments.rows());
        Mismatch::unless(right, "segment attention", expected, got)?;
        Ok(Self {
            segments,
            heads,
            head_dim,
            element: Element::F32,
            causal: false,
        })
    }

    /// Repeats the constructors' checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.segments.check()?;
        Self::new(self.segments, self.heads, self.head_dim).map(drop)
    }

    /// The number of sorted rows R.
    pub fn rows(&self) -> usize {
        self.segments.rows()
    }

    /// The number of elements of each of q, k, v and o.
    pub fn elements(&self) -> usize {
        self.heads_of_rows() * self.head_dim
    }

    /// The number of (row, head) pairs, which is the number of elements of lse.
    pub fn heads_of_rows(&self) -> usize {
        self.rows() * self.heads
    }

    /// The attention of a single segment of `rows` rows, in f32.
    pub fn of_segment(&self, rows: usize) -> attention::Problem {
        let sizes = Sizes {
            batch: 1,
            heads: self.heads,
            kv_heads: self.heads,
            queries: rows,
            keys: rows,
            head_dim: self.head_dim,
            value_dim: self.head_dim,
        };
        let rules = Rules::new(self.causal.then_some(Rule::Causal));
        let problem = rules.and_then(|rules| attention::Problem::new(sizes)?.with_rules(rules));
        problem.unwrap_or_else(|wrong| unreachable!("all rows together fit, but {wrong}"))
    }

    /// Copies a segment's rows of x \[R, heads·n\] into the layout of [`Self::of_segment`], \[heads, rows, n\].
    pub fn by_head<T: Copy>(&self, x: &[T], segment: Range<usize>) -> Vec<T> {
        let n = x.len() / self.heads_of_rows();
        let mut found = Vec::with_capacity(segment.len() * self.heads * n);
        for head in 0..self.heads {
            for row in segment.clone() {
                found.extend_from_slice(&x[(row * self.heads + head) * n..][..n]);
            }
        }
        found
    }

    /// Writes a segment's rows \[heads, rows, n\] into x \[R, heads·n\].
    pub fn put_by_head<T: Copy>(&self, x: &mut [T], segment: Range<usize>, found: &[T]) {
        let n = x.len() / self.heads_of_rows();
        let places = (0..self.heads).flat_map(|head| segment.clone().map(move |row| (row, head)));
        for ((row, head), values) in places.zip(found.chunks_exact(n)) {
            x[(row * self.heads + head) * n..][..n].copy_from_slice(values);
        }
    }
}

/// The distinct non-empty segments of `segments` \[R,2\].
fn each(segments: &[u32]) -> impl Iterator<Item = Range<usize>> {
    let spans = segments.chunks_exact(2);
    let spans = spans.map(|span| span[0] as usize..span[1] as usize);
    let first = |(row, span): &(usize, Range<usize>)| span.start == *row && !span.is_empty();
    spans.enumerate().filter(first).map(|(_, span)| span)
}

/// The oracle of the forward pass, in f64: o \[R, heads·D\] and lse \[R, heads\] for q, k and v \[R, heads·D\] and `segments`
/// \[R,2\].
pub fn reference(problem: &Problem, segments: &[u32], qkv: [&[f64]; 3]) -> [Vec<f64>; 2] {
    let mut results = [problem.elements(), problem.heads_of_rows()].map(|n| vec![0.0; n]);
    for segment in each(segments) {
        let [q, k, v] = &qkv.map(|x| problem.by_head(x, segment.clone()));
        let tables = Tables::default();
        let inputs = attention::Inputs { q, k, v, tables };
        let attended = attention::reference(&problem.of_segment(segment.len()), &inputs);
        for (result, found) in results.iter_mut().zip([attended.o, attended.lse]) {
            problem.put_by_head(result, segment.clone(), &found);
        }
    }
    results
}

/// The oracle of the backward pass, in f64: the gradients of q, k and v \[R, heads·D\] for the gradient `d_o` of o.
pub fn reference_backward(
    problem: &Problem,
    segments: &[u32],
    qkv: [&[f64]; 3],
    d_o: &[f64],
) -> [Vec<f64>; 3] {
    let mut gradients = [(); 3].map(|()| vec![0.0; problem.elements()]);
    for segment in each(segments) {
        let [q, k, v] = &qkv.map(|x| problem.by_head(x, segment.clone()));
        let d_o = problem.by_head(d_o, segment.clone());
        let d_lse = vec![0.0; segment.len() * problem.heads];
        let tables = Tables::default();
        let inputs = attention::Inputs { q, k, v, tables };
        let of_segment = problem.of_segment(segment.len());
        let d = attention::reference_backward(&of_segment, &inputs, &d_o, &d_lse);
        for (gradient, found) in gradients.iter_mut().zip([d.dq, d.dk, d.dv]) {
            problem.put_by_head(gradient, segment.clone(), &found);
        }
    }
    gradients
}

#[cfg(test)]
#[path = "segment_attention_tests.rs"]
mod tests;
