//! Feed-forward experts: two products per slot, and the weighted sum of a token's slots.

mod backward;

pub use backward::{Gradients, WeightGradients};

use crate::casts::to_bf16;
use crate::expert_activation::HiddenActivation;
use crate::permute::{Segments, combined, padded};
use crate::product::{Factor, Lines, Product, Right, Run, Spread, pieces, products_into};
use crate::spare::Spare;
use crate::values::{Matrices, Values};
use backward::Backward;
use half::bf16;
use moebius_ops::experts::Problem;
use std::ops::Range;

/// The operands of a forward pass.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The sort of the slots.
    pub segments: &'a Segments,
    /// The tokens, \[T,H\].
    pub x: Matrices<'a>,
    /// The router weights, \[T,K\].
    pub weights: &'a [f32],
    /// The weights and biases of the experts.
    pub experts: Weights<'a>,
}

impl<'a> Operands<'a> {
    /// The forward pass for rows of these `tokens`.
    fn forward(&self, problem: &'a Problem, tokens: &'a [u32]) -> Forward<'a> {
        Forward {
            problem,
            tokens,
            x: self.x,
            experts: self.experts,
        }
    }
}

/// Computes y \[T,H\], and with `keep` the first product before its activation \[R, f or 2f\]. `ended` is called at the end of each stage;
/// if it is given, each stage computes all rows before the next begins.
pub fn forward(
    problem: &Problem,
    operands: &Operands<'_>,
    keep: bool,
    ended: Option<&dyn Fn(Stage)>,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let (segments, top_k) = (operands.segments, problem.routing.top_k());
    let (rows, columns) = (segments.order.len(), problem.columns_in());
    let tokens = segments.tokens(top_k);
    let mut pre = vec![0.0; if keep { rows * columns } else { 0 }];
    let mut y = Spare::new(rows * problem.hidden);
    let forward = operands.forward(problem, &tokens);
    forward.run(segments, (&mut y, &mut pre), ended);
    let y = combined(
        &y,
        Some(operands.weights),
        segments,
        [top_k, problem.hidden],
    );
    if let Some(ended) = ended {
        ended(Stage::Combine);
    }
    (y, keep.then(|| padded(pre, problem.row_bound, columns)))
}

/// Computes the gradients from dy \[T,H\], those of x and of the experts if they are needed; `pre` is the first product that the forward
/// pass kept.
pub fn backward(
    problem: &Problem,
    operands: &Operands<'_>,
    (dy, pre): (&[f32], Option<&[f32]>),
    needs: [bool; 2],
) -> Gradients {
    let segments = operands.segments;
    let tokens = segments.tokens(problem.routing.top_k());
    let pass = Backward {
        forward: operands.forward(problem, &tokens),
        segments,
        dy,
        pre,
        weights: segments.of_rows(operands.weights),
    };
    pass.run(needs)
}

/// The stages of a forward pass, whose ends are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first product of all rows.
    FirstProduct,
    /// The activation and the second product of all rows.
    SecondProduct,
    /// The weighted sums of the tokens' rows.
    Combine,
}

/// The two products of every expert.
struct Forward<'a> {
    problem: &'a Problem,
    /// The tokens of the sorted rows.
    tokens: &'a [u32],
    x: Matrices<'a>,
    experts: Weights<'a>,
}

