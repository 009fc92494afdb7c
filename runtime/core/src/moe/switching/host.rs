//! Experts in host memory.

use super::SwitchedExperts;
use crate::Error;
use crate::check::check_same;
use crate::moe::config::MoeConfig;
use crate::moe::experts::{ExpertKind, Experts};
use crate::moe::factors::CapacityFactors;
use crate::moe::layer::MoeLayer;
use crate::moe::routers::Router;
use crate::moe::shared::SharedExpert;
use burn::module::Param;
use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};

/// The weights of one feed-forward expert.
#[derive(Clone, Debug, PartialEq)]
pub struct HostExpert {
    /// \[F,H\], gated \[2F,H\]: gate rows, then up rows.
    pub w_in: TensorData,
    /// \[F\] or \[2F\].
    pub b_in: Option<TensorData>,
    /// \[H,F\].
    pub w_out: TensorData,
    /// \[H\].
    pub b_out: Option<TensorData>,
}

/// A layer with its experts in host memory; everything else stays where it is.
#[derive(Clone, Debug)]
pub struct HostLayer {
    /// What the layer computes.
    pub config: MoeConfig,
    /// Chooses experts.
    pub router: Router,
    /// What every token goes through.
    pub shared: Option<SharedExpert>,
    /// Capacity factors that change.
    pub factors: Option<CapacityFactors>,
    /// E of them.
    pub experts: Vec<HostExpert>,
}

impl HostLayer {
    /// Reads a layer's experts: waits for the device, and frees them there when this was the last
    /// copy of the layer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(layer: MoeLayer) -> Result<Self, Error> {
        layer.check()?;
        let config = *layer.config();
        let stack = match layer.experts {
            Experts::FeedForward(stack) if stack.is_float() => stack,
            _ => return Err(not_feed_forward(&config).into()),
        };
        let (w_in, w_out) = (stack.w_in.float()?, stack.w_out.float()?);
        let [b_in, b_out] = [stack.b_in, stack.b_out].map(|bias| bias.map(Param::into_value));
        let one = |e: usize| -> Result<HostExpert, Error> {
            Ok(HostExpert {
                w_in: part(&w_in, e)?,
                b_in: b_in.as_ref().map(|b| part(b, e)).transpose()?,
                w_out: part(&w_out, e)?,
                b_out: b_out.as_ref().map(|b| part(b, e)).transpose()?,
            })
        };
        let experts: Result<Vec<_>, Error> = (0..config.experts).map(one).collect();
        Ok(Self {
            config,
            router: layer.router,
            shared: layer.shared,
            factors: layer.factors,
            experts: experts?,
        })
    }

    /// The layer on `device`, which also holds the router and a shared expert, with at most
    /// `budget_bytes` of experts there.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of other shapes or dtypes
    /// than the configuration's, [`ErrorKind::Device`](crate::ErrorKind::Device) for several devices or one that records gradients,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a budget of less than two experts: one in place and one on its way.
    pub fn switched(self, budget_bytes: u64, device: &Device) -> Result<SwitchedExperts, Error> {
        SwitchedExperts::new(self, budget_bytes, device)
    }

    /// Checks the experts; returns the dtype they share.
    pub(super) fn check(&self) -> Result<DType, Mismatch> {
        let config = &self.config;
        if config.kind != ExpertKind::FeedForward || config.fp8.is_some() {
            return Err(not_feed_forward(config));
        }
        Mismatch::check("host experts", config.experts, self.experts.len())?;
        let Some(first) = self.experts.first() else {
            return Err(Mismatch::new("host experts", "at least 1", 0));
        };
        let (h, f, columns) = (config.hidden, config.inter, config.columns_in());
        let dtype = first.w_in.dtype();
        for expert in &self.experts {
            let weights = [
                (
                    "w_in [F or 2F, H]",
                    Some(&expert.w_in),
                    true,
                    vec![columns, h],
                ),
                ("w_out [H,F]", Some(&expert.w_out), true, vec![h, f]),
                ("b_in", expert.b_in.as_ref(), config.bias, vec![columns]),
                ("b_out", expert.b_out.as_ref(), config.bias, vec![h]),
            ];
            for (what, weight, present, shape) in weights {
                check_same(what, weight.is_some(), present)?;
                if let Some(weight) = weight {
                    check_same(what, weight.shape().to_vec(), shape)?;
                    check_same(what, weight.dtype(), dtype)?;
                }
            }
        }
        Ok(dtype)
    }
}

fn not_feed_forward(config: &MoeConfig) -> Mismatch {
    let got = match config.fp8 {
        Some(_) => format!("{:?} in FP8", config.kind),
        None => format!("{:?}", config.kind),
    };
    Fault::Unsupported.error("switched experts", "feed-forward", got)
}

/// Entry `e` of a stack, on the host, without its first dimension.
fn part<const D: usize>(stack: &Tensor<D>, e: usize) -> Result<TensorData, Error> {
    let one = stack.clone().without_autodiff().narrow(0, e, 1);
    let data = one.try_into_data().map_err(Error::device)?;
    let (bytes, shape, dtype) = data.into_parts();
    // What is read may be a view of memory that still belongs to the device: a copy frees it there.
    let bytes = Bytes::from_bytes_vec(bytes.to_vec());
    Ok(TensorData::from_bytes(bytes, shape[1..].to_vec(), dtype))
}
