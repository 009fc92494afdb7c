//! Convolutions, their transposes, and the gradients of both.
//!
//! The padding after the input follows from the extents of the result, which the descriptions hold.

use super::super::{Lowering, Result};
use crate::stablehlo::{Builder, Convolution, Value};
use burn_ir::{
    Conv1dOptionsIr, Conv2dOptionsIr, Conv3dOptionsIr, ConvTranspose1dOptionsIr,
    ConvTranspose2dOptionsIr, ConvTranspose3dOptionsIr, ModuleOperationIr, TensorIr,
};

/// The settings of a convolution, with an entry for each spatial dimension.
struct Settings {
    stride: Vec<usize>,
    /// The number of zeros before the input.
    low: Vec<i64>,
    dilation: Vec<usize>,
    groups: usize,
}

macro_rules! settings {
    ($($options:ty, $low:expr;)*) => {$(
        impl From<&$options> for Settings {
            fn from(options: &$options) -> Self {
                Self {
                    stride: options.stride.to_vec(),
                    low: options.padding.iter().map($low).collect(),
                    dilation: options.dilation.to_vec(),
                    groups: options.groups,
                }
            }
        }
    )*};
}

settings! {
    Conv1dOptionsIr, |(low, _)| *low as i64;
    Conv2dOptionsIr, |(low, _)| *low as i64;
    Conv3dOptionsIr, |low| *low as i64;
    ConvTranspose1dOptionsIr, |low| *low as i64;
    ConvTranspose2dOptionsIr, |low| *low as i64;
    ConvTranspose3dOptionsIr, |low| *low as i64;
}

/// Calls a convolution, its transpose or a gradient with two tensors and the settings of a description.
macro_rules! combined {
    ($self:ident.$method:ident, $d:ident, $x:ident, $y:ident) => {
        $self.$method(&$d.$x, &$d.$y, &(&$d.options).into(), &$d.out)
    };
}

/// Calls a convolution or its transpose and adds the bias.
macro_rules! forward {
    ($self:ident.$method:ident, $d:ident) => {
        $self.with_bias(combined!($self.$method, $d, x, weight)?, $d.bias.as_ref())
    };
}

