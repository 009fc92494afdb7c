//! A layer whose experts are divided among the devices of an XLA group: expert parallelism.

use super::config::MoeConfig;
use super::layer::{MoeLayer, MoeOutput, MoeWeights};
use super::route::Routing;
use super::routers::{Router, RouterConfig};
use crate::Error;
use crate::check::check_same;
use crate::parameters::value;
use crate::xla::{DeviceGroup, Pass, Programs, data};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};
use moebius_pjrt::Buffer;
use moebius_xla::parallel::{Divided, Layer, join};

/// A [`MoeLayer`], copied to P devices: E/P neighbouring experts on each device, and the router on all of them.
///
/// Each device routes T/P neighbouring tokens and sends their rows to the experts' devices, which send the results back. A capacity counts
/// the slots of all devices and drops the same slots as on one device, unless the compiler rounds two router weights differently that would
/// be equal. The sums of a token are in the same order as on one device, too; in f16 and bf16 a slot's row is rounded once more on its way
/// back.
#[derive(Debug)]
pub struct PlacedLayer {
    group: DeviceGroup,
    config: MoeConfig,
    dtype: DType,
    /// The arguments after those of a batch: for each argument its buffers on all devices.
    weights: Vec<Vec<Buffer>>,
    programs: Programs<(usize, Pass)>,
}

/// Gradients of a placed layer's y, in the shapes of its [`MoeLayer`].
#[derive(Clone, Debug)]
pub struct PlacedGradients<const D: usize> {
    /// The output of [`PlacedLayer::forward`].
    pub y: Tensor<D>,
    /// The gradient of x.
    pub dx: Tensor<D>,
    /// The gradients of the weights.
    pub weights: MoeWeights,
}

impl MoeLayer {
    /// Divides the experts of the layer among the devices of `group`. The weights are copied there once: place the layer again after they
    /// have changed. The layer itself may be on any device, such as `flex`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward in floating point, a router other
    /// than top-k without a bias, switch or sigmoid-bias, changing capacity factors, and a shared expert,
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the number of devices doesn't divide the number of experts;
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when a device fails.
    pub fn place(&self, group: &DeviceGroup) -> Result<PlacedLayer, Error> {
        let (dtype, config) = (self.check()?.dtype, *self.config());
        let what = "experts of a placed layer";
        let (expected, got) = ("feed-forward ones in floating point", self.experts.name());
        Fault::Unsupported.unless(self.is_fused(), what, expected, got)?;
        let (what, none) = ("factors of a placed layer", config.factors.is_none());
        Fault::Unsupported.unless(none, what, "none", "capacity factors that change")?;
        let (what, none) = ("shared of a placed layer", config.shared.is_none());
        Fault::Unsupported.unless(none, what, "none", "a shared expert")?;
        let (what, output) = ("weights of a placed layer", !config.weighted_input);
        Fault::Unsupported.unless(output, what, "on the experts' output", "on their input")?;
        check_router(&config.router)?;
        let unlike =
            || Fault::Unsupported.error("weights of a placed layer", "plain ones", "others");
        let weights = self.weights().ok_or_else(unlike)?;
        let mut placed = PlacedLayer {
            group: group.clone(),
            config,
            dtype,
            weights: Vec::new(),
            programs: Programs::new(),
        };
        // This check uses the least number of tokens, so that an error about the experts comes before weights are copied.
        placed.divided(group.count())?;
        let copied = |data: TensorData| group.0.copy(&data).map_err(Error::device);
        let divided = |data: TensorData| group.0.divide(&data).map_err(Error::device);
        let buffers = &mut placed.weights;
        if let Router::SigmoidBias(router) = &self.router {
            buffers.push(copied(data(value(&router.bias))?)?);
        }
        buffers.push(copied(data(weights.router)?)?);
        buffers.push(divided(data(weights.w_in)?)?);
        buffers.push(divided(data(weights.w_out)?)?);
        for biases in [weights.b_in, weights.b_out].into_iter().flatten() {
            buffers.push(divided(data(biases)?)?);
        }
        Ok(placed)
    }
}

