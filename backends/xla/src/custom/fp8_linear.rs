//! Products with FP8 weights: y = act(x · Wᵀ + b), dense or per expert, W ≈ code · scale.
//!
//! Words lie in panels \[E·P·⌈n/64⌉, ⌈k/4⌉, 64\] for P parts (a gate and an up projection are two): the codes
//! of four neighbouring inner columns of an output column to a word, 64 output columns side by side.
//! Scales lie as [`super::quantize`] has them for E matrices of \[P·n, k\].
//!
//! Sums are f32. With x in f32, a weight is code · scale rounded to f32, decoded before the product or in
//! its inner loop, as XLA likes. With x in 16 bits and a scale to a row or matrix, codes are multiplied
//! as such, in the type of x, which holds them all, and the sum is scaled: what a TPU's matrix unit
//! takes in one pass instead of six. Either way the result is that of the decoded weights but for the
//! order of the sum, 10⁻⁶ of the largest result in f32. XLA chooses that order by the shapes:
//! without experts, a row's last bits depend on how many rows there are and on where it lies among them, not
//! on what the others hold; experts' rows go in blocks of one shape.

use super::experts::Activation;
use super::fp8::{Format, LANES, Overflow};
use super::grouped::{Pass, Segments, product};
use super::quantize::{Granularity, Scaling};
use super::{Lower, along, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, DotDims, TensorType, Value};
use serde::{Deserialize, Serialize};

/// Output columns of a panel.
const PANEL: usize = 64;

/// Which rows of x the sorted rows of a product read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Rows \[T,k\] of the tokens.
    Tokens,
    /// Rows \[R,k\] that are sorted already.
    Sorted,
}

/// How rows are shared out among experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// Tokens T.
    pub tokens: usize,
    /// Slots of a token K.
    pub top_k: usize,
    /// What x holds.
    pub source: Source,
}

/// A product. Operands: x \[m,k\], words, scales, and order \[T·K\] and offsets \[E+1\] if it is routed, and
/// b \[E, P·n\] if there is a bias. Result: \[m,n\] of the type of x; 0 past the last expert's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fp8Linear {
    /// Rows m, sorted ones R if it is routed.
    pub rows: usize,
    /// Experts E; 1 unless it is routed.
    pub experts: usize,
    /// Columns of the result.
    pub n: usize,
    /// Inner columns.
    pub k: usize,
    /// Format of the codes.
    pub format: Format,
    /// Which weights of an expert share a scale.
    pub granularity: Granularity,
    /// Whether there is a bias.
    pub bias: bool,
    /// Applied to the product, or to its gate.
    pub activation: Option<Activation>,
    /// Whether there are two products, multiplied after the activation of the first.
    pub gated: bool,
    /// The experts' rows; without one, all rows are the one expert's.
    pub routing: Option<Routing>,
}

impl Lower for Fp8Linear {
    fn name(&self) -> &'static str {
        match self.routing {
            Some(_) => "grouped fp8 linear",
            None => "fp8 linear",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let rows = match self.routing {
            Some(Routing {
                source: Source::Tokens,
                tokens,
                ..
            }) => tokens,
            _ => self.rows,
        };
        let scaling = self.scaling(self.experts);
        let [matrices, panels, inner, columns] = self.panels();
        let words = vec![matrices * panels, inner, columns];
        let mut shapes = vec![vec![rows, self.k], words, scaling.scales_shape()];
        if let Some(routing) = self.routing {
            shapes.push(vec![routing.tokens * routing.top_k]);
            shapes.push(vec![self.experts + 1]);
        }
        if self.bias {
            shapes.push(vec![self.experts, self.columns()]);
        }
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let (x, element) = (inputs[0], b.element(inputs[0]));
        let panels = b.reshape(inputs[1], &self.panels());
        let mut stacks = vec![panels, inputs[2]];
        let Some(routing) = self.routing else {
            stacks.extend(&inputs[3..]);
            let matrices = stacks.into_iter().map(|stack| {
                let shape = b.shape(stack);
                b.reshape(stack, &shape[1..])
            });
            let matrices = matrices.collect();
            let weights = self.prepared(b, element, matrices);
            return vec![self.multiply(b, x, &weights)];
        };
        stacks.extend(&inputs[5..]);
        let segments = Segments::new(b, self.rows, inputs[4]);
        let slots = segments.of_rows(b, inputs[3]);
        let slots = words(b, slots);
        let tokens = b.binary_scalar(Binary::Divide, slots, routing.top_k as f64);
        let pass = Pass {
            stacks: &stacks,
            rows: &[TensorType::new([self.rows, self.n], element)],
            sums: &[],
        };
        let prepare = |b: &mut Builder, matrices| self.prepared(b, element, matrices);
        segments.walk_prepared(b, &pass, prepare, |b, block, weights| {
            let x = match routing.source {
                Source::Tokens => {
                    let tokens = block.rows(b, tokens);
                    b.take(x, tokens)
                }
                Source::Sorted => block.rows(b, x),
            };
            vec![self.multiply(b, x, weights)]
        })
    }
}

