//! Experts: the networks that a layer applies to the tokens of its slots.
//!
//! | kind | expert(x) | source |
//! |---|---|---|
//! | [`FeedForwardExperts`] | W_out · act(W_in · x), gated W_out · (act(G x) ∘ (U x)) | Shazeer et al. 2017; 2020 |
//! | [`ConvolutionalExperts`] | two convolutions of width 3 along the expert's tokens of a sequence | |
//! | [`AttentionExperts`] | self-attention among the expert's tokens of a sequence | |
//! | [`ParameterEfficientExperts`] | one frozen feed-forward network, low-rank changes per expert | Hu et al. 2021, Houlsby et al. 2019 |
//!
//! Weights are stacked \[E, out, in\]; the weights of feed-forward experts have a [precision](crate::fp8::Precision). x \[.., L, H\] holds
//! sequences of L tokens; x \[T,H\] is a single sequence.

mod attention;
pub(in crate::moe) mod feed_forward;
mod parameter_efficient;

pub use super::config::{Adapted, ExpertKind};
pub use attention::AttentionExperts;
pub use feed_forward::FeedForwardExperts;
pub use parameter_efficient::{Adaptation, AdapterWeights, LoraWeights, ParameterEfficientExperts};

use super::check::Like;
use super::config::MoeConfig;
use crate::Error;
use crate::fp8::Precision;
use crate::ops::Assignment;
use crate::parameters::{cast_all, uniform};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Distribution, Tensor, activation};
use moebius_ops::grouped_gemm::{Activation, CLAMPED_LIMIT, CLAMPED_SLOPE, TANH_CUBE, TANH_SLOPE};
use moebius_ops::{Fault, Mismatch};

/// The experts of a layer.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "handles of tensors that are far larger; a box would be in the way of every pattern"
)]
pub enum Experts {
    /// Networks of two products, or three if gated.
    FeedForward(FeedForwardExperts),
    /// Two convolutions along a sequence.
    Convolutional(ConvolutionalExperts),
    /// Self-attention within a sequence.
    Attention(AttentionExperts),
    /// One frozen network with small changes per expert.
    ParameterEfficient(ParameterEfficientExperts),
}

/// The input of the experts.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// The tokens, \[T,H\].
    pub(super) x: Tensor<2>,
    /// The router weights, \[T,K\] f32.
    pub(super) weights: Tensor<2>,
    /// The number of tokens in a sequence.
    pub(super) sequence: usize,
}

impl Experts {
    /// Creates the experts of `config` with weights uniform in ±1/√fan_in.
    pub(super) fn new(config: &MoeConfig, device: &Device) -> Result<Self, Error> {
        Ok(match config.kind {
            ExpertKind::FeedForward => {
                let experts = FeedForwardExperts::new(config, config.experts, device);
                Self::feed_forward(experts, config)?
            }
            ExpertKind::Convolutional { .. } => {
                Self::Convolutional(ConvolutionalExperts::new(config, device))
            }
            ExpertKind::Attention { .. } => Self::Attention(AttentionExperts::new(config, device)),
            ExpertKind::ParameterEfficient { form, rank } => Self::ParameterEfficient(
                ParameterEfficientExperts::new(config, (form, rank), device),
            ),
        })
    }

    /// Creates feed-forward experts, which train in FP8 if `config` says so.
    pub(super) fn feed_forward(
        experts: FeedForwardExperts,
        config: &MoeConfig,
    ) -> Result<Self, Error> {
        Ok(Self::FeedForward(match config.fp8 {
            Some(recipe) => experts.in_fp8(recipe)?,
            None => experts,
        }))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::FeedForward(experts) => match experts.w_in.precision() {
                Precision::Float => "feed-forward ones",
                Precision::Fp8Training => "feed-forward ones that train in FP8",
                Precision::Fp8 => "feed-forward ones with FP8 codes",
                Precision::Sparse24 => "feed-forward ones with 2:4 weights",
                Precision::Blocks => "feed-forward ones with weights in blocks",
            },
            Self::Convolutional(_) => "convolutional ones",
            Self::Attention(_) => "attention",
            Self::ParameterEfficient(_) => "parameter-efficient ones",
        }
    }

    /// Returns the dtype and device of the first weight, which all other weights share.
    pub(super) fn like(&self) -> Result<Like, Mismatch> {
        match self {
            Self::FeedForward(experts) => experts.like(),
            Self::Convolutional(experts) => Like::of(&experts.w_in.val()),
            Self::Attention(experts) => Like::of(&experts.w_q.val()),
            Self::ParameterEfficient(experts) => experts.frozen.like(),
        }
    }

    pub(super) fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), Mismatch> {
        let same = match (self, config.kind) {
            // Codes may come from experts that trained with or without FP8.
            (Self::FeedForward(experts), ExpertKind::FeedForward) => {
                let weights = [&experts.w_in, &experts.w_out];
                weights.iter().all(|weight| match weight.precision() {
                    Precision::Float => config.fp8.is_none(),
                    Precision::Fp8Training => config.fp8.is_some(),
                    Precision::Fp8 | Precision::Blocks => true,
                    Precision::Sparse24 => false,
                })
            }
            (Self::Convolutional(_), ExpertKind::Convolutional { .. })
            | (Self::Attention(_), ExpertKind::Attention { .. })
            | (Self::ParameterEfficient(_), ExpertKind::ParameterEfficient { .. }) => true,
            _ => false,
        };
        let expected = match config.fp8 {
            Some(_) => format!("{:?} in FP8", config.kind),
            None => format!("{:?}", config.kind),
        };
        Fault::Config.unless(same, "experts", expected, self.name())?;
        match self {
            Self::FeedForward(experts) => experts.check(like, config, config.experts),
            Self::Convolutional(experts) => experts.check(like, config),
            Self::Attention(experts) => experts.check(like, config),
            Self::ParameterEfficient(experts) => experts.check(like, config),
        }
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        match self {
            Self::FeedForward(experts) => Self::FeedForward(experts.cast(dtype)),
            Self::Convolutional(experts) => Self::Convolutional(cast_all(experts, dtype)),
            Self::Attention(experts) => Self::Attention(cast_all(experts, dtype)),
            Self::ParameterEfficient(experts) => Self::ParameterEfficient(experts.cast(dtype)),
        }
    }
}

