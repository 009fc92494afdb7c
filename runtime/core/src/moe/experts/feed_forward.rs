//! Feed-forward experts in any precision, and the shared expert that every token goes through (DeepSeekMoE, Qwen2-MoE). Experts with both
//! weights in floating point run as one fused operation, which copies no tokens and writes no intermediate combine.

use super::{
    DType, Device, Error, Like, Mismatch, Module, MoeConfig, Param, Precision, Tensor, activate,
    bias_of, biases, stacked,
};
use crate::fp8::training::Fp8Recipe;
use crate::fp8::{Codes, Instructions, Operand, Weight, changed, known_container};
use crate::moe::config::SharedExpertConfig;
use crate::ops::routing::router_logits;
use crate::ops::{self, Assignment, FeedForward, Rows, Run};
use crate::parameters::{cast_param, uniform};
use burn::tensor::activation::sigmoid;
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::{experts, routing};
use moebius_shaders::grouped_gemm::Variant;

/// expert(x) = W_out · act(W_in · x + b_in) + b_out; gated W_out · (act(G x) ∘ (U x)), where W_in
/// holds the rows of G before those of U.
///
/// Each weight has its own precision. In FP8 training, all experts of a layer share one scale for each of the two weights, tokens are
/// rounded before they are sorted, and the gradients of biases are sums of rounded gradients. FP8 codes and blocks of codes are decoded while the grouped
/// products load them, and the rows that they multiply (tokens or hidden rows) may be rounded, too. Weights with low-rank changes
/// ([`LowRank`](crate::fp8::LowRank)), and codes on a device that records gradients, multiply by separate operations, to which FP8 codes must
/// be one part unless each part has a multiple of 64 rows.
#[derive(Module, Debug)]
pub struct FeedForwardExperts {
    /// The first weight \[E,F,H\], or \[E,2F,H\] in two parts if gated: gate rows, then up rows.
    pub w_in: Weight<3>,
    /// The first bias, \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// The second weight, \[E,H,F\].
    pub w_out: Weight<3>,
    /// The second bias, \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
}

impl FeedForwardExperts {
    /// Creates `experts` experts with weights uniform in ±1/√fan_in.
    pub(in crate::moe) fn new(config: &MoeConfig, experts: usize, device: &Device) -> Self {
        let (_, h, f, columns) = config.sizes();
        Self {
            w_in: Weight::of_parts(stacked([experts, columns, h], device), config.parts()),
            b_in: biases(config.bias, [experts, columns], h, device),
            w_out: stacked([experts, h, f], device).into(),
            b_out: biases(config.bias, [experts, h], f, device),
        }
    }

    /// A copy that trains in FP8.
    ///
    /// # Errors
    /// As [`Weight::in_fp8`].
    pub fn in_fp8(self, recipe: Fp8Recipe) -> Result<Self, Error> {
        Ok(Self {
            w_in: self.w_in.in_fp8(recipe)?,
            w_out: self.w_out.in_fp8(recipe)?,
            ..self
        })
    }

