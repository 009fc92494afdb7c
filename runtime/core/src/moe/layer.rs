//! The mixture-of-experts layer as a Burn module.

use super::assignment::{Assignment, CapacityRule};
use super::config::{MoeConfig, MoeWeights, check_device, check_same};
use super::route::{Routing, choose};
use crate::ops::{ExpertWeights, Maybe, StageClock};
use crate::{Error, device};
use burn::module::{Module, Param};
use burn::tensor::{DType, Int, Tensor};
use moebius_device::Capability;
use moebius_shaders::grouped_gemm::Choice;
use moebius_shaders::moe::{Keep, Stage};
use moebius_shaders::{Element, ShapeError, moe};
use std::time::{Duration, Instant};

/// y_t = Σ_k w_tk · expert(x_t): every token goes through its `top_k` experts.
///
/// Weights are stacked by expert in the plain \[E, out, in\] layout, so records and checkpoints
/// hold ordinary tensors. Weights, x and y have one dtype (f32, f16 or bf16 where the device
/// stores it); routing and sums are f32.
#[derive(Module, Debug)]
pub struct MoeLayer {
    /// \[E,H\].
    pub router: Param<Tensor<2>>,
    /// \[E,F,H\], gated \[E,2F,H\]: gate rows, then up rows.
    pub w_in: Param<Tensor<3>>,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// \[E,H,F\].
    pub w_out: Param<Tensor<3>>,
    /// \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
    #[module(skip)]
    config: MoeConfig,
    #[module(skip)]
    choice: Choice,
}

/// The parameters of a layer.
pub(super) struct Parameters {
    pub(super) router: Param<Tensor<2>>,
    pub(super) w_in: Param<Tensor<3>>,
    pub(super) b_in: Option<Param<Tensor<2>>>,
    pub(super) w_out: Param<Tensor<3>>,
    pub(super) b_out: Option<Param<Tensor<2>>>,
}

/// What a forward returns; everything stays on the device.
#[derive(Clone, Debug)]
pub struct MoeOutput<const D: usize> {
    /// The shape of x.
    pub y: Tensor<D>,
    /// Which experts every token went to.
    pub routing: Routing,
    /// \[1\]: slots that reached no expert because it was full.
    pub dropped_slots: Tensor<1, Int>,
}

impl MoeLayer {
    pub(super) fn new(config: MoeConfig, parameters: Parameters) -> Self {
        Self {
            router: parameters.router,
            w_in: parameters.w_in,
            b_in: parameters.b_in,
            w_out: parameters.w_out,
            b_out: parameters.b_out,
            config,
            choice: Choice::default(),
        }
    }

    /// The layer's configuration.
    pub fn config(&self) -> &MoeConfig {
        &self.config
    }

    /// The same layer with another choice of kernel variant; without effect on `flex`.
    pub fn with_choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// The same layer with weights of another dtype.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for anything but f32, f16 and bf16.
    pub fn cast(self, dtype: DType) -> Result<Self, Error> {
        element(dtype)?;
        let matrix = |p: Param<Tensor<2>>| p.map(|t| t.cast(dtype));
        Ok(Self {
            router: matrix(self.router),
            w_in: self.w_in.map(|t| t.cast(dtype)),
            b_in: self.b_in.map(matrix),
            w_out: self.w_out.map(|t| t.cast(dtype)),
            b_out: self.b_out.map(matrix),
            ..self
        })
    }

    /// How a forward of `tokens` tokens of `dtype` runs on `device`; `None` on `flex`.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`].
    pub fn plan(
        &self,
        tokens: usize,
        dtype: DType,
        device: &burn::tensor::Device,
    ) -> Result<Option<moe::Plan>, Error> {
        let problem = self.problem(tokens, dtype)?;
        self.plan_on(problem, device::capability(device)?.as_ref())
    }

    fn plan_on(
        &self,
        problem: moe::Problem,
        capability: Option<&Capability>,
    ) -> Result<Option<moe::Plan>, Error> {
        problem.check()?;
        let plan = capability.map(|device| moe::plan(problem, device, self.choice));
        Ok(plan.transpose()?)
    }

    /// What a forward of `tokens` tokens of `dtype` computes: sizes, FLOPs, bytes it must hold.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for anything but f32, f16 and bf16, or more
    /// tokens than 31 bits count.
    pub fn problem(&self, tokens: usize, dtype: DType) -> Result<moe::Problem, Error> {
        let config = &self.config;
        Ok(moe::Problem {
            routing: config.route.problem(tokens, config.experts)?,
            hidden: config.hidden,
            inter: config.inter,
            element: element(dtype)?,
            gated: config.gated,
            activation: config.activation,
            bias: config.bias,
            capacity: config.capacity,
            row_bound: tokens * config.route.top_k,
        })
    }

    /// Router logits \[T,E\] in f32 of x \[T,H\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
    pub fn router_logits(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        self.check_input(&x)?;
        self.logits_on(x)
    }

    /// [`MoeLayer::router_logits`] of a checked x.
    fn logits_on(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        super::route::router_logits(x, self.router.val())
    }

