//! Layers whose experts keep FP8 weights.

use super::experts::{Experts, FeedForwardExperts, Fp8Experts, check_activations};
use super::layer::MoeLayer;
use super::shared::SharedWeights;
use crate::Error;
use crate::fp8::{
    ActivationScaling, Converted, Fp8Conversion, Fp8Layer, Fp8Module, Fp8Visitor, LayerReport,
};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use moebius_ops::ShapeError;

impl MoeLayer {
    /// Replaces the weights of feed-forward experts (`path.experts`) and of the shared one
    /// (`path.shared`) by FP8 codes, where `conversion` doesn't skip them; router, biases and gates
    /// keep their dtype, and nothing records gradients any more.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when the experts aren't feed-forward or dynamic
    /// activation scales are for several rows; as [`Fp8Tensor::quantize`](crate::fp8::Fp8Tensor::quantize).
    pub fn convert_to_fp8(
        &mut self,
        path: &str,
        conversion: &Fp8Conversion,
    ) -> Result<Vec<Converted>, Error> {
        check_activations(conversion.activations)?;
        let (experts, shared) = (format!("{path}.experts"), format!("{path}.shared"));
        let gated = self.config().gated;
        let mut done = Vec::new();
        if conversion.skips(&experts) {
            done.push(Converted::Skipped(experts));
        } else {
            let small = match &self.experts {
                Experts::Fp8(small) => Small::Same(small),
                Experts::FeedForward(float) => Small::Of(float),
                Experts::Fp8FeedForward(training) => Small::Of(&training.experts),
                _ => {
                    let got = format!("{:?}", self.config().kind);
                    return Err(ShapeError::new("experts to convert", "feed-forward", got).into());
                }
            };
            let (small, converted) = small.convert(&experts, gated, conversion)?;
            *self = self.valid();
            self.experts = Experts::Fp8(small);
            done.extend(converted);
        }
        let Some(own) = &mut self.shared else {
            return Ok(done);
        };
        if conversion.skips(&shared) {
            done.push(Converted::Skipped(shared));
            return Ok(done);
        }
        let small = match &own.experts {
            SharedWeights::Fp8(small) => Small::Same(small),
            SharedWeights::Float(float) => Small::Of(float),
        };
        let (small, converted) = small.convert(&shared, gated, conversion)?;
        own.experts = SharedWeights::Fp8(small);
        done.extend(converted);
        *self = self.valid();
        Ok(done)
    }
}

impl Fp8Module for MoeLayer {
    fn visit_fp8(&mut self, visitor: &mut Fp8Visitor) -> Result<(), Error> {
        visitor.layer(self)
    }
}

impl Fp8Layer for MoeLayer {
    fn convert(&mut self, path: &str, conversion: &Fp8Conversion) -> Result<Vec<Converted>, Error> {
        self.convert_to_fp8(path, conversion)
    }

    fn activation_scalings(&mut self) -> Vec<&mut ActivationScaling> {
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

/// Where FP8 experts come from.
enum Small<'a> {
    /// Already FP8.
    Same(&'a Fp8Experts),
    /// To be quantised.
    Of(&'a FeedForwardExperts),
}

impl Small<'_> {
    fn convert(
        self,
        path: &str,
        gated: bool,
        conversion: &Fp8Conversion,
    ) -> Result<(Fp8Experts, Vec<Converted>), Error> {
        let float = match self {
            Self::Same(small) => {
                let small = match small.tokens.source() == conversion.activations {
                    true => small.clone(),
                    false => small.clone().with_activations(conversion.activations)?,
                };
                return Ok((small, vec![Converted::Already(path.to_string())]));
            }
            Self::Of(float) => float,
        };
        let quantizer = &conversion.quantizer;
        let (small, [w_in, w_out]) = Fp8Experts::from_experts(float, gated, quantizer)?;
        let reports = vec![
            report(path, "w_in", &float.w_in, (small.w_in.bytes(), w_in)),
            report(path, "w_out", &float.w_out, (small.w_out.bytes(), w_out)),
        ];
        Ok((small.with_activations(conversion.activations)?, reports))
    }
}

fn report(
    path: &str,
    name: &str,
    before: &Param<Tensor<3>>,
    (bytes_after, relative_error): (usize, f32),
) -> Converted {
    let before = before.val();
    Converted::Now(LayerReport {
        path: format!("{path}.{name}"),
        shape: before.dims().to_vec(),
        bytes_before: before.shape().num_elements() * before.dtype().size(),
        bytes_after,
        relative_error,
    })
}
