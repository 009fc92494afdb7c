//! The experts forward.

use super::pieces::{Piece, Weights, pieces_of};
use crate::expert_activation::HiddenActivation;
use crate::permute::Segments;
use crate::product::{Factor, Lines, Product, Run, Spread};
use crate::spare::Spare;
use crate::values::Matrices;
use moebius_ops::experts::Problem;
use std::ops::Range;

/// What of a forward pass has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first product of all rows.
    FirstProduct,
    /// The activation and the second product of all rows.
    SecondProduct,
    /// The weighted sums of the tokens' rows.
    Combine,
}

/// Both products of every expert.
pub(super) struct Forward<'a> {
    pub(super) problem: &'a Problem,
    /// Of the sorted rows.
    pub(super) tokens: &'a [u32],
    pub(super) x: Matrices<'a>,
    pub(super) experts: Weights<'a>,
}

impl Forward<'_> {
    /// y of the sorted rows, and the first product where there is room for it. Few rows at a time go through both products, so that
    /// what is between them takes little memory; all go through one after the other where the stages are timed.
    pub(super) fn run(
        &self,
        segments: &Segments,
        (y, pre): (&mut [f32], &mut [f32]),
        ended: Option<&dyn Fn(Stage)>,
    ) {
        let kept = match pre.len() {
            0 => 0,
            _ => self.problem.columns_in(),
        };
        let results = [(y, self.problem.hidden), (pre, kept)];
        let pieces = pieces_of(segments, 0..segments.experts(), results);
        let work = segments.order.len()
            * self.problem.hidden
            * (self.problem.columns_in() + self.problem.inter);
        let spread = Spread::of(pieces.len(), work);
        let Some(ended) = ended else {
            spread.each(pieces, |piece| {
                self.second(self.kept_or_new(piece, spread), spread);
            });
            return;
        };
        let pieces = spread.each(pieces, |piece| self.kept_or_new(piece, spread));
        ended(Stage::FirstProduct);
        spread.each(pieces, |piece| self.second(piece, spread));
        ended(Stage::SecondProduct);
    }

    /// A piece and its first product, in memory of its own where it isn't kept.
    fn kept_or_new<'a>(
        &self,
        piece: Piece<'a, 2>,
        spread: Spread,
    ) -> (Piece<'a, 2>, Option<Spare>) {
        let of = (piece.expert, &piece.rows);
        let pre = if piece.to[1].is_empty() {
            Some(self.first_of(of, spread))
        } else {
            self.first(of, piece.to[1], spread);
            None
        };
        (piece, pre)
    }

    /// x · W_inᵀ + b_in of some rows of an expert.
    pub(super) fn first(&self, (e, rows): (usize, &Range<usize>), to: &mut [f32], spread: Spread) {
        let (inner, columns) = (self.problem.hidden, self.problem.columns_in());
        let left = Factor {
            lines: Lines::At(&self.tokens[rows.clone()]),
            ..Factor::rows(self.x)
        };
        let right = Factor::stacked(self.experts.w_in, e, Run::Along);
        let product = Product {
            bias: self.experts.bias(0, e, columns),
            ..Product::new(left, right, [rows.len(), inner, columns])
        };
        product.of_rows(0..rows.len(), to, spread);
    }

    /// The same, in memory of its own.
    pub(super) fn first_of(&self, of: (usize, &Range<usize>), spread: Spread) -> Spare {
        let mut to = Spare::new(of.1.len() * self.problem.columns_in());
        self.first(of, &mut to, spread);
        to
    }

    /// act(pre) · W_outᵀ + b_out.
    fn second(&self, (piece, pre): (Piece<2>, Option<Spare>), spread: Spread) {
        let (inner, columns) = (self.problem.inter, self.problem.hidden);
        let Piece {
            expert,
            rows,
            to: [y, kept],
        } = piece;
        let mut hidden = Spare::new(rows.len() * inner);
        HiddenActivation::of(self.problem).activate(pre.as_deref().unwrap_or(kept), &mut hidden);
        let right = Factor::stacked(self.experts.w_out, expert, Run::Along);
        let left = Factor::of_slice(&hidden, inner, Run::Along);
        let product = Product {
            bias: self.experts.bias(1, expert, columns),
            ..Product::new(left, right, [rows.len(), inner, columns])
        };
        product.of_rows(0..rows.len(), y, spread);
    }
}
