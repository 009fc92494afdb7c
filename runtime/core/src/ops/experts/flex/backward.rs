//! The experts backward.

use super::activation::{activated, through_activation};
use super::forward::Forward;
use super::{Piece, pieces_of};
use crate::ops::host::{Rows, cast_like, float_tensor, floats, rows_of, select_rows};
use crate::ops::host_product::{Factor, Lines, Product, Run, Spread};
use crate::ops::rows::host::{Segments, combined, row_dots};
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::DType;
use std::ops::Range;

/// One backward pass.
pub(super) struct Backward<'a> {
    pub(super) forward: Forward<'a>,
    pub(super) segments: &'a Segments,
    /// \[T,H\].
    pub(super) dy: &'a Rows,
    /// The first product of the sorted rows, where it was kept.
    pub(super) pre: Option<Rows>,
    /// Router weights of the sorted rows.
    pub(super) weights: Vec<f32>,
}

/// What a pass computes of all sorted rows, before sums over them.
struct OfRows {
    /// \[R,f\], the hidden activations times the router weights.
    hidden: Vec<f32>,
    /// \[R, f or 2f\], the first product's gradient.
    dpre: Vec<f32>,
    /// \[R,H\], those of x, where they are needed.
    dx: Vec<f32>,
    /// \[R\], those of the router weights.
    dots: Vec<f32>,
}

impl Backward<'_> {
    /// Gradients of x where it is needed, the router weights, and of weights and biases where they are.
    pub(super) fn run(&self, [of_x, of_experts]: [bool; 2], dtype: DType) -> Vec<Rows> {
        let (problem, segments) = (self.forward.problem, self.segments);
        let of_rows = self.rows(of_x);
        let top_k = problem.routing.top_k();
        let x = of_x.then(|| {
            let rows = float_tensor(of_rows.dx, &[segments.order.len(), problem.hidden]);
            let dx = combined(&[rows], None, segments, [top_k, problem.hidden]);
            cast_like(dx, dtype)
        });
        let weights = segments.to_slots(&of_rows.dots, top_k);
        let of_weights = match of_experts {
            true => self.of_weights(of_rows.hidden, of_rows.dpre),
            false => Vec::new(),
        };
        let of_weights = of_weights.into_iter().map(|sum| cast_like(sum, dtype));
        x.into_iter().chain([weights]).chain(of_weights).collect()
    }

    fn rows(&self, of_x: bool) -> OfRows {
        let problem = self.forward.problem;
        let rows = self.segments.order.len();
        let of_x = if of_x { problem.hidden } else { 0 };
        let widths = [problem.inter, problem.columns_in(), of_x, 1];
        let [mut hidden, mut dpre, mut dx, mut dots] = widths.map(|width| vec![0.0; rows * width]);
        let to = [&mut hidden, &mut dpre, &mut dx, &mut dots].map(Vec::as_mut_slice);
        let [a, b, c, d] = to;
        let to = [(a, widths[0]), (b, widths[1]), (c, widths[2]), (d, 1)];
        let pieces = pieces_of(self.segments, to);
        let spread = Spread::of(pieces.len(), rows * problem.hidden * problem.columns_in());
        spread.each(pieces, |piece| self.piece(piece, spread));
        OfRows {
            hidden,
            dpre,
            dx,
            dots,
        }
    }

    fn piece(&self, piece: Piece<4>, spread: Spread) {
        let (problem, experts) = (self.forward.problem, self.forward.experts);
        let Piece {
            expert,
            rows,
            to: [weighted, to_dpre, dx, dots],
        } = piece;
        let pre = match &self.pre {
            Some(pre) => rows_of(pre.clone(), rows.start, rows.end),
            None => self.forward.first((expert, &rows), spread),
        };
        let hidden = activated(problem, pre.clone()).to_contiguous();
        // Of the hidden activations, before the router weight.
        let dhidden = self.dhidden(expert, &rows, spread);
        // ⟨dy, W h + b⟩ = ⟨Wᵀ dy, h⟩ + ⟨dy, b⟩: the answers themselves aren't needed.
        dots.copy_from_slice(&row_dots(&dhidden, &hidden));
        if let Some(bias) = experts.bias(1, expert, problem.hidden) {
            let dy = floats(self.dy_of(&rows));
            for (dot, dy) in dots.iter_mut().zip(dy.chunks(problem.hidden)) {
                *dot += dy.iter().zip(bias).map(|(dy, b)| dy * b).sum::<f32>();
            }
        }
        let weights = &self.weights[rows.clone()];
        let lines = weighted.chunks_mut(problem.inter).zip(weights);
        let hidden: &[f32] = hidden.storage();
        for ((to, weight), hidden) in lines.zip(hidden.chunks(problem.inter)) {
            for (to, hidden) in to.iter_mut().zip(hidden) {
                *to = hidden * weight;
            }
        }
        let column = float_tensor(weights.to_vec(), &[rows.len(), 1]);
        let dpre = through_activation(problem, &pre, Flex::float_mul(dhidden, column));
        let dpre = dpre.to_contiguous();
        to_dpre.copy_from_slice(dpre.storage());
        if !dx.is_empty() {
            let right = Factor::stacked(&experts.w_in, expert, Run::Across);
            let sizes = [rows.len(), problem.columns_in(), problem.hidden];
            Product::new(Factor::rows(&dpre), right, sizes).of_rows(0..rows.len(), dx, spread);
        }
    }

    /// dy · W_out of some rows of an expert.
    fn dhidden(&self, expert: usize, rows: &Range<usize>, spread: Spread) -> Rows {
        let problem = self.forward.problem;
        let left = Factor {
            lines: Lines::At(&self.forward.tokens[rows.clone()]),
            ..Factor::rows(self.dy)
        };
        let right = Factor::stacked(&self.forward.experts.w_out, expert, Run::Across);
        let mut to = vec![0.0; rows.len() * problem.inter];
        let sizes = [rows.len(), problem.hidden, problem.inter];
        Product::new(left, right, sizes).of_rows(0..rows.len(), &mut to, spread);
        float_tensor(to, &[rows.len(), problem.inter])
    }

    /// dy of some rows.
    fn dy_of(&self, rows: &Range<usize>) -> Rows {
        select_rows(self.dy.clone(), &self.forward.tokens[rows.clone()])
    }

    /// Those of W_in and W_out, and of the biases where there are some.
    fn of_weights(&self, hidden: Vec<f32>, dpre: Vec<f32>) -> Vec<Rows> {
        let (problem, rows) = (self.forward.problem, self.segments.order.len());
        let hidden = float_tensor(hidden, &[rows, problem.inter]);
        let dpre = float_tensor(dpre, &[rows, problem.columns_in()]);
        let tokens = Some(self.forward.tokens);
        let mut all = vec![
            self.segments.outer((&dpre, None), (self.forward.x, tokens)),
            self.segments.outer((self.dy, tokens), (&hidden, None)),
        ];
        if problem.bias {
            let weights = float_tensor(self.weights.clone(), &[rows, 1]);
            let weighted = Flex::float_mul(self.dy_of(&(0..rows)), weights);
            all.push(self.segments.sums(&dpre));
            all.push(self.segments.sums(&weighted));
        }
        all
    }
}
