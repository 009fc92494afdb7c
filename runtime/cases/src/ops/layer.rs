//! The layer that `moe_layer` and `moe_layer_backward` describe: its parameters, `x`, and its weights.
//!
//! `x` [T,H], `router` [E,H]; gated `w_gate`, `w_up` [E,F,H], `w_down` [E,H,F]; ungated `w_in` [E,F,H],
//! `w_out` [E,H,F] with optional `b_in` [E,F], `b_out` [E,H].

use burn::tensor::{Device, Tensor};
use moebius::moe::{Activation, Capacity, MoeConfig, MoeLayer, MoeWeights, RouteConfig, Score};
use serde::Deserialize;

use super::inputs::{Input, Inputs};
use super::route::check_top_k;
use super::{OpError, upload};
use crate::case_file::CaseFile;

/// `min_capacity` where a file gives only a factor.
const DEFAULT_MIN_CAPACITY: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    top_k: usize,
    activation: Activation,
    renormalize: bool,
    gated: bool,
    #[serde(default)]
    score: Option<Score>,
    #[serde(default)]
    capacity_factor: Option<f64>,
    #[serde(default)]
    min_capacity: Option<usize>,
}

impl Params {
    fn capacity(&self) -> Result<Option<Capacity>, OpError> {
        match (self.capacity_factor, self.min_capacity) {
            (Some(factor), min) => Ok(Some(Capacity {
                factor,
                min: min.unwrap_or(DEFAULT_MIN_CAPACITY),
            })),
            (None, Some(_)) => Err(OpError::Dangling {
                name: "min_capacity",
                needs: "capacity_factor",
            }),
            (None, None) => Ok(None),
        }
    }

    fn config(&self, sizes: &Sizes, bias: bool) -> Result<MoeConfig, OpError> {
        let route = RouteConfig {
            top_k: self.top_k,
            score: self.score.unwrap_or(Score::Softmax),
            renormalize: self.renormalize,
            ..RouteConfig::default()
        };
        let config = MoeConfig::new(sizes.hidden, sizes.inter, sizes.experts)
            .with_route(route)
            .with_activation(self.activation)
            .with_gated(self.gated)
            .with_bias(bias)
            .with_capacity(self.capacity()?);
        Ok(config)
    }
}

/// A layer and its batch, checked.
pub(super) struct Described<'a> {
    /// [T,H].
    x: Input<'a>,
    router: Input<'a>,
    /// The experts' weights as the file has them.
    pub(super) experts: Experts<'a>,
    sizes: Sizes,
    config: MoeConfig,
}

impl<'a> Described<'a> {
    /// Takes the layer's inputs out of `inputs`, which must then be empty.
    pub(super) fn read(case: &'a CaseFile, mut inputs: Inputs<'a>) -> Result<Self, OpError> {
        let params: Params = case.params()?;
        let x = inputs.required("x")?;
        let router = inputs.required("router")?;
        let experts = Experts::take(&mut inputs, params.gated)?;
        inputs.finish()?;
        let [tokens, hidden] = x.dims("[T,H]")?;
        let [expert_count, _] = router.dims("[E,H]")?;
        let sizes = Sizes {
            tokens,
            hidden,
            experts: expert_count,
            inter: experts.inter()?,
        };
        router.expect("[E,H]", &[sizes.experts, sizes.hidden])?;
        experts.check(&sizes)?;
        check_top_k(params.top_k, sizes.experts)?;
        let config = params.config(&sizes, experts.has_bias())?;
        Ok(Self {
            x,
            router,
            experts,
            sizes,
            config,
        })
    }

    /// T and H.
    pub(super) fn extents(&self) -> [usize; 2] {
        [self.sizes.tokens, self.sizes.hidden]
    }

    /// The layer on `device`.
    pub(super) fn layer(&self, device: &Device) -> Result<MoeLayer, OpError> {
        let weights = self.experts.upload(&self.router, &self.sizes, device)?;
        Ok(self.config.with_weights(weights)?)
    }

    /// Its batch on `device`.
    pub(super) fn x(&self, device: &Device) -> Result<Tensor<2>, OpError> {
        Ok(upload(self.x.floats()?, self.extents(), device))
    }
}

/// Extents every input has to agree with.
struct Sizes {
    tokens: usize,
    hidden: usize,
    experts: usize,
    inter: usize,
}

