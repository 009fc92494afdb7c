//! The experts forward.

use super::activation::activated;
use super::{Experts, Piece, pieces_of};
use crate::ops::StageClock;
use crate::ops::host::{Rows, float_tensor};
use crate::ops::host_product::{Factor, Lines, Product, Run, Spread};
use crate::ops::rows::host::Segments;
use moebius_ops::moe::Problem;
use moebius_shaders::moe::Stage;
use std::ops::Range;

/// Both products of every expert.
pub(super) struct Forward<'a> {
    pub(super) problem: &'a Problem,
    /// Of the sorted rows.
    pub(super) tokens: &'a [u32],
    pub(super) x: &'a Rows,
    pub(super) experts: &'a Experts,
}

impl Forward<'_> {
    /// y of the sorted rows, and the first product where there is room for it. Few rows at a time go through both products, so that
    /// what is between them takes little memory; all go through one after the other where the stages are timed.
    pub(super) fn run(
        &self,
        segments: &Segments,
        (y, pre): (&mut [f32], &mut [f32]),
        clock: Option<&StageClock>,
    ) {
        let kept = match pre.len() {
            0 => 0,
            _ => self.problem.columns_in(),
        };
        let pieces = pieces_of(segments, [(y, self.problem.hidden), (pre, kept)]);
        let work = segments.order.len()
            * self.problem.hidden
            * (self.problem.columns_in() + self.problem.inter);
        let spread = Spread::of(pieces.len(), work);
        let Some(clock) = clock else {
            spread.each(pieces, |piece| {
                let pre = self.first((piece.expert, &piece.rows), spread);
                self.second(piece, pre, spread);
            });
            return;
        };
        let pieces = spread.each(pieces, |piece| {
            (self.first((piece.expert, &piece.rows), spread), piece)
        });
        clock.mark(Stage::Gemm1);
        spread.each(pieces, |(pre, piece)| self.second(piece, pre, spread));
        clock.mark(Stage::Gemm2);
    }

    /// x · W_inᵀ + b_in of some rows of an expert.
    pub(super) fn first(&self, (e, rows): (usize, &Range<usize>), spread: Spread) -> Rows {
        let (inner, columns) = (self.problem.hidden, self.problem.columns_in());
        let left = Factor {
            lines: Lines::At(&self.tokens[rows.clone()]),
            ..Factor::rows(self.x)
        };
        let right = Factor::stacked(&self.experts.w_in, e, Run::Along);
        let product = Product {
            bias: self.experts.bias(0, e, columns),
            ..Product::new(left, right, [rows.len(), inner, columns])
        };
        let mut pre = vec![0.0; rows.len() * columns];
        product.of_rows(0..rows.len(), &mut pre, spread);
        float_tensor(pre, &[rows.len(), columns])
    }

    /// act(pre) · W_outᵀ + b_out.
    fn second(&self, piece: Piece<2>, pre: Rows, spread: Spread) {
        let (inner, columns) = (self.problem.inter, self.problem.hidden);
        let Piece {
            expert,
            rows,
            to: [y, kept],
        } = piece;
        if !kept.is_empty() {
            kept.copy_from_slice(pre.storage());
        }
        let hidden = activated(self.problem, pre).to_contiguous();
        let right = Factor::stacked(&self.experts.w_out, expert, Run::Along);
        let product = Product {
            bias: self.experts.bias(1, expert, columns),
            ..Product::new(Factor::rows(&hidden), right, [rows.len(), inner, columns])
        };
        product.of_rows(0..rows.len(), y, spread);
    }
}
