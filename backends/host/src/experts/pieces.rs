//! What experts read, and the pieces that their rows are cut into.

use crate::permute::Segments;
use crate::product::pieces;
use crate::values::Matrices;
use std::ops::Range;

/// The weights and biases of all experts.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// \[E, f or 2f, H\].
    pub w_in: Matrices<'a>,
    /// \[E,H,f\].
    pub w_out: Matrices<'a>,
    /// \[E, f or 2f\] and \[E,H\].
    pub biases: [Option<&'a [f32]>; 2],
}

impl<'a> Weights<'a> {
    /// The bias of the first or second product of expert `e`.
    pub(super) fn bias(&self, which: usize, e: usize, columns: usize) -> Option<&'a [f32]> {
        self.biases[which].map(|bias| &bias[e * columns..][..columns])
    }
}

/// Some rows of an expert, and where their results go.
pub(super) struct Piece<'a, const N: usize> {
    pub(super) expert: usize,
    pub(super) rows: Range<usize>,
    pub(super) to: [&'a mut [f32]; N],
}

/// The sorted rows of some experts, a task's at a time; results have so many values to a row.
pub(super) fn pieces_of<'a, const N: usize>(
    segments: &Segments,
    experts: Range<usize>,
    mut results: [(&'a mut [f32], usize); N],
) -> Vec<Piece<'a, N>> {
    let mut all = Vec::new();
    for expert in experts {
        let of_expert = segments.rows(expert);
        for rows in pieces(of_expert.len()) {
            let to = results.each_mut().map(|(rest, width)| {
                let (to, others) = std::mem::take(rest).split_at_mut(rows.len() * *width);
                *rest = others;
                to
            });
            all.push(Piece {
                expert,
                rows: of_expert.start + rows.start..of_expert.start + rows.end,
                to,
            });
        }
    }
    all
}
