//! Layers whose experts keep FP8 weights.

use super::experts::{Experts, FeedForwardExperts, Fp8Experts};
use super::layer::MoeLayer;
use super::shared::SharedWeights;
use crate::Error;
use crate::fp8::{ActivationScaling, Activations, LayerReport, Quantizer, relative_error};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use moebius_shaders::ShapeError;

impl MoeLayer {
    /// Replaces the weights of feed-forward experts, the shared one included, by FP8 codes; router,
    /// biases and gates keep their dtype, and nothing records gradients any more. What came of every
    /// stack of weights is reported, with `path` before its name; nothing where they are codes already.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when the experts aren't feed-forward or dynamic
    /// activation scales are for several rows; as [`Fp8Tensor::quantize`](crate::fp8::Fp8Tensor::quantize).
    pub fn convert_to_fp8(
        &mut self,
        path: &str,
        quantizer: &Quantizer,
        activations: Activations,
    ) -> Result<Vec<LayerReport>, Error> {
        *self = self.valid();
        let gated = self.config().gated;
        let how = (quantizer, activations);
        let mut reports = Vec::new();
        let float = match &self.experts {
            Experts::Fp8(_) => None,
            Experts::FeedForward(experts) => Some(experts),
            Experts::Fp8FeedForward(experts) => Some(&experts.experts),
            _ => {
                let got = format!("{:?}", self.config().kind);
                return Err(ShapeError::new("experts to convert", "feed-forward", got).into());
            }
        };
        if let Some(experts) = float {
            let small = convert(experts, gated, how)?;
            reports.extend(report(&format!("{path}.experts"), experts, &small)?);
            self.experts = Experts::Fp8(small);
        }
        if let Some(shared) = &mut self.shared
            && let SharedWeights::Float(experts) = &shared.experts
        {
            let small = convert(experts, gated, how)?;
            reports.extend(report(&format!("{path}.shared"), experts, &small)?);
            shared.experts = SharedWeights::Fp8(small);
        }
        Ok(reports)
    }

    /// The activation scales of experts with FP8 weights.
    pub fn activation_scalings(&mut self) -> Vec<&mut ActivationScaling> {
        let mut scalings = Vec::new();
        if let Experts::Fp8(experts) = &mut self.experts {
            scalings.extend([&mut experts.tokens, &mut experts.hidden]);
        }
        if let Some(shared) = &mut self.shared
            && let SharedWeights::Fp8(experts) = &mut shared.experts
        {
            scalings.extend([&mut experts.tokens, &mut experts.hidden]);
        }
        scalings
    }
}

fn convert(
    experts: &FeedForwardExperts,
    gated: bool,
    (quantizer, activations): (&Quantizer, Activations),
) -> Result<Fp8Experts, Error> {
    Fp8Experts::from_experts(experts, gated, quantizer)?.with_activations(activations)
}

/// Both stacks of weights, before and after.
fn report(
    path: &str,
    before: &FeedForwardExperts,
    after: &Fp8Experts,
) -> Result<[LayerReport; 2], Error> {
    let of = |name: &str, before: &Param<Tensor<3>>, after: &crate::fp8::Fp8Matrices| {
        let before = before.val();
        Ok::<_, Error>(LayerReport {
            path: format!("{path}.{name}"),
            shape: before.dims().to_vec(),
            bytes_before: before.shape().num_elements() * before.dtype().size(),
            bytes_after: after.bytes(),
            relative_error: relative_error(&after.to_tensor()?, before)?,
        })
    };
    Ok([
        of("w_in", &before.w_in, &after.w_in)?,
        of("w_out", &before.w_out, &after.w_out)?,
    ])
}
