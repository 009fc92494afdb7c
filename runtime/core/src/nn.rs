//! Ordinary layers that use the kernels of experts and of [`crate::attention`], for the rest of a model.
//!
//! Burn's own products run on every device, too. These layers are for models that must also run on CubeCL's CPU runtime, where kernels with
//! barriers between more units than there are cores get slow without bound (64 × 16 by 16 × 256 on two cores: 0.6 s). A row's result
//! doesn't depend on other rows. All layers are differentiable, except by codes and where activations are rounded, and sums are f32.

mod linear;

pub use crate::ops::fused::{Pairs, rms_norm, rotate};
pub use linear::{Linear, LinearConfig};

use crate::Error;
use crate::check::{check_device, check_same, element};
use crate::ops::{self, Rows};
use crate::reduce::by_parts;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::{Fault, Mismatch};

/// Whether [`linear`] multiplies an x in f32 by weights in f16 or bf16, whose values it reads as f32: true on Flex where no gradients are
/// recorded. A product of few rows takes half the time, because it mostly reads weights.
pub fn takes_half_weights(device: &Device) -> bool {
    crate::device::is_flex(device)
}

/// Whether a product with weights in codes, FP8 or blocks, has them as values in f32 beside the codes while it computes: on XLA, which decodes
/// a matrix, or one expert's, before it multiplies it. Kernels decode what they load.
pub fn decodes_weights(device: &Device) -> bool {
    crate::device::is_xla(device)
}

/// Computes x · Wᵀ + b \[T,n\] from x \[T,k\], W \[n,k\] and b \[n\] of one dtype: f32, f16 or bf16. W may be f16 or bf16 with an x in f32
/// if [`takes_half_weights`] is true.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes or dtypes, [`ErrorKind::Device`](crate::ErrorKind::Device) for tensors on
/// different devices, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device without the kernels.
pub fn linear(x: Tensor<2>, w: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
    check_same(
        "columns of x [T,k], those of W [n,k]",
        x.dims()[1],
        w.dims()[1],
    )?;
    let narrower = x.dtype() == DType::F32 && matches!(w.dtype(), DType::F16 | DType::BF16);
    if !(narrower && takes_half_weights(&x.device())) {
        check_same("dtype of x", x.dtype(), w.dtype())?;
    }
    check_device("device of x", x.device(), &w.device())?;
    let ([rows, _], [n, k]) = (x.dims(), w.dims());
    if let Some(bias) = &bias {
        check_same("bias [n]", bias.dims(), [n])?;
        check_same("dtype of the bias", bias.dtype(), x.dtype())?;
        check_device("device of the bias", bias.device(), &w.device())?;
    }
    let problem = Problem {
        element: element(x.dtype())?,
        ..Problem::dense(rows, n, k)?
    };
    if rows == 0 {
        return Ok(Tensor::empty([0, n], (&x.device(), x.dtype())));
    }
    by_parts(x, (w, bias), |x, (w, bias)| {
        let rows = x.dims()[0];
        let problem = Problem {
            slots: rows,
            row_bound: rows,
            ..problem
        };
        let (w, bias) = (w.unsqueeze(), bias.map(Tensor::unsqueeze));
        ops::grouped_gemm::run(x, (w, None), bias, Rows::All(None), problem)
    })
}

/// Computes attention \[T, heads·D\] within every sequence of `sequence` tokens, the last of which may be shorter: each token attends to
/// all tokens of its sequence, or, if `causal`, to itself and the tokens before it. The scale is 1/√D, and D ≤ 256.
/// [`Attend`](crate::attention::Attend) has more rules.
///
/// # Errors
/// As [`linear`], also for tokens of no width, and [`ErrorKind::Config`](crate::ErrorKind::Config) if the number of heads doesn't divide the
/// width.
pub fn attention(
    qkv: [Tensor<2>; 3],
    heads: usize,
    sequence: usize,
    causal: bool,
) -> Result<Tensor<2>, Error> {
    let [q, k, v] = &qkv;
    for other in [k, v] {
        check_same("k and v [T, heads·D]", other.dims(), q.dims())?;
        check_same("dtype of k and v", other.dtype(), q.dtype())?;
        check_device("device of k and v", other.device(), &q.device())?;
    }
    Mismatch::unless(sequence > 0, "sequence", "at least 1", sequence)?;
    let [tokens, width] = q.dims();
    if tokens == 0 {
        return Ok(q.clone());
    }
    Mismatch::unless(width > 0, "width of q, k and v", "at least 1", width)?;
    let right = heads > 0 && width.is_multiple_of(heads);
    let expected = format_args!("a divisor of {width} (the width)");
    Fault::Config.unless(right, "attention heads", expected, heads)?;
    let all = crate::attention::Attend::new();
    let attend = if causal { all.causal() } else { all };
    let within = |first: usize, count: usize, sequence: usize| -> Result<Tensor<2>, Error> {
        let shape = [count / sequence, sequence, heads, width / heads];
        let by_head = |x: &Tensor<2>| -> Tensor<4> {
            let rows = x.clone().narrow(0, first, count);
            rows.reshape(shape).swap_dims(1, 2)
        };
        let o = attend.forward(by_head(q), by_head(k), by_head(v))?.o;
        Ok(o.swap_dims(1, 2).reshape([count, width]))
    };
    let sequence = sequence.min(tokens);
    let rest = tokens % sequence;
    let whole = within(0, tokens - rest, sequence)?;
    if rest == 0 {
        return Ok(whole);
    }
    let last = within(tokens - rest, rest, rest)?;
    Ok(Tensor::cat(vec![whole, last], 0))
}