impl Forward<'_> {
    /// Computes y of the sorted rows, and keeps the first product if `pre` has room. A few rows at a time go through both products, so that
    /// intermediate results take little memory; if stages are timed, all rows go through one product before the next.
    fn run(
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
            if let Spread::Columns(_) = spread {
                return self.few(pieces);
            }
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

    /// Does what [`Forward::run`] does for fewer pieces than threads share: one product of all, then the other, so that rows of several experts are
    /// multiplied side by side.
    fn few(&self, pieces: Vec<Piece<'_, 2>>) {
        let (columns, inner) = (self.problem.columns_in(), self.problem.inter);
        let own = |piece: &Piece<'_, 2>| match piece.to[1].len() {
            0 => piece.rows.len() * columns,
            _ => 0,
        };
        let mut new = Spare::new(pieces.iter().map(own).sum());
        let mut rest = &mut new[..];
        let with_room = |piece| {
            let (to, others) = std::mem::take(&mut rest).split_at_mut(own(&piece));
            rest = others;
            let Piece {
                expert,
                rows,
                to: [y, kept],
            } = piece;
            let pre = if kept.is_empty() { to } else { kept };
            Piece {
                expert,
                rows,
                to: [y, pre],
            }
        };
        let mut pieces: Vec<_> = pieces.into_iter().map(with_room).collect();
        let of_piece = |piece: &Piece<'_, 2>| self.of_tokens(piece.expert, &piece.rows);
        let products: Vec<_> = pieces.iter().map(of_piece).collect();
        let to = pieces.iter_mut().map(|piece| &mut *piece.to[1]);
        products_into(&products, to.collect());
        let rows = pieces.iter().map(|piece| piece.rows.len());
        let mut hidden = Spare::new(rows.sum::<usize>() * inner);
        let mut rest = &mut hidden[..];
        for piece in &pieces {
            let (to, others) = std::mem::take(&mut rest).split_at_mut(piece.rows.len() * inner);
            rest = others;
            HiddenActivation::of(self.problem).activate(piece.to[1], to);
        }
        let hidden = self.rounded(&hidden);
        let mut first = 0;
        let of_piece = |piece: &Piece<'_, 2>| {
            let rows = first..first + piece.rows.len();
            first = rows.end;
            self.of_hidden(piece.expert, &hidden, rows)
        };
        let products: Vec<_> = pieces.iter().map(of_piece).collect();
        let to = pieces.into_iter().map(|piece| {
            let [y, _] = piece.to;
            y
        });
        products_into(&products, to.collect());
    }

    /// Computes the first product of a piece: in place if it is kept, otherwise in memory of its own.
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

    /// Computes x · W_inᵀ + b_in for some rows of an expert.
    fn first(&self, (e, rows): (usize, &Range<usize>), to: &mut [f32], spread: Spread) {
        let product = self.of_tokens(e, rows);
        product.of_rows(0..rows.len(), to, spread);
    }

    /// x · W_inᵀ + b_in of some rows of an expert.
    fn of_tokens<'a>(&'a self, e: usize, rows: &Range<usize>) -> Product<'a> {
        let (inner, columns) = (self.problem.hidden, self.problem.columns_in());
        let left = Factor {
            lines: Lines::At(&self.tokens[rows.clone()]),
            ..Factor::rows(self.x)
        };
        let right = Factor::stacked(self.experts.w_in, e, Run::Along);
        Product {
            bias: self.experts.bias(0, e, columns),
            ..Product::new(left, right, [rows.len(), inner, columns])
        }
    }

    /// Computes x · W_inᵀ + b_in in memory of its own.
    fn first_of(&self, of: (usize, &Range<usize>), spread: Spread) -> Spare {
        let mut to = Spare::new(of.1.len() * self.problem.columns_in());
        self.first(of, &mut to, spread);
        to
    }

    /// Computes act(pre) · W_outᵀ + b_out.
    fn second(&self, (piece, pre): (Piece<2>, Option<Spare>), spread: Spread) {
        let Piece {
            expert,
            rows,
            to: [y, kept],
        } = piece;
        let mut hidden = Spare::new(rows.len() * self.problem.inter);
        HiddenActivation::of(self.problem).activate(pre.as_deref().unwrap_or(kept), &mut hidden);
        let hidden = self.rounded(&hidden);
        let product = self.of_hidden(expert, &hidden, 0..rows.len());
        product.of_rows(0..rows.len(), y, spread);
    }

    /// Hidden values as the second product multiplies them. Kernels round those of a layer of bf16, too.
    fn rounded<'a>(&self, hidden: &'a [f32]) -> Hidden<'a> {
        let right = Factor::stacked(self.experts.w_out, 0, Run::Along);
        if matches!(self.x.values, Values::Bf16(_)) && right.pairs().is_some() {
            Hidden::Bf16(to_bf16(hidden))
        } else {
            Hidden::F32(hidden)
        }
    }

    /// h · W_outᵀ + b_out of some rows of an expert, which are `rows` of the hidden values.
    fn of_hidden<'a>(
        &'a self,
        e: usize,
        hidden: &'a Hidden<'_>,
        rows: Range<usize>,
    ) -> Product<'a> {
        let (inner, columns) = (self.problem.inter, self.problem.hidden);
        let values = rows.start * inner..rows.end * inner;
        let values = match hidden {
            Hidden::F32(hidden) => Values::F32(&hidden[values]),
            Hidden::Bf16(hidden) => Values::Bf16(&hidden[values]),
        };
        let left = Factor::rows(Matrices {
            values,
            rows: rows.len(),
            columns: inner,
        });
        let right = Factor::stacked(self.experts.w_out, e, Run::Along);
        Product {
            bias: self.experts.bias(1, e, columns),
            ..Product::new(left, right, [rows.len(), inner, columns])
        }
    }
}

/// Hidden values \[rows, f\].
enum Hidden<'a> {
    F32(&'a [f32]),
    Bf16(Vec<bf16>),
}

/// The weights and biases of all experts.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The first weight, \[E, f or 2f, H\].
    pub w_in: Matrices<'a>,
    /// The second weight, \[E,H,f\].
    pub w_out: Matrices<'a>,
    /// The biases of the first and second product, \[E, f or 2f\] and \[E,H\].
    pub biases: [Option<&'a [f32]>; 2],
}

impl<'a> Weights<'a> {
    /// The bias of the first or second product of expert `e`.
    fn bias(&self, which: usize, e: usize, columns: usize) -> Option<&'a [f32]> {
        self.biases[which].map(|bias| &bias[e * columns..][..columns])
    }
}

/// Some rows of an expert, and the memory for their results.
struct Piece<'a, const N: usize> {
    expert: usize,
    rows: Range<usize>,
    to: [&'a mut [f32]; N],
}

/// Splits the sorted rows of some experts into one piece per task; each result comes with its number of values per row.
fn pieces_of<'a, const N: usize>(
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
