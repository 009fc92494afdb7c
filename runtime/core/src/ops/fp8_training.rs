//! The two casts of a product that trains in FP8: one rounds values forward and passes their gradients, the other passes values and rounds
//! their gradients backward.

use super::call::{Call, Operations, Request};
use super::quantize::request;
use super::tensors::{DeviceValue, Tensors, Value};
use crate::Error;
use crate::check::element;
use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, backend_extension, get_device_settings};
use burn::tensor::{Shape, Tensor};
use moebius_ops::Quantize;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::Granularity;

/// Rounds x to `format` with 2^margin of headroom in its one scale; the gradient of x passes through. If `scale` \[1\] is given, also
/// returns amax \[1\] of x, detached from the graph.
pub(crate) fn round_values<const D: usize>(
    x: Tensor<D>,
    scale: Option<Tensor<1>>,
    (format, margin): (Fp8Format, i32),
) -> Result<(Tensor<D>, Option<Tensor<1>>), Error> {
    let inner = x.clone().without_autodiff();
    let call = RoundCall::new(&inner, scale.is_some(), (format, margin))?;
    let scale = scale.map(Tensor::into_dispatch);
    let (y, amax) = round::<Dispatch>(inner.into_dispatch(), scale, &call);
    let y = Tensor::<D>::from_dispatch(y);
    let amax = amax.map(Tensor::from_dispatch);
    if !x.is_autodiff() {
        return Ok((y, amax));
    }
    let y = Dispatch::fp8_straight_through(x.into_dispatch(), y.autodiff().into_dispatch());
    Ok((Tensor::from_dispatch(y), amax))
}

/// Returns x, and has its gradient rounded like a value of [`round_values`], with the gradient's amax as the gradient of `slot` \[1\].
pub(crate) fn round_gradient<const D: usize>(
    x: Tensor<D>,
    slot: Tensor<1>,
    scale: Option<Tensor<1>>,
    (format, margin): (Fp8Format, i32),
) -> Result<Tensor<D>, Error> {
    let call = RoundCall::new(&x, scale.is_some(), (format, margin))?;
    let scale = scale.map(|scale| DeviceValue::from(scale.autodiff()));
    let (x, slot) = (x.into_dispatch(), slot.into_dispatch());
    let y = Dispatch::fp8_round_gradient(x, slot, Tensors(scale.into_iter().collect()), call);
    Ok(Tensor::from_dispatch(y))
}

impl RoundCall {
    /// The calls that round x as a matrix with one scale, which is `given` or follows from x.
    fn new<const D: usize>(
        x: &Tensor<D>,
        given: bool,
        (format, margin): (Fp8Format, i32),
    ) -> Result<Self, Error> {
        let (len, dims, device) = (x.shape().num_elements(), x.dims(), x.device());
        let columns = dims.last().copied().unwrap_or(1).max(1);
        let (shape, element) = ([1, len / columns, columns], element(x.dtype())?);
        let problem = Problem::new(shape, element, Granularity::Tensor, format)?;
        let problem = problem
            .with_overflow(Overflow::Saturate)
            .with_margin(margin)?;
        let operation = if given {
            Quantize::FakeQuantizeBy(problem)
        } else {
            Quantize::FakeQuantize(problem)
        };
        let quantize = request(operation, &device)?;
        let amax = || {
            let shape = shape.to_vec();
            request(Quantize::Amax { shape, element }, &device)
        };
        Ok(Self {
            shape,
            quantize: quantize.into_call(),
            amax: given.then(amax).transpose()?.map(Request::into_call),
        })
    }
}

/// The calls that round one tensor.
#[derive(Clone, Debug)]
pub(crate) struct RoundCall {
    /// The shape of the tensor as a stack of one matrix.
    shape: [usize; 3],
    quantize: Box<Call>,
    /// The call that measures amax; present if the scale is given.
    amax: Option<Box<Call>>,
}

