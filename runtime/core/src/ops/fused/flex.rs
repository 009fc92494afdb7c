//! In f32, where no gradients are recorded.

use super::Pairs;
use crate::ops::host::{Rows, float_tensor};
use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn::nn::RmsNorm;
use burn::tensor::{DType, Tensor};
use rayon::prelude::*;

/// Values from which on the work is shared by all threads.
const MANY: usize = 1 << 15;
/// Sums that run side by side.
const SUMS: usize = 16;

/// A tensor's values on the host, one behind the other; `None` for those of other devices.
fn on_host<const D: usize>(tensor: &Tensor<D>) -> Option<Rows> {
    match tensor.clone().into_dispatch() {
        DispatchTensor {
            kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
            autodiff: DispatchAutodiffContext::Disabled,
        } if values.dtype() == DType::F32 => Some(values.to_contiguous()),
        _ => None,
    }
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    let values = float_tensor(values, &shape);
    let tensor = DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
        autodiff: DispatchAutodiffContext::Disabled,
    };
    Tensor::from_dispatch(tensor)
}

/// `f` of each row of so many values and the row of the result.
fn each(x: &[f32], width: usize, f: impl Fn(usize, &[f32], &mut [f32]) + Sync) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    if width == 0 {
        return y;
    }
    if x.len() < MANY {
        let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
        rows.enumerate().for_each(|(row, (x, y))| f(row, x, y));
    } else {
        let rows = x.par_chunks_exact(width).zip(y.par_chunks_exact_mut(width));
        let rows = rows.with_min_len((MANY / 4).div_ceil(width));
        rows.enumerate().for_each(|(row, (x, y))| f(row, x, y));
    }
    y
}

pub(super) fn rms_norm<const D: usize>(x: &Tensor<D>, norm: &RmsNorm) -> Option<Tensor<D>> {
    let (values, gamma) = (on_host(x)?, on_host(&norm.gamma.val())?);
    let (values, gamma): (&[f32], &[f32]) = (values.storage(), gamma.storage());
    let width = gamma.len();
    if x.dims().last() != Some(&width) {
        return None;
    }
    let y = each(values, width, |_, x, y| {
        let factor = 1.0 / (squares(x) / width as f32 + norm.epsilon as f32).sqrt();
        for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
            *y = x * factor * gamma;
        }
    });
    Some(tensor(y, x.dims()))
}

/// Σ x².
fn squares(x: &[f32]) -> f32 {
    let mut sums = [0.0; SUMS];
    let (whole, rest) = x.as_chunks::<SUMS>();
    for x in whole {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += x * x;
        }
    }
    let rest: f32 = rest.iter().map(|x| x * x).sum();
    sums.iter().sum::<f32>() + rest
}

pub(super) fn rotate(
    x: &Tensor<4>,
    [cos, sin]: &[Tensor<4>; 2],
    pairs: Pairs,
) -> Option<Tensor<4>> {
    let [b, s, heads, width] = x.dims();
    let [sequences, tokens, _, half] = cos.dims();
    let fits = [1, b].contains(&sequences) && tokens == s && pairs.at + 2 * half <= width;
    if !fits || sin.dims() != cos.dims() {
        return None;
    }
    let (values, cos, sin) = (on_host(x)?, on_host(cos)?, on_host(sin)?);
    let (cos, sin): (&[f32], &[f32]) = (cos.storage(), sin.storage());
    let y = each(values.storage(), width, |row, x, y| {
        let angles = row / heads % (sequences * s) * half;
        let angles = [cos, sin].map(|table| &table[angles..][..half]);
        turn(x, y, angles, pairs);
    });
    Some(tensor(y, x.dims()))
}

/// The pairs of a head, turned.
fn turn(x: &[f32], y: &mut [f32], [cos, sin]: [&[f32]; 2], pairs: Pairs) {
    let (at, half) = (pairs.at, cos.len());
    let end = at + 2 * half;
    y[..at].copy_from_slice(&x[..at]);
    y[end..].copy_from_slice(&x[end..]);
    let (low, high) = y[at..end].split_at_mut(half);
    let [first, next, step] = if pairs.interleaved {
        [at, at + 1, 2]
    } else {
        [at, at + half, 1]
    };
    let left = x[first..].iter().step_by(step);
    let both = left.zip(x[next..].iter().step_by(step));
    let angles = cos.iter().zip(sin);
    for (((low, high), (left, right)), (cos, sin)) in low.iter_mut().zip(high).zip(both).zip(angles)
    {
        *low = left * cos - right * sin;
        *high = right * cos + left * sin;
    }
}