/// Weights \[E, out, in\] uniform in ±1/√in.
fn stacked([experts, columns, width]: [usize; 3], device: &Device) -> Param<Tensor<3>> {
    uniform([experts, columns, width], width, device)
}

/// Biases \[E, out\] uniform in ±1/√`fan_in`; `None` if the experts have no biases.
fn biases(
    present: bool,
    [experts, columns]: [usize; 2],
    fan_in: usize,
    device: &Device,
) -> Option<Param<Tensor<2>>> {
    present.then(|| uniform([experts, columns], fan_in, device))
}

fn bias_of(bias: &Option<Param<Tensor<2>>>) -> Option<Tensor<2>> {
    bias.as_ref().map(Param::val)
}

/// Computes act(rows), or act(first half) ∘ second half of the columns if gated, followed by dropout.
fn activate(rows: Tensor<2>, config: &MoeConfig) -> Tensor<2> {
    if !config.gated {
        return dropped(apply(rows, config.activation), config.activation_dropout);
    }
    let gate = rows.clone().narrow(1, 0, config.inter);
    let up = rows.narrow(1, config.inter, config.inter);
    let up = match config.activation {
        Activation::Clamped => up.clamp(-CLAMPED_LIMIT, CLAMPED_LIMIT) + 1.0,
        _ => up,
    };
    dropped(
        apply(gate, config.activation) * up,
        config.activation_dropout,
    )
}

/// In training, sets each element to 0 with `probability` and divides it by 1 − `probability` otherwise.
fn dropped(rows: Tensor<2>, probability: f64) -> Tensor<2> {
    let device = rows.device();
    if probability == 0.0 || !device.is_autodiff() {
        return rows;
    }
    // The draw is in f32, because f16 has too few values below a small probability.
    let luck = Distribution::Uniform(0.0, 1.0);
    let luck = Tensor::<2>::random(rows.dims(), luck, (&device.inner(), DType::F32));
    let unlucky = luck.lower_elem(probability);
    // The elements are filled with 0, because 0 times an infinity isn't 0.
    rows.mask_fill(unlucky, 0.0) / (1.0 - probability)
}

fn apply(rows: Tensor<2>, by: Activation) -> Tensor<2> {
    match by {
        Activation::Relu => activation::relu(rows),
        Activation::Gelu => activation::gelu(rows),
        Activation::Silu => activation::silu(rows),
        Activation::Mish => activation::mish(rows),
        Activation::Clamped => {
            let m = rows.clamp_max(CLAMPED_LIMIT);
            m.clone() * activation::sigmoid(m * CLAMPED_SLOPE)
        }
        Activation::GeluTanh => {
            let bend = rows.clone().square() * TANH_CUBE + 1.0;
            rows.clone() * activation::sigmoid(rows * bend * TANH_SLOPE)
        }
    }
}

/// The number of rows that a convolution reads at once.
const WIDTH: usize = 3;

/// expert(x) = conv(act(conv(x))), H → F → H: convolutions of width 3 along the tokens of one sequence that were routed to the expert, in
/// their order, with zeros beyond the ends.
///
/// Output row r reads input rows r − 1, r and r + 1, or r − 2, r − 1 and r if causal; a row of a weight holds the columns of these three
/// one after the other.
#[derive(Module, Debug)]
pub struct ConvolutionalExperts {
    /// The first weight, \[E, F, 3H\], or \[E, 2F, 3H\] if gated: gate rows, then up rows.
    pub w_in: Param<Tensor<3>>,
    /// The first bias, \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// The second weight, \[E, H, 3F\].
    pub w_out: Param<Tensor<3>>,
    /// The second bias, \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
}

impl ConvolutionalExperts {
    fn new(config: &MoeConfig, device: &Device) -> Self {
        let (e, h, f, columns) = config.sizes();
        Self {
            w_in: stacked([e, columns, WIDTH * h], device),
            b_in: biases(config.bias, [e, columns], WIDTH * h, device),
            w_out: stacked([e, h, WIDTH * f], device),
            b_out: biases(config.bias, [e, h], WIDTH * f, device),
        }
    }

    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let causal = matches!(config.kind, ExpertKind::Convolutional { causal: true });
        let see = |rows| assignment.neighbours(rows, slots.sequence, causal);
        let rows = see(assignment.gather(slots.x)?);
        let rows = assignment.linear(rows, self.w_in.val(), bias_of(&self.b_in))?;
        let rows = see(activate(rows, config));
        let rows = assignment.linear(rows, self.w_out.val(), bias_of(&self.b_out))?;
        assignment.combine(rows, Some(slots.weights))
    }

    fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), Mismatch> {
        let (e, h, f, columns) = config.sizes();
        like.check("w_in [E, F or 2F, 3H]", &self.w_in, [e, columns, WIDTH * h])?;
        like.check("w_out [E,H,3F]", &self.w_out, [e, h, WIDTH * f])?;
        like.check_optional("b_in", &self.b_in, config.bias, [e, columns])?;
        like.check_optional("b_out", &self.b_out, config.bias, [e, h])
    }
}