/// Computes decode(encode(x / s)) · s with the given scale \[1\], or with the scale of x's own amax. Infinities stay: the largest value in
/// their place would hide an overflow from loss scaling. If a scale is given, also returns the largest finite magnitude \[1\] in f32.
fn round<B: Operations>(
    x: FloatTensor<B>,
    scale: Option<FloatTensor<B>>,
    call: &RoundCall,
) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
    let shape = x.shape();
    let x = B::float_reshape(x, Shape::from(call.shape));
    let bools = get_device_settings::<B>(&x.device()).bool_dtype;
    let infinite = B::float_is_inf(x.clone(), bools);
    let scale = scale.map(|scale| B::float_reshape(scale, Shape::new([1, 1, 1])));
    let result = |call: &Call, operands: Vec<FloatTensor<B>>| {
        let operands = Tensors(operands.into_iter().map(Value::Float).collect());
        let mut results = Box::new(call.clone()).run::<B>(operands).0;
        results.swap_remove(0).float()
    };
    let amax = call.amax.as_ref().map(|amax| result(amax, vec![x.clone()]));
    let operands = [x.clone()].into_iter().chain(scale);
    let y = result(&call.quantize, operands.collect());
    let y = B::float_mask_where(y, infinite, x);
    (B::float_reshape(y, shape), amax)
}

/// The casts on each backend; backends without gradients return the value.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait Fp8TrainOps: Backend {
    /// Returns `rounded`; its gradient becomes that of x.
    #[fusion(default)]
    fn fp8_straight_through(x: FloatTensor<Self>, rounded: FloatTensor<Self>) -> FloatTensor<Self> {
        drop(x);
        rounded
    }

    /// Returns x; its gradient dy is rounded with the scale \[1\], or with one from dy's own amax. With a scale, the gradient of `slot`
    /// \[1\] becomes the amax of dy, because a backward pass can return nothing but gradients.
    #[fusion(default)]
    fn fp8_round_gradient(
        x: FloatTensor<Self>,
        slot: FloatTensor<Self>,
        #[extension_type] scale: Tensors<Self>,
        call: RoundCall,
    ) -> FloatTensor<Self> {
        drop((slot, scale, call));
        x
    }
}

#[cfg(feature = "cube")]
impl Fp8TrainOps for burn_cubecl::CubeBackend {}

#[cfg(feature = "flex")]
impl Fp8TrainOps for burn::backend::Flex {}

#[cfg(feature = "xla")]
impl<C: moebius_xla::RouterChannel> Fp8TrainOps for moebius_xla::BackendRouter<C> {}

#[cfg(feature = "autodiff")]
mod autodiff {
    //! The casts on devices that record gradients.

    use super::{Fp8TrainOps, RoundCall, round};
    use crate::ops::call::Operations;
    use crate::ops::tensors::Tensors;
    use burn::backend::Autodiff;
    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::tensor::FloatTensor;

    #[derive(Debug)]
    struct StraightThrough;

    impl<B: Fp8TrainOps> Backward<B, 1> for StraightThrough {
        type State = ();

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            if let [Some(x)] = ops.parents {
                grads.register::<B>(x.id, dy);
            }
        }
    }

    /// The backward step of [`Fp8TrainOps::fp8_round_gradient`]; its parents are x and the slot.
    #[derive(Debug)]
    struct RoundGradient;

    impl<B: Fp8TrainOps + Operations> Backward<B, 2> for RoundGradient {
        type State = (Option<FloatTensor<B>>, RoundCall);

        fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            let (scale, call) = ops.state;
            let (y, amax) = round::<B>(dy, scale, &call);
            let [x, slot] = ops.parents;
            for (parent, gradient) in [(x, Some(y)), (slot, amax)] {
                if let (Some(parent), Some(gradient)) = (parent, gradient) {
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
    }

    impl<B: Fp8TrainOps + Operations, C: CheckpointStrategy> Fp8TrainOps for Autodiff<B, C> {
        fn fp8_straight_through(
            x: FloatTensor<Self>,
            rounded: FloatTensor<Self>,
        ) -> FloatTensor<Self> {
            let ((_, node), (y, _)) = (x.into_parts(), rounded.into_parts());
            let step = StraightThrough.prepare::<C>([node]).compute_bound();
            match step.stateful() {
                OpsKind::Tracked(step) => step.finish((), y),
                OpsKind::UnTracked(step) => step.finish(y),
            }
        }

        fn fp8_round_gradient(
            x: FloatTensor<Self>,
            slot: FloatTensor<Self>,
            scale: Tensors<Self>,
            call: RoundCall,
        ) -> FloatTensor<Self> {
            // The value passes through; only its gradient is rounded.
            let ((y, node), (_, slot_node)) = (x.into_parts(), slot.into_parts());
            let scale = scale.0.into_iter().next();
            let scale = scale.map(|scale| scale.float().into_primitive());
            let step = RoundGradient.prepare::<C>([node, slot_node]);
            match step.compute_bound().stateful() {
                OpsKind::Tracked(step) => step.finish((scale, call), y),
                OpsKind::UnTracked(step) => step.finish(y),
            }
        }
    }
}