    /// Computes y \[T,H\] from x \[T,H\] and router weights \[T,K\].
    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        [x, weights]: [Tensor<2>; 2],
        config: &MoeConfig,
        run: Run,
    ) -> Result<Tensor<2>, Error> {
        let dtype = x.dtype();
        if let Some(experts) = self.fused(&x.device(), config) {
            let problem = config.fused(assignment.routing(), dtype)?;
            let of = Rows::Sorted(assignment);
            return ops::experts::run(x, Some(weights), experts, of, problem, run);
        }
        let rows = self.products(Rows::Sorted(assignment), x, config)?;
        Ok(of_dtype(assignment.combine(rows, Some(weights))?, dtype))
    }

    /// Computes y \[T,H\] from x \[T,H\] if all tokens go through the one expert, without a sort; multiplies y by weights \[T,1\] in f32 if
    /// there are any.
    pub(in crate::moe) fn forward_all(
        &self,
        x: Tensor<2>,
        weights: Option<Tensor<2>>,
        config: &MoeConfig,
        variant: Option<Variant>,
    ) -> Result<Tensor<2>, Error> {
        let (dtype, of) = (x.dtype(), Rows::All(variant));
        let y = match self.fused(&x.device(), config) {
            Some(experts) => {
                let routing = routing::Problem::new(x.dims()[0], 1, 1)?;
                let problem = experts::Problem {
                    dense: true,
                    ..config.fused(routing, dtype)?
                };
                let (keep, clock) = (config.keep, None);
                ops::experts::run(x, None, experts, of, problem, Run { keep, clock })?
            }
            None => self.products(of, x, config)?,
        };
        let y = of_dtype(y, dtype);
        match weights {
            Some(weights) => ops::permute::weighted(y, weights),
            None => Ok(y),
        }
    }

    /// Returns the weights of the fused operation; `None` if the experts run as several operations.
    fn fused(&self, device: &Device, config: &MoeConfig) -> Option<FeedForward> {
        let dropping = device.is_autodiff() && config.activation_dropout > 0.0;
        let weights = [&self.w_in, &self.w_out];
        let apart = dropping || weights.iter().any(|weight| !weight.changes().is_empty());
        match (self.w_in.operand(), self.w_out.operand()) {
            (Operand::Float(w_in), Operand::Float(w_out)) if !apart => Some(FeedForward {
                w_in,
                b_in: bias_of(&self.b_in),
                w_out,
                b_out: bias_of(&self.b_out),
            }),
            _ => None,
        }
    }

    /// Computes W_out · act(W_in · x + b_in) + b_out for `rows` of x \[T,H\] by separate operations; the result may be f32 where x is not.
    fn products(
        &self,
        rows: Rows<'_>,
        x: Tensor<2>,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let (w_in, w_out) = (self.w_in.operand(), self.w_out.operand());
        for operand in [&w_in, &w_out] {
            match operand {
                Operand::Codes(codes) => codes.check(&x.device())?,
                Operand::Blocks(weights) => weights.check(&x.device())?,
                _ => {}
            }
        }
        let defined = matches!(w_in, Operand::Training(..));
        let hidden = self.hidden(rows, x, w_in, config)?;
        // The rows past the last expert's are undefined, so they become 0 before the largest magnitude of all rows is taken.
        let measured = match &w_out {
            Operand::Float(_) | Operand::Blocks(_) => false,
            Operand::Training(..) => true,
            Operand::Codes(codes) => codes.activations.measures(),
            Operand::Sparse24(_) => unreachable!("{ONLY_MATRICES}"),
        };
        let hidden = if measured && !defined {
            rows.defined(hidden)
        } else {
            hidden
        };
        self.out(rows, hidden, w_out, config)
    }

    /// Computes act(W_in · x + b_in) in the order of experts. Rows past the last expert's are 0 in FP8 training and undefined otherwise.
    fn hidden(
        &self,
        of: Rows<'_>,
        x: Tensor<2>,
        w_in: Operand<'_, 3>,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let (bias, changes) = (bias_of(&self.b_in), self.w_in.changes());
        let alone = changes.is_empty() && !x.device().is_autodiff();
        let activated = |y: Tensor<2>, rows: &Tensor<2>| {
            let y = changed(y, rows, changes, of)?;
            Ok::<_, Error>(activate(y, config))
        };
        match w_in {
            Operand::Float(w) => {
                let rows = of.gather(x)?;
                activated(of.linear(rows.clone(), w, bias)?, &rows)
            }
            Operand::Training(scales, w) => {
                let product = |x, w| of.linear(of.gather(x)?, w, bias);
                let rows = scales.apply(x, w, product)?;
                Ok(activate(of.defined(rows), config))
            }
            Operand::Codes(codes) if alone && codes.matrices.parts() == config.parts() => {
                coded(of, x, (codes, bias), config)
            }
            Operand::Codes(codes) => {
                let rows = of.gather(x)?;
                let rows = if codes.activations.measures() {
                    of.defined(rows)
                } else {
                    rows
                };
                activated(codes.plain(rows.clone(), bias, of)?, &rows)
            }
            Operand::Blocks(weights) if alone => {
                let problem = whole(of, &x, config)?;
                weights.product(x, bias, problem, of)
            }
            Operand::Blocks(weights) => {
                let rows = of.gather(x)?;
                let problem = of.product(&rows, config.columns_in())?;
                let y = weights.product(rows.clone(), bias, problem, of)?;
                activated(y, &rows)
            }
            Operand::Sparse24(_) => unreachable!("{ONLY_MATRICES}"),
        }
    }

    /// Computes W_out · hidden + b_out.
    fn out(
        &self,
        of: Rows<'_>,
        hidden: Tensor<2>,
        w_out: Operand<'_, 3>,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let bias = bias_of(&self.b_out);
        let y = match w_out {
            Operand::Float(w) => of.linear(hidden.clone(), w, bias)?,
            Operand::Training(scales, w) => {
                let product = |rows, w| of.linear(rows, w, bias);
                return Ok(of.defined(scales.apply(hidden, w, product)?));
            }
            Operand::Codes(codes) => codes.plain(hidden.clone(), bias, of)?,
            Operand::Blocks(weights) => {
                let problem = of.product(&hidden, config.hidden)?;
                weights.product(hidden.clone(), bias, problem, of)?
            }
            Operand::Sparse24(_) => unreachable!("{ONLY_MATRICES}"),
        };
        changed(y, &hidden, self.w_out.changes(), of)
    }

    /// The variant that the products need: matrix instructions on codes need the tiles of [`Variant::Unit`]. `None` where any will do.
    pub(in crate::moe) fn needed(&self) -> Option<Variant> {
        let by_matrices = |weight: &Weight<3>| weight.instructions() == Some(Instructions::Matrix);
        let needed = [&self.w_in, &self.w_out].into_iter().any(by_matrices);
        needed.then_some(Variant::Unit)
    }

    /// Returns `variant` if there is one, else the variant that the products of `x` need or, if it is the fastest for all of them, matrix
    /// instructions; `None` leaves the choice to the sort.
    pub(in crate::moe) fn variant(
        &self,
        variant: Option<Variant>,
        x: &Tensor<2>,
        config: &MoeConfig,
    ) -> Result<Option<Variant>, Error> {
        let variant = variant.or(self.needed());
        let routing = routing::Problem::new(x.dims()[0], config.experts, config.top_k())?;
        ops::experts::variant(variant, &config.fused(routing, x.dtype())?, &x.device())
    }

    /// The dtype and the device of the first weight, which the others share.
    pub(in crate::moe) fn like(&self) -> Result<Like, Mismatch> {
        Like::new(self.w_in.dtype(), self.w_in.device())
    }

    /// Whether both weights are in floating point without low-rank changes, so that a forward is fused.
    pub(in crate::moe) fn is_float(&self) -> bool {
        self.are_plain(&[Precision::Float])
    }

    /// Whether each weight is in floating point or in blocks of codes, without low-rank changes.
    pub(in crate::moe) fn has_values_or_blocks(&self) -> bool {
        self.are_plain(&[Precision::Float, Precision::Blocks])
    }

    /// Whether both weights have one of these precisions, and no low-rank changes.
    fn are_plain(&self, precisions: &[Precision]) -> bool {
        let is_plain = |weight: &Weight<3>| {
            precisions.contains(&weight.precision()) && weight.changes().is_empty()
        };
        [&self.w_in, &self.w_out].into_iter().all(is_plain)
    }

    pub(in crate::moe) fn check(
        &self,
        like: &Like,
        config: &MoeConfig,
        experts: usize,
    ) -> Result<(), Mismatch> {
        let (_, h, f, columns) = config.sizes();
        like.check_weight("w_in [E, F or 2F, H]", &self.w_in, [experts, columns, h])?;
        like.check_weight("w_out [E,H,F]", &self.w_out, [experts, h, f])?;
        for (what, weight, parts) in [
            ("parts of w_in", &self.w_in, config.parts()),
            ("parts of w_out", &self.w_out, 1),
        ] {
            if let Some(codes) = weight.codes() {
                let right = [1, parts].contains(&codes.parts());
                let expected = format_args!("1 or {parts}");
                Mismatch::unless(right, what, expected, codes.parts())?;
            }
        }
        like.check_optional("b_in", &self.b_in, config.bias, [experts, columns])?;
        like.check_optional("b_out", &self.b_out, config.bias, [experts, h])
    }

    pub(in crate::moe) fn cast(self, dtype: DType) -> Self {
        let bias = |bias: Param<Tensor<2>>| cast_param(bias, dtype);
        Self {
            w_in: self.w_in.cast(dtype),
            b_in: self.b_in.map(bias),
            w_out: self.w_out.cast(dtype),
            b_out: self.b_out.map(bias),
        }
    }

    /// Bytes of weights and biases.
    pub fn bytes(&self) -> usize {
        let biases = [&self.b_in, &self.b_out].map(|bias| {
            bias_of(bias).map_or(0, |bias| bias.shape().num_elements() * bias.dtype().size())
        });
        self.w_in.bytes() + self.w_out.bytes() + biases[0] + biases[1]
    }
}