impl Lowering<'_> {
    pub(super) fn convolutions(&self, op: &ModuleOperationIr) -> Result<Value> {
        use ModuleOperationIr as Op;
        match op {
            Op::Conv1d(d) => forward!(self.conv, d),
            Op::Conv2d(d) => forward!(self.conv, d),
            Op::Conv3d(d) => forward!(self.conv, d),
            Op::ConvTranspose1d(d) => forward!(self.conv_transpose, d),
            Op::ConvTranspose2d(d) => forward!(self.conv_transpose, d),
            Op::ConvTranspose3d(d) => forward!(self.conv_transpose, d),
            Op::Conv1dXBackward(d) => combined!(self.conv_transpose, d, output_grad, weight),
            Op::Conv2dXBackward(d) => combined!(self.conv_transpose, d, output_grad, weight),
            Op::Conv3dXBackward(d) => combined!(self.conv_transpose, d, output_grad, weight),
            Op::Conv1dWeightBackward(d) => combined!(self.kernel, d, x, output_grad),
            Op::Conv2dWeightBackward(d) => combined!(self.kernel, d, x, output_grad),
            Op::Conv3dWeightBackward(d) => combined!(self.kernel, d, x, output_grad),
            // A transposed convolution is the gradient of a convolution, so input and output swap roles.
            Op::ConvTranspose1dWeightBackward(d) => combined!(self.kernel, d, output_grad, x),
            Op::ConvTranspose2dWeightBackward(d) => combined!(self.kernel, d, output_grad, x),
            Op::ConvTranspose3dWeightBackward(d) => combined!(self.kernel, d, output_grad, x),
            Op::Conv1dBiasBackward(d) => self.channel_sums(&d.output_grad),
            Op::Conv2dBiasBackward(d) => self.channel_sums(&d.output_grad),
            Op::Conv3dBiasBackward(d) => self.channel_sums(&d.output_grad),
            Op::ConvTranspose1dBiasBackward(d) => self.channel_sums(&d.output_grad),
            Op::ConvTranspose2dBiasBackward(d) => self.channel_sums(&d.output_grad),
            Op::ConvTranspose3dBiasBackward(d) => self.channel_sums(&d.output_grad),
            other => self.pools(other),
        }
    }

    fn conv(
        &self,
        x: &TensorIr,
        weight: &TensorIr,
        settings: &Settings,
        out: &TensorIr,
    ) -> Result<Value> {
        let (x, w) = (self.get(x)?, self.get(weight)?);
        let (from, taps) = (self.b.shape(x), self.b.shape(w));
        let high = |d: usize| {
            let span = (settings.dilation[d] * (taps[d + 2] - 1) + 1) as i64;
            let last = ((out.shape[d + 2] - 1) * settings.stride[d]) as i64;
            last + span - from[d + 2] as i64 - settings.low[d]
        };
        let padding = (0..settings.low.len()).map(|d| (settings.low[d], high(d)));
        let conv = Convolution {
            stride: settings.stride.clone(),
            padding: padding.collect(),
            lhs_dilation: vec![1; settings.low.len()],
            rhs_dilation: settings.dilation.clone(),
            groups: settings.groups,
        };
        Ok(self.b.convolution(x, w, &conv))
    }

    /// Adds the bias, one number for each channel.
    fn with_bias(&self, y: Value, bias: Option<&TensorIr>) -> Result<Value> {
        let b = self.b;
        let Some(bias) = bias else {
            return Ok(y);
        };
        let bias = b.cast(self.get(bias)?, b.element(y));
        Ok(b.add(y, b.broadcast(bias, &b.shape(y), &[1])))
    }

    /// The transposed convolution: every element of x \[batch, in, …\] adds its multiple of the kernel, weight \[in,
    /// out / groups, …\], to the result. Lowered as a convolution of x, with the strides as zeros between elements, and
    /// the reversed kernel.
    fn conv_transpose(
        &self,
        x: &TensorIr,
        weight: &TensorIr,
        s: &Settings,
        out: &TensorIr,
    ) -> Result<Value> {
        let b = self.b;
        let (x, weight) = (self.get(x)?, self.get(weight)?);
        let (from, taps) = (b.shape(x), b.shape(weight));
        let spatial: Vec<usize> = (2..taps.len()).collect();
        let kernel = b.exchange_channels(b.reverse(weight, &spatial), s.groups);
        let padding = (0..spatial.len()).map(|d| {
            let reach = (s.dilation[d] * (taps[d + 2] - 1)) as i64;
            let inner = ((from[d + 2] - 1) * s.stride[d] + 1) as i64;
            let low = reach - s.low[d];
            (low, out.shape[d + 2] as i64 + reach - inner - low)
        });
        let conv = Convolution {
            stride: vec![1; spatial.len()],
            padding: padding.collect(),
            lhs_dilation: s.stride.clone(),
            rhs_dilation: s.dilation.clone(),
            groups: s.groups,
        };
        Ok(b.convolution(x, kernel, &conv))
    }

    /// The gradient of the weight \[out, in / groups, …\]: a convolution of x \[batch, in, …\] with the gradient
    /// \[batch, out, …\] in which the batch takes the role of the channels, and strides and dilations are swapped.
    fn kernel(&self, x: &TensorIr, grad: &TensorIr, s: &Settings, out: &TensorIr) -> Result<Value> {
        let (x, grad) = (self.get(x)?, self.get(grad)?);
        let (from, to) = (self.b.shape(x), self.b.shape(grad));
        let spatial = s.low.len();
        let padding = (0..spatial).map(|d| {
            let reach = s.dilation[d] * (out.shape[d + 2] - 1);
            let inner = (to[d + 2] - 1) * s.stride[d] + 1;
            let high = (reach + inner) as i64 - from[d + 2] as i64 - s.low[d];
            (s.low[d], high)
        });
        let conv = Convolution {
            stride: s.dilation.clone(),
            padding: padding.collect(),
            lhs_dilation: vec![1; spatial],
            rhs_dilation: s.stride.clone(),
            groups: s.groups,
        };
        // [batch, groups · in, …] → [in, groups · batch, …]
        let (batch, inputs) = (from[0], from[1] / s.groups);
        let mut shape = from;
        shape.splice(1..2, [s.groups, inputs]);
        let x = self.b.swap_dims(self.b.reshape(x, &shape), 0, 2);
        shape.splice(0..3, [inputs, s.groups * batch]);
        let x = self.b.reshape(x, &shape);
        let grad = self.b.swap_dims(grad, 0, 1);
        Ok(self.b.swap_dims(self.b.convolution(x, grad, &conv), 0, 1))
    }

    /// The sum over all dimensions but the channels.
    fn channel_sums(&self, grad: &TensorIr) -> Result<Value> {
        let grad = self.get_wide(grad)?;
        let others: Vec<usize> = (0..self.b.ty(grad).rank()).filter(|d| *d != 1).collect();
        Ok(self.b.sum(grad, &others))
    }
}

impl Builder {
    /// Swaps input and output channels: \[in, out / groups, …\] → \[out, in / groups, …\].
    fn exchange_channels(&self, weight: Value, groups: usize) -> Value {
        let mut shape = self.shape(weight);
        let (inputs, outputs) = (shape[0] / groups, shape[1]);
        shape.splice(0..1, [groups, inputs]);
        let swapped = self.swap_dims(self.reshape(weight, &shape), 1, 2);
        shape.splice(0..3, [groups * outputs, inputs]);
        self.reshape(swapped, &shape)
    }
}