impl PlacedLayer {
    /// Computes what [`MoeLayer::forward`] does, up to the order of sums, for x \[.., L, H\] on a device that records no gradients. x goes
    /// to the devices through the host, and the results come back to the device of x.
    ///
    /// A program is compiled for each number of tokens T; up to 32 programs are kept.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's, no tokens, and a number of tokens that
    /// the number of devices doesn't divide; [`ErrorKind::Device`](crate::ErrorKind::Device) for a device that records gradients, and when
    /// a device fails.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<MoeOutput<D>, Error> {
        let (shape, device) = (x.dims(), x.device());
        let results = self.run(Pass::Forward, &[x])?;
        let whole = |at: usize| join(&results[at]).map_err(Error::device);
        let float = |at| Ok::<_, Error>(tensor::<2>(whole(at)?, &device));
        let words = (&device, DType::I32);
        let dropped: i32 = whole(6)?.iter::<i32>().sum();
        Ok(MoeOutput {
            y: float(0)?.reshape(shape),
            routing: Routing {
                indices: Tensor::<2, Int>::from_data(whole(1)?, words),
                weights: float(2)?,
                probs: float(3)?,
                logits: float(4)?,
                logsumexp: Some(tensor(whole(5)?, &device)),
            },
            dropped_slots: Tensor::from_data([dropped], words),
        })
    }

    /// Computes the gradients of [`PlacedLayer::forward`] from the gradient dy of y, in the shape of x; without those of balance losses,
    /// and without dropout.
    ///
    /// # Errors
    /// As [`PlacedLayer::forward`]; also for a dy of another shape than x.
    pub fn gradients<const D: usize>(
        &self,
        x: Tensor<D>,
        dy: Tensor<D>,
    ) -> Result<PlacedGradients<D>, Error> {
        let (shape, device) = (x.dims(), x.device());
        check_same("shape of dy", dy.dims(), shape)?;
        let results = self.run(Pass::Both, &[x, dy])?;
        let whole = |at: usize| join(&results[at]).map_err(Error::device);
        let rows = |at| Ok::<_, Error>(tensor::<2>(whole(at)?, &device).reshape(shape));
        let stack = |at| Ok::<_, Error>(tensor::<3>(whole(at)?, &device));
        let bias = |at| {
            let bias = self.config.bias.then(|| whole(at)).transpose()?;
            Ok::<_, Error>(bias.map(|bias| tensor::<2>(bias, &device)))
        };
        // Every device has the same gradient; the first device's is taken.
        let router = join(&results[2][..1]).map_err(Error::device)?;
        Ok(PlacedGradients {
            y: rows(0)?,
            dx: rows(1)?,
            weights: MoeWeights {
                router: tensor(router, &device),
                w_in: stack(3)?,
                w_out: stack(4)?,
                b_in: bias(5)?,
                b_out: bias(6)?,
            },
        })
    }

    /// Runs a pass; returns its results, each a list of one buffer per device.
    fn run<const D: usize>(
        &self,
        pass: Pass,
        batch: &[Tensor<D>],
    ) -> Result<Vec<Vec<Buffer>>, Error> {
        let (hidden, group) = (self.config.hidden, &self.group.0);
        let tokens = batch[0].dims().iter().product::<usize>() / hidden;
        for rows in batch {
            let width = rows.dims().last().copied().unwrap_or(0);
            Mismatch::check("last dimension of x and dy", hidden, width)?;
            check_same("dtype of x and dy", rows.dtype(), self.dtype)?;
            let (what, autodiff) = ("device of x and dy", rows.device().is_autodiff());
            let expected = "one that records no gradients";
            Fault::Device.unless(!autodiff, what, expected, "one that does")?;
        }
        let described = || -> Result<_, Error> {
            let divided = self.divided(tokens)?;
            Ok(match pass {
                Pass::Forward => divided.forward_and_choice()?,
                Pass::Both => divided.gradients()?,
            })
        };
        let program = self.programs.get(&self.group, (tokens, pass), described)?;
        let mut parts = Vec::new();
        for rows in batch {
            let rows = data(rows.clone().reshape([tokens, hidden]))?;
            parts.push(group.divide(&rows).map_err(Error::device)?);
        }
        let arguments = parts.iter().chain(&self.weights).map(Vec::as_slice);
        let arguments: Vec<&[Buffer]> = arguments.collect();
        group.run(&program, &arguments).map_err(Error::device)
    }

    /// Describes the divided layer for `tokens` tokens.
    fn divided(&self, tokens: usize) -> Result<Divided, Mismatch> {
        let layer = Layer {
            problem: self.config.problem(tokens, self.dtype)?,
            selection_bias: matches!(self.config.router, RouterConfig::SigmoidBias(_)),
        };
        Divided::balanced(layer, self.group.count())
    }
}

/// Checks that the programs support the router.
fn check_router(router: &RouterConfig) -> Result<(), Mismatch> {
    let got = match router {
        RouterConfig::TopK(config) if !config.bias => return Ok(()),
        RouterConfig::Switch(_) | RouterConfig::SigmoidBias(_) => return Ok(()),
        RouterConfig::TopK(_) => "top_k with a bias",
        other => other.name(),
    };
    let expected = "top_k without a bias, switch or sigmoid_bias";
    Err(Fault::Unsupported.error("router of a placed layer", expected, got))
}

fn tensor<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    let dtype = data.dtype();
    Tensor::from_data(data, (device, dtype))
}