/// Computes act(W_in · x + b_in) with the codes of W_in in one operation, or in two with matrix instructions.
fn coded(
    of: Rows<'_>,
    x: Tensor<2>,
    (codes, bias): (&Codes, Option<Tensor<2>>),
    config: &MoeConfig,
) -> Result<Tensor<2>, Error> {
    if codes.instructions == Instructions::Matrix {
        let problem = Problem {
            rows: of.tokens(),
            ..of.product(&x, config.columns_in())?
        };
        return Ok(activate(codes.product(x, bias, problem, of)?, config));
    }
    let problem = whole(of, &x, config)?;
    codes.product(x, bias, problem, of)
}

/// The product of tokens x that computes act(W_in · x + b_in) at once.
fn whole(of: Rows<'_>, x: &Tensor<2>, config: &MoeConfig) -> Result<Problem, Mismatch> {
    Ok(Problem {
        gated: config.gated,
        activation: Some(config.activation),
        rows: of.tokens(),
        ..of.product(x, config.inter)?
    })
}

/// Why no expert has 2:4 weights.
const ONLY_MATRICES: &str = "only a matrix is 2:4, and experts have stacks";

/// Casts x to `dtype` if it has another one: products with rounded activations return f32.
fn of_dtype(x: Tensor<2>, dtype: DType) -> Tensor<2> {
    if x.dtype() == dtype { x } else { x.cast(dtype) }
}