    /// Sends every token of x \[.., H\] through its experts; a fixed number of launches, none of
    /// which waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<MoeOutput<D>, Error> {
        self.check_input(&x)?;
        let (shape, hidden) = (x.dims(), self.config.hidden);
        let tokens = shape.iter().product::<usize>() / hidden;
        if tokens == 0 {
            return self.empty_output(shape, &x);
        }
        let out = self.forward_tokens(x.reshape([tokens, hidden]), None)?;
        Ok(MoeOutput {
            y: out.y.reshape(shape),
            routing: out.routing,
            dropped_slots: out.dropped_slots,
        })
    }

    /// [`MoeLayer::forward`] of x \[T,H\] that waits for the device after every stage and returns
    /// how long each took.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`].
    pub fn profile(&self, x: Tensor<2>) -> Result<Vec<(Stage, Duration)>, Error> {
        self.check_input(&x)?;
        if x.dims()[0] == 0 {
            return Ok(Vec::new());
        }
        let clock = StageClock::default();
        let device = x.device();
        // What was enqueued before isn't the router's; an error shows at the caller's next read.
        let _ = device.sync();
        let mut last = Instant::now();
        self.forward_tokens(x, Some(clock.clone()))?;
        // Under Burn's fusion nothing has run yet.
        let _ = device.sync();
        let mut times = Vec::new();
        for (stage, end) in clock.marks() {
            times.push((stage, end - last));
            last = end;
        }
        Ok(times)
    }

    fn forward_tokens(
        &self,
        x: Tensor<2>,
        clock: Option<StageClock>,
    ) -> Result<MoeOutput<2>, Error> {
        let [tokens, _] = x.dims();
        let device = x.device();
        let logits = self.logits_on(x.clone())?;
        let routing = choose(logits, None, None, &self.config.route)?;
        if let Some(clock) = &clock {
            // A device error shows at the caller's next read; the clock only needs the wait.
            let _ = device.sync();
            clock.mark(Stage::Router);
        }
        let rule = CapacityRule {
            capacity: self.config.capacity,
            ..CapacityRule::default()
        };
        let (indices, weights) = (routing.indices.clone(), routing.weights.clone());
        let assignment = Assignment::new(
            indices,
            weights.clone(),
            self.config.experts,
            rule,
            self.choice,
        )?;
        if let Some(clock) = &clock {
            let _ = device.sync();
            clock.mark(Stage::Sort);
        }
        let bias = |bias: &Option<Param<Tensor<2>>>| match bias {
            Some(bias) => Maybe::Present(bias.val().into_dispatch()),
            None => Maybe::Absent,
        };
        let experts = ExpertWeights {
            w_in: self.w_in.val().into_dispatch(),
            w_out: self.w_out.val().into_dispatch(),
            b_in: bias(&self.b_in),
            b_out: bias(&self.b_out),
        };
        let problem = self.problem(tokens, x.dtype())?;
        let call =
            assignment.feed_forward_call(problem, device.is_autodiff(), Keep::default(), clock)?;
        Ok(MoeOutput {
            y: assignment.feed_forward(x, weights, experts, call),
            dropped_slots: assignment.dropped(),
            routing,
        })
    }

    /// The output for no tokens; Burn can't reshape an empty tensor to another rank.
    fn empty_output<const D: usize>(
        &self,
        shape: [usize; D],
        x: &Tensor<D>,
    ) -> Result<MoeOutput<D>, Error> {
        let (device, dtype) = (x.device(), x.dtype());
        let rows = Tensor::<2>::empty([0, self.config.hidden], (&device, dtype));
        let capability = device::capability(&device)?;
        let capability = capability.as_ref();
        self.plan_on(self.problem(0, dtype)?, capability)?;
        let logits = self.logits_on(rows)?;
        Ok(MoeOutput {
            y: Tensor::empty(shape, (&device, dtype)),
            routing: choose(logits, None, None, &self.config.route)?,
            dropped_slots: Tensor::zeros([1], &device),
        })
    }

    /// The weights as they are now: records and optimizers replace them.
    fn weights(&self) -> MoeWeights {
        MoeWeights {
            router: self.router.val(),
            w_in: self.w_in.val(),
            b_in: self.b_in.as_ref().map(Param::val),
            w_out: self.w_out.val(),
            b_out: self.b_out.as_ref().map(Param::val),
        }
    }

    /// Checks x against the layer, and the layer's weights against its configuration.
    fn check_input<const D: usize>(&self, x: &Tensor<D>) -> Result<(), Error> {
        let hidden = x.dims().last().copied().unwrap_or(0);
        ShapeError::check("last dimension of x", self.config.hidden, hidden)?;
        let weights = self.weights();
        self.config.check_weights(&weights)?;
        check_same("dtype of x", x.dtype(), weights.w_in.dtype())?;
        check_device("device of x", x.device(), &weights.w_in.device())?;
        Ok(())
    }
}

/// The kernels' name of a dtype.
pub(super) fn element(dtype: DType) -> Result<Element, ShapeError> {
    match dtype {
        DType::F32 => Ok(Element::F32),
        DType::F16 => Ok(Element::F16),
        DType::BF16 => Ok(Element::Bf16),
        other => Err(ShapeError::new(
            "dtype",
            "f32, f16 or bf16",
            format!("{other:?}"),
        )),
    }
}
