//! Feed-forward experts: two products per slot, and the weighted sum of a token's slots.

mod backward;
mod forward;
mod pieces;

use crate::permute::{Segments, combined, padded};
use crate::spare::Spare;
use crate::values::Matrices;
use backward::Backward;
pub use backward::{Gradients, WeightGradients};
use forward::Forward;
pub use forward::Stage;
use moebius_ops::experts::Problem;
pub use pieces::Weights;

/// What a forward pass reads.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The sort of the slots.
    pub segments: &'a Segments,
    /// \[T,H\].
    pub x: Matrices<'a>,
    /// The router's \[T,K\].
    pub weights: &'a [f32],
    /// The experts'.
    pub experts: Weights<'a>,
}

impl<'a> Operands<'a> {
    /// Both products, for rows of these `tokens`.
    fn forward(&self, problem: &'a Problem, tokens: &'a [u32]) -> Forward<'a> {
        Forward {
            problem,
            tokens,
            x: self.x,
            experts: self.experts,
        }
    }
}

/// y \[T,H\], and with `keep` the first product before its activation \[R, f or 2f\]. `ended` is told each stage, which then takes all rows
/// before the next.
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

/// The gradients from dy \[T,H\], of x and of what the experts have where they are needed; `pre` is what the forward pass kept.
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
