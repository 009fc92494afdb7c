//! The configuration of a layer, and its weights.

use super::layer::{MoeLayer, Parameters};
use super::route::RouteConfig;
use crate::Error;
use burn::module::{Initializer, Param};
use burn::tensor::{Device, Tensor};
use moebius_shaders::ShapeError;
use moebius_shaders::grouped_gemm::Activation;
use moebius_shaders::permute::Capacity;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Shape and behaviour of a mixture-of-experts layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoeConfig {
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Number of experts E.
    pub experts: usize,
    /// How tokens choose experts.
    pub route: RouteConfig,
    /// Between the two products of an expert.
    pub activation: Activation,
    /// SwiGLU-style experts: act(G x) ∘ (U x) instead of act(W x).
    pub gated: bool,
    /// Experts have biases.
    pub bias: bool,
    /// Slots an expert takes at most; `None` never drops.
    pub capacity: Option<Capacity>,
}

/// The weights of a layer, stacked by expert.
#[derive(Clone, Debug)]
pub struct MoeWeights {
    /// \[E,H\].
    pub router: Tensor<2>,
    /// \[E,F,H\]; gated \[E,2F,H\], the gate's rows before the up projection's.
    pub w_in: Tensor<3>,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Tensor<2>>,
    /// \[E,H,F\].
    pub w_out: Tensor<3>,
    /// \[E,H\].
    pub b_out: Option<Tensor<2>>,
}

impl MoeConfig {
    /// Top-2 of `experts` ungated relu experts, dropless, no biases.
    pub fn new(hidden: usize, inter: usize, experts: usize) -> Self {
        Self {
            hidden,
            inter,
            experts,
            route: RouteConfig::default(),
            activation: Activation::Relu,
            gated: false,
            bias: false,
            capacity: None,
        }
    }

    /// The same with `top_k` experts per token.
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.route.top_k = top_k;
        self
    }

    /// The same with another choice of experts.
    pub fn with_route(mut self, route: RouteConfig) -> Self {
        self.route = route;
        self
    }

    /// The same with another activation.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// The same with gated or ungated experts.
    pub fn with_gated(mut self, gated: bool) -> Self {
        self.gated = gated;
        self
    }

    /// The same with or without biases.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// The same with a capacity limit, or without.
    pub fn with_capacity(mut self, capacity: Option<Capacity>) -> Self {
        self.capacity = capacity;
        self
    }

    /// Columns of the first product: F, or 2F when gated.
    pub(crate) fn columns_in(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    fn check(&self) -> Result<(), ShapeError> {
        let sizes = [
            ("hidden", self.hidden),
            ("inter", self.inter),
            ("experts", self.experts),
        ];
        for (what, size) in sizes {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        let expert = self.columns_in().checked_mul(self.hidden);
        let all = expert.and_then(|expert| expert.checked_mul(self.experts.checked_mul(4)?));
        if expert.is_none_or(|n| n > i32::MAX as usize)
            || all.is_none_or(|n| n > isize::MAX as usize)
        {
            let got = format!(
                "{} experts of {} x {}",
                self.experts, self.inter, self.hidden
            );
            let expected = "at most 2^31 - 1 elements an expert";
            return Err(ShapeError::new("expert weights", expected, got));
        }
        if let Some(capacity) = self.capacity {
            Capacity::new(capacity.factor, capacity.min)?;
        }
        self.route.problem(1, self.experts).map(drop)
    }

    /// A layer with weights uniform in ±1/√fan_in, as PyTorch's `Linear`; biases likewise.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a size of 0, a `top_k` outside
    /// 1..=experts, or a capacity factor that isn't finite and positive.
    pub fn init(&self, device: &burn::tensor::Device) -> Result<MoeLayer, Error> {
        self.check()?;
        let (e, h, f, columns) = (self.experts, self.hidden, self.inter, self.columns_in());
        let uniform = |fan_in: usize| {
            let bound = 1.0 / (fan_in as f64).sqrt();
            Initializer::Uniform {
                min: -bound,
                max: bound,
            }
        };
        let bias = |columns: usize, fan_in: usize| {
            self.bias
                .then(|| uniform(fan_in).init([e, columns], device))
        };
        Ok(MoeLayer::new(
            *self,
            Parameters {
                router: uniform(h).init([e, h], device),
                w_in: uniform(h).init([e, columns, h], device),
                b_in: bias(columns, h),
                w_out: uniform(f).init([e, h, f], device),
                b_out: bias(h, f),
            },
        ))
    }

    /// A layer with these weights.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) as [`MoeConfig::init`], for weights of other
    /// shapes than the configuration's or of several dtypes or devices, and for biases that are
    /// missing or unexpected.
    pub fn with_weights(&self, weights: MoeWeights) -> Result<MoeLayer, Error> {
        self.check()?;
        self.check_weights(&weights)?;
        Ok(MoeLayer::new(
            *self,
            Parameters {
                router: Param::from_tensor(weights.router),
                w_in: Param::from_tensor(weights.w_in),
                b_in: weights.b_in.map(Param::from_tensor),
                w_out: Param::from_tensor(weights.w_out),
                b_out: weights.b_out.map(Param::from_tensor),
            },
        ))
    }

    /// Checks shapes, dtypes and the presence of biases against the configuration.
    pub(super) fn check_weights(&self, weights: &MoeWeights) -> Result<(), ShapeError> {
        let (e, h, f, columns) = (self.experts, self.hidden, self.inter, self.columns_in());
        check_same("router weights [E,H]", weights.router.dims(), [e, h])?;
        check_same("w_in [E, F or 2F, H]", weights.w_in.dims(), [e, columns, h])?;
        check_same("w_out [E,H,F]", weights.w_out.dims(), [e, h, f])?;
        let dtype = weights.router.dtype();
        check_same("w_in dtype", weights.w_in.dtype(), dtype)?;
        check_same("w_out dtype", weights.w_out.dtype(), dtype)?;
        super::layer::element(dtype)?;
        let device = weights.router.device();
        check_device("device of w_in", weights.w_in.device(), &device)?;
        check_device("device of w_out", weights.w_out.device(), &device)?;
        let biases = [
            ("b_in", &weights.b_in, columns),
            ("b_out", &weights.b_out, h),
        ];
        for (what, bias, width) in biases {
            match bias {
                Some(bias) if self.bias => {
                    check_same(what, bias.dims(), [e, width])?;
                    check_same(what, bias.dtype(), dtype)?;
                    check_device(what, bias.device(), &device)?;
                }
                None if !self.bias => {}
                _ => {
                    let presence = |present: bool| if present { "present" } else { "absent" };
                    let (expected, got) = (presence(self.bias), presence(bias.is_some()));
                    return Err(ShapeError::new(what, expected, got));
                }
            }
        }
        Ok(())
    }
}

/// Checks for the same device, recording gradients or not alike.
pub(super) fn check_device(
    what: &'static str,
    got: Device,
    expected: &Device,
) -> Result<(), ShapeError> {
    if got.is_autodiff() != expected.is_autodiff() {
        return Err(differs(what, &got, expected));
    }
    check_same(what, &got, expected)
}

/// Checks that two things are the same.
pub(super) fn check_same<T: PartialEq + Debug>(
    what: &'static str,
    got: T,
    expected: T,
) -> Result<(), ShapeError> {
    if got == expected {
        return Ok(());
    }
    Err(differs(what, &got, &expected))
}

fn differs(what: &'static str, got: &impl Debug, expected: &impl Debug) -> ShapeError {
    ShapeError::new(what, format!("{expected:?}"), format!("{got:?}"))
}