/// A feed-forward network for every token whose output, optionally times σ(x · g), is added to that of the chosen experts.
#[derive(Module, Debug)]
pub struct SharedExpert {
    /// The weights of the network, as those of one expert.
    pub experts: FeedForwardExperts,
    /// The weight g of the sigmoid gate, \[1,H\], in the dtype of the network or in f32.
    pub gate: Option<Param<Tensor<2>>>,
}

known_container!(SharedExpert, SHARED_EXPERT);

impl SharedExpert {
    /// The shared expert of `config`, with weights uniform in ±1/√fan_in; `None` if the layer has none.
    pub(in crate::moe) fn new(config: &MoeConfig, device: &Device) -> Option<Self> {
        let shared = config.shared?;
        let gate = || uniform([1, config.hidden], config.hidden, device);
        Some(Self {
            experts: FeedForwardExperts::new(&shared.alone(config), 1, device),
            gate: shared.sigmoid_gate.then(gate),
        })
    }

    /// Adds the output of the layer's shared expert for x, if there is one, to y \[T,H\].
    pub(in crate::moe) fn beside(
        shared: Option<(&Self, Tensor<2>)>,
        y: Tensor<2>,
        config: &MoeConfig,
        variant: Option<Variant>,
    ) -> Result<Tensor<2>, Error> {
        let (Some((shared, x)), Some(own)) = (shared, &config.shared) else {
            return Ok(y);
        };
        let gate = shared.gate.as_ref();
        let logits = gate.map(|gate| router_logits(x.clone(), gate.val()));
        let weights = logits.transpose()?.map(sigmoid);
        let alone = own.alone(config);
        Ok(y + shared.experts.forward_all(x, weights, &alone, variant)?)
    }

    pub(in crate::moe) fn check(
        &self,
        like: &Like,
        shared: &SharedExpertConfig,
        config: &MoeConfig,
    ) -> Result<(), Mismatch> {
        self.experts.check(like, &shared.alone(config), 1)?;
        let (what, gate) = ("shared gate [1,H]", [1, config.hidden]);
        let of_gate = self.gate.as_ref().map(|gate| like.for_logits(gate));
        let like = of_gate.as_ref().unwrap_or(like);
        like.check_optional(what, &self.gate, shared.sigmoid_gate, gate)
    }

    pub(in crate::moe) fn cast(self, dtype: DType) -> Self {
        Self {
            experts: self.experts.cast(dtype),
            gate: self.gate.map(|gate| cast_param(gate, dtype)),
        }
    }
}
