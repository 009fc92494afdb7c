//! A layer whose experts are divided among devices: expert parallelism, through XLA.

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

/// A [`MoeLayer`] as it was when it was placed, with E/P neighbouring experts on each of P devices and the router on
/// all of them.
///
/// Each device routes T/P neighbouring tokens and sends their rows to the experts' devices, which send them back. A
/// capacity counts the slots of all devices and drops those that one device would, unless the compiler rounds two router
/// weights differently that are equal up to it. The sums of a token are in the order of one device, too; in f16 and bf16 a
/// slot's row is rounded once more on its way back.
#[derive(Debug)]
pub struct PlacedLayer {
    group: DeviceGroup,
    config: MoeConfig,
    dtype: DType,
    /// Arguments after those of a batch: for each the buffers of all devices.
    weights: Vec<Vec<Buffer>>,
    programs: Programs<(usize, Pass)>,
}

/// Gradients of a placed layer's y, in the shapes of its [`MoeLayer`].
#[derive(Clone, Debug)]
pub struct PlacedGradients<const D: usize> {
    /// What [`PlacedLayer::forward`] gives.
    pub y: Tensor<D>,
    /// Of x.
    pub dx: Tensor<D>,
    /// Of the weights.
    pub weights: MoeWeights,
}

impl MoeLayer {
    /// The layer with its experts divided among the devices of `group`. Its weights are copied there once: place it again
    /// after they have changed. The layer itself may be on any device, such as `flex`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward ones in floating point, a router
    /// other than top-k without a bias, switch or sigmoid-bias, capacity factors that change, and a shared expert,
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for experts that aren't a multiple of the devices; [`ErrorKind::Device`](crate::ErrorKind::Device) when a device fails.
    pub fn place(&self, group: &DeviceGroup) -> Result<PlacedLayer, Error> {
        let (dtype, config) = (self.check()?.dtype, *self.config());
        let what = "experts of a placed layer";
        let (expected, got) = ("feed-forward ones in floating point", self.experts.name());
        Fault::Unsupported.unless(self.is_fused(), what, expected, got)?;
        let (what, none) = ("factors of a placed layer", config.factors.is_none());
        Fault::Unsupported.unless(none, what, "none", "capacity factors that change")?;
        let (what, none) = ("shared of a placed layer", config.shared.is_none());
        Fault::Unsupported.unless(none, what, "none", "a shared expert")?;
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
        // With as few tokens as possible: what is wrong with the experts is said before weights travel.
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
    /// What [`MoeLayer::forward`] gives for x \[.., L, H\] on a device that records no gradients: within the tolerance
    /// of another order of sums. x goes to the devices through the host, and the results come back to the device of x.
    ///
    /// A program is compiled for each number of tokens T; up to 32 are kept.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width or dtype than the layer's, no tokens, and tokens
    /// that aren't a multiple of the devices;
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) for a device that records gradients, and when a device fails.
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

    /// The gradients of [`PlacedLayer::forward`]'s y through its gradient dy, of the shape of x; those of balance losses
    /// aren't among them, and nothing is dropped out.
    ///
    /// # Errors
    /// As [`PlacedLayer::forward`], and for a dy of another shape than x.
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
        // The same on every device.
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

    /// The results of a pass, each a list of one buffer for each device.
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

    /// The layer over `tokens` tokens.
    fn divided(&self, tokens: usize) -> Result<Divided, Mismatch> {
        let layer = Layer {
            problem: self.config.problem(tokens, self.dtype)?,
            selection_bias: matches!(self.config.router, RouterConfig::SigmoidBias(_)),
        };
        Divided::balanced(layer, self.group.count())
    }
}

/// Checks that the programs know the router.
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
