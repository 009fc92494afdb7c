//! The backward pass of feed-forward experts.

use super::{Forward, Piece, pieces_of};
use crate::expert_activation::{Through, dot};
use crate::permute::{Segments, combined, scale_rows, selected};
use crate::product::{
    Factor, Lines, MOST_ROWS, Product, Run, Spread, one_after_the_other, products_into,
};
use crate::spare::Spare;
use crate::values::Matrices;
use std::ops::Range;

/// The least number of rows per thread in a group of experts that go through the pass together.
const ROWS_OF_THREAD: usize = 2 * MOST_ROWS;

/// One backward pass.
pub(super) struct Backward<'a> {
    pub(super) forward: Forward<'a>,
    pub(super) segments: &'a Segments,
    /// The gradient of y, \[T,H\].
    pub(super) dy: &'a [f32],
    /// The first product of the sorted rows, if the forward pass kept it.
    pub(super) pre: Option<&'a [f32]>,
    /// Router weights of the sorted rows.
    pub(super) weights: Vec<f32>,
}

/// Gradients of a forward pass.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of x \[T,H\], if it is needed.
    pub x: Option<Vec<f32>>,
    /// The gradient of the router weights \[T,K\].
    pub weights: Vec<f32>,
    /// The gradients of the experts' weights and biases, if they are needed.
    pub experts: Option<WeightGradients>,
}

/// Gradients of the weights and biases of all experts.
#[derive(Clone, Debug)]
pub struct WeightGradients {
    /// The gradient of the first weight, \[E, f or 2f, H\].
    pub w_in: Vec<f32>,
    /// The gradient of the second weight, \[E,H,f\].
    pub w_out: Vec<f32>,
    /// The gradient of the first bias, \[E, f or 2f\]; empty without biases.
    pub b_in: Vec<f32>,
    /// The gradient of the second bias, \[E,H\]; empty without biases.
    pub b_out: Vec<f32>,
}