impl Fp8Linear {
    fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// Output columns of both parts.
    fn columns(&self) -> usize {
        self.n * self.parts()
    }

    /// \[E, P·⌈n/64⌉, ⌈k/4⌉, 64\].
    fn panels(&self) -> [usize; 4] {
        let panels = self.parts() * self.n.div_ceil(PANEL);
        [self.experts, panels, self.k.div_ceil(LANES), PANEL]
    }

    /// The scales of so many matrices.
    fn scaling(&self, matrices: usize) -> Scaling {
        Scaling {
            shape: [matrices, self.columns(), self.k],
            granularity: self.granularity,
            format: self.format,
            overflow: Overflow::Saturate,
            margin: 0,
        }
    }

    /// Codes \[P·n, k\] of one expert's panels.
    fn codes(&self, b: &mut Builder, panels: Value) -> Value {
        let [_, count, inner, _] = self.panels();
        let panels = words(b, panels);
        let codes = b.bitcast(panels, self.format.element());
        let codes = b.transpose(codes, &[0, 2, 1, 3]);
        let rows = count / self.parts() * PANEL;
        let codes = b.reshape(codes, &[self.parts(), rows, inner * LANES]);
        let codes = b.slice_dim(codes, 1, 0..self.n);
        let codes = b.slice_dim(codes, 2, 0..self.k);
        b.reshape(codes, &[self.columns(), self.k])
    }

    /// Whether sums are scaled, rather than weights.
    fn scales_sums(&self, element: ElementType) -> bool {
        let whole_rows = matches!(self.granularity, Granularity::Tensor | Granularity::Row);
        whole_rows && element.bytes() == 2
    }

    /// Weights \[P·n, k\] for rows of `element`, f32 factors of the sums \[P·n\], and the bias if there is one.
    fn prepared(&self, b: &mut Builder, element: ElementType, matrices: Vec<Value>) -> Vec<Value> {
        let [panels, scales, bias @ ..] = matrices.as_slice() else {
            unreachable!("the operands are counted")
        };
        let codes = self.codes(b, *panels);
        let columns = self.columns();
        let (weights, factors) = if self.scales_sums(element) {
            let scales = b.convert(*scales, ElementType::F32);
            let count = b.ty(scales).elements();
            let scales = b.reshape(scales, &[count]);
            let factors = b.broadcast_to(scales, &[columns]);
            (b.convert(codes, element), factors)
        } else {
            let shape = [&[1], b.shape(*scales).as_slice()].concat();
            let scales = b.reshape(*scales, &shape);
            let scaling = self.scaling(1);
            let scales = scaling.given(b, scales);
            let codes = b.reshape(codes, &[1, columns, self.k]);
            let weights = scaling.decode(b, codes, scales);
            let ones = b.splat(1.0, TensorType::new([columns], ElementType::F32));
            (b.reshape(weights, &[columns, self.k]), ones)
        };
        [&[weights, factors], bias].concat()
    }

    /// \[rows, n\] of x and prepared weights.
    fn multiply(&self, b: &mut Builder, x: Value, weights: &[Value]) -> Value {
        let element = b.element(x);
        let [weights, factors, bias @ ..] = weights else {
            unreachable!("weights are prepared")
        };
        let x = b.convert(x, b.element(*weights));
        let mut y = product(b, x, *weights, &DotDims::matmul_transposed(0));
        let shape = b.shape(y);
        if self.scales_sums(element) {
            let factors = along(b, *factors, &shape, 1);
            y = b.mul(y, factors);
        }
        for bias in bias {
            let bias = b.convert(*bias, ElementType::F32);
            let bias = along(b, bias, &shape, 1);
            y = b.add(y, bias);
        }
        let gate = match self.gated {
            true => b.slice_dim(y, 1, 0..self.n),
            false => y,
        };
        let gate = match self.activation {
            Some(activation) => activation.value(b, gate),
            None => gate,
        };
        let y = match self.gated {
            true => {
                let up = b.slice_dim(y, 1, self.n..2 * self.n);
                b.mul(gate, up)
            }
            false => gate,
        };
        b.convert(y, element)
    }
}