/// The inputs of the two forms of expert.
pub(super) enum Experts<'a> {
    Gated {
        gate: Input<'a>,
        up: Input<'a>,
        down: Input<'a>,
    },
    Plain {
        w_in: Input<'a>,
        w_out: Input<'a>,
        b_in: Option<Input<'a>>,
        b_out: Option<Input<'a>>,
    },
}

impl<'a> Experts<'a> {
    fn take(inputs: &mut Inputs<'a>, gated: bool) -> Result<Self, OpError> {
        Ok(if gated {
            Self::Gated {
                gate: inputs.required("w_gate")?,
                up: inputs.required("w_up")?,
                down: inputs.required("w_down")?,
            }
        } else {
            Self::Plain {
                w_in: inputs.required("w_in")?,
                w_out: inputs.required("w_out")?,
                b_in: inputs.optional("b_in"),
                b_out: inputs.optional("b_out"),
            }
        })
    }

    /// F, from the weight that is multiplied first.
    fn inter(&self) -> Result<usize, OpError> {
        let first = match self {
            Self::Gated { gate, .. } => gate,
            Self::Plain { w_in, .. } => w_in,
        };
        let [_, inter, _] = first.dims("[E,F,H]")?;
        first.expect_positive("[E,F,H]", 0)?;
        Ok(inter)
    }

    fn check(&self, s: &Sizes) -> Result<(), OpError> {
        let (first, second) = (
            [s.experts, s.inter, s.hidden],
            [s.experts, s.hidden, s.inter],
        );
        match self {
            Self::Gated { gate, up, down } => {
                gate.expect("[E,F,H]", &first)?;
                up.expect("[E,F,H]", &first)?;
                down.expect("[E,H,F]", &second)
            }
            Self::Plain {
                w_in,
                w_out,
                b_in,
                b_out,
            } => {
                w_in.expect("[E,F,H]", &first)?;
                w_out.expect("[E,H,F]", &second)?;
                b_in.map_or(Ok(()), |b| b.expect("[E,F]", &[s.experts, s.inter]))?;
                b_out.map_or(Ok(()), |b| b.expect("[E,H]", &[s.experts, s.hidden]))
            }
        }
    }

    fn has_bias(&self) -> bool {
        matches!(
            self,
            Self::Plain { b_in: Some(_), .. } | Self::Plain { b_out: Some(_), .. }
        )
    }

    fn upload(
        &self,
        router: &Input<'_>,
        s: &Sizes,
        device: &Device,
    ) -> Result<MoeWeights, OpError> {
        let (e, f, h) = (s.experts, s.inter, s.hidden);
        let router = upload(router.floats()?, [e, h], device);
        Ok(match self {
            Self::Gated { gate, up, down } => MoeWeights {
                router,
                w_in: upload(
                    stack(&gate.floats()?, &up.floats()?, f * h),
                    [e, 2 * f, h],
                    device,
                ),
                b_in: None,
                w_out: upload(down.floats()?, [e, h, f], device),
                b_out: None,
            },
            Self::Plain {
                w_in,
                w_out,
                b_in,
                b_out,
            } => {
                // The layer has both biases or none; a missing one is zero.
                let bias = |b: &Option<Input<'_>>, width: usize| -> Result<_, OpError> {
                    if !self.has_bias() {
                        return Ok(None);
                    }
                    let values = b.map_or_else(|| Ok(vec![0.0; e * width]), |b| b.floats())?;
                    Ok(Some(upload(values, [e, width], device)))
                };
                MoeWeights {
                    router,
                    w_in: upload(w_in.floats()?, [e, f, h], device),
                    b_in: bias(b_in, f)?,
                    w_out: upload(w_out.floats()?, [e, h, f], device),
                    b_out: bias(b_out, h)?,
                }
            }
        })
    }
}

/// [E,F,H] and [E,F,H] → [E,2F,H]: per expert the gate's rows, then the up rows; `block` is F·H.
fn stack(gate: &[f32], up: &[f32], block: usize) -> Vec<f32> {
    gate.chunks_exact(block)
        .zip(up.chunks_exact(block))
        .flat_map(|(g, u)| g.iter().chain(u))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::stack;

    #[test]
    fn gate_rows_come_before_up_rows_in_each_expert() {
        let stacked = stack(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2);
        assert_eq!(stacked, [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]);
    }
}