impl Backward<'_> {
    /// Computes the gradients of the router weights, and, where needed, of x and of weights and biases. A few experts at a time go through
    /// all products, so that intermediate results take little memory, which is used again.
    pub(super) fn run(&self, [of_x, of_experts]: [bool; 2]) -> Gradients {
        let (problem, segments) = (self.forward.problem, self.segments);
        let (rows, top_k) = (segments.order.len(), problem.routing.top_k());
        let (hidden, inter, columns) = (problem.hidden, problem.inter, problem.columns_in());
        let width = if of_x { hidden } else { 0 };
        let (mut dx, mut dots) = (Spare::new(rows * width), vec![0.0; rows]);
        let mut sums = of_experts.then(|| self.zeros());
        for experts in self.together() {
            let rows = segments.rows_of(experts.clone());
            let mut weighted = Spare::new(rows.len() * inter);
            let mut dpre = Spare::new(rows.len() * columns);
            let dx = &mut dx[rows.start * width..rows.end * width];
            let results = [
                (&mut weighted[..], inter),
                (&mut dpre[..], columns),
                (dx, width),
                (&mut dots[rows.clone()], 1),
            ];
            let pieces = pieces_of(segments, experts.clone(), results);
            let spread = Spread::of(pieces.len(), rows.len() * hidden * columns);
            spread.each(pieces, |piece| self.piece(piece, spread));
            if let Some(sums) = &mut sums {
                self.of_weights(experts, (&weighted, &dpre), sums);
            }
        }
        if let Some(sums) = sums.as_mut().filter(|_| problem.bias) {
            sums.b_out = self.of_last_bias();
        }
        Gradients {
            x: of_x.then(|| combined(&dx, None, segments, [top_k, hidden])),
            weights: segments.to_slots(&dots),
            experts: sums,
        }
    }

    /// Splits the experts into groups that go through the pass together: as small as possible, but with enough rows for all threads.
    fn together(&self) -> Vec<Range<usize>> {
        let least = ROWS_OF_THREAD * rayon::current_num_threads();
        let (mut all, mut first) = (Vec::new(), 0);
        for end in 1..=self.segments.experts() {
            let rows = self.segments.rows_of(first..end).len();
            if rows >= least || end == self.segments.experts() {
                all.push(first..end);
                first = end;
            }
        }
        all
    }

    fn zeros(&self) -> WeightGradients {
        let problem = self.forward.problem;
        let (experts, columns) = (self.segments.experts(), problem.columns_in());
        let of_bias = if problem.bias { columns } else { 0 };
        let zeros = |size: usize| vec![0.0; experts * size];
        WeightGradients {
            w_in: zeros(columns * problem.hidden),
            w_out: zeros(problem.hidden * problem.inter),
            b_in: zeros(of_bias),
            b_out: Vec::new(),
        }
    }

    fn piece(&self, piece: Piece<4>, spread: Spread) {
        let (problem, experts) = (self.forward.problem, self.forward.experts);
        let Piece {
            expert,
            rows,
            to: [weighted, dpre, dx, dots],
        } = piece;
        let columns = problem.columns_in();
        let again;
        let pre = match self.pre {
            Some(pre) => &pre[rows.start * columns..rows.end * columns],
            None => {
                again = self.forward.first_of((expert, &rows), spread);
                &*again
            }
        };
        // This is the gradient of the hidden activations before the router weight.
        let dhidden = self.dhidden(expert, &rows, spread);
        let weights = &self.weights[rows.clone()];
        let through = Through {
            weighted,
            dpre: &mut *dpre,
            dots: &mut *dots,
        };
        through.activation(problem, pre, &dhidden, weights);
        // ⟨dy, W h + b⟩ = ⟨Wᵀ dy, h⟩ + ⟨dy, b⟩, so that W h + b isn't needed.
        if let Some(bias) = experts.bias(1, expert, problem.hidden) {
            for (sum, token) in dots.iter_mut().zip(&self.forward.tokens[rows.clone()]) {
                let dy = &self.dy[*token as usize * problem.hidden..][..problem.hidden];
                *sum += dot(dy, bias);
            }
        }
        if !dx.is_empty() {
            let left = Factor::of_slice(dpre, columns, Run::Along);
            let right = Factor::stacked(experts.w_in, expert, Run::Across);
            let sizes = [rows.len(), columns, problem.hidden];
            Product::new(left, right, sizes).of_rows(0..rows.len(), dx, spread);
        }
    }

    /// Computes dy · W_out for some rows of an expert.
    fn dhidden(&self, expert: usize, rows: &Range<usize>, spread: Spread) -> Spare {
        let problem = self.forward.problem;
        let left = Factor {
            lines: Lines::At(&self.forward.tokens[rows.clone()]),
            ..Factor::rows(self.of_tokens())
        };
        let right = Factor::stacked(self.forward.experts.w_out, expert, Run::Across);
        let mut to = Spare::new(rows.len() * problem.inter);
        let sizes = [rows.len(), problem.hidden, problem.inter];
        Product::new(left, right, sizes).of_rows(0..rows.len(), &mut to, spread);
        to
    }

    /// dy as a matrix.
    fn of_tokens(&self) -> Matrices<'_> {
        Matrices::of_slice(self.dy, self.forward.problem.hidden)
    }

    /// Computes the gradients of W_in, W_out and b_in of some experts.
    fn of_weights(
        &self,
        experts: Range<usize>,
        (weighted, dpre): (&[f32], &[f32]),
        sums: &mut WeightGradients,
    ) {
        let (problem, segments, forward) = (self.forward.problem, self.segments, &self.forward);
        let (hidden, inter, columns) = (problem.hidden, problem.inter, problem.columns_in());
        let first = segments.rows_of(experts.clone()).start;
        let tokens = |matrix, rows: Range<usize>| Factor {
            lines: Lines::At(&forward.tokens[rows]),
            ..Factor::columns(matrix)
        };
        let between = |values, width, rows: Range<usize>| Factor {
            lines: Lines::From(rows.start - first),
            ..Factor::of_slice(values, width, Run::Across)
        };
        let product = |e| {
            let (rows, x) = (segments.rows(e), tokens(forward.x, segments.rows(e)));
            let sizes = [columns, rows.len(), hidden];
            Product::new(between(dpre, columns, rows), x, sizes)
        };
        let of_in: Vec<_> = experts.clone().map(product).collect();
        let product = |e| {
            let (rows, dy) = (segments.rows(e), tokens(self.of_tokens(), segments.rows(e)));
            let sizes = [hidden, rows.len(), inter];
            Product::new(dy, between(weighted, inter, rows), sizes)
        };
        let of_out: Vec<_> = experts.clone().map(product).collect();
        let before = experts.start * hidden;
        let mut to = one_after_the_other(&of_in, &mut sums.w_in[before * columns..]);
        let w_out = &mut sums.w_out[before * inter..];
        to.extend(one_after_the_other(&of_out, w_out));
        let all: Vec<_> = of_in.into_iter().chain(of_out).collect();
        products_into(&all, to);
        if problem.bias {
            let b_in = &mut sums.b_in[experts.start * columns..experts.end * columns];
            segments.add_sums(experts, dpre, b_in);
        }
    }

    /// Computes the gradient of b_out: the sum of the rows of dy, each times its router weight.
    fn of_last_bias(&self) -> Vec<f32> {
        let hidden = self.forward.problem.hidden;
        let mut weighted = selected(self.dy, hidden, self.forward.tokens);
        scale_rows(&mut weighted, hidden, &self.weights);
        self.segments.sums(&weighted, hidden)
    }
}
