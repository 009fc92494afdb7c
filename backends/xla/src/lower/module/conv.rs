//! Convolutions, their transposes, and the gradients of both.
//!
//! How many zeros come after the input follows from the extents of the result, which descriptions have.

use super::super::{LowerError, Lowering};
use crate::stablehlo::{Convolution, Reduction, Value};
use burn_ir::{
    Conv1dOptionsIr, Conv2dOptionsIr, Conv3dOptionsIr, ConvTranspose1dOptionsIr,
    ConvTranspose2dOptionsIr, ConvTranspose3dOptionsIr, ModuleOperationIr, TensorIr,
};

/// The numbers of a convolution, an entry for each spatial dimension.
struct Settings {
    stride: Vec<usize>,
    /// Zeros before the input.
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

/// A convolution or its transpose.
macro_rules! forward {
    ($self:ident.$method:ident, $d:ident) => {
        $self.$method(
            (&$d.x, &$d.weight, $d.bias.as_ref()),
            &(&$d.options).into(),
            &$d.out,
        )
    };
}

/// A gradient, of two tensors.
macro_rules! gradient {
    ($self:ident.$method:ident, $d:ident, $x:ident, $y:ident) => {
        $self.$method(&$d.$x, &$d.$y, &(&$d.options).into(), &$d.out)
    };
}

impl Lowering<'_> {
    pub(super) fn convolutions(&mut self, op: &ModuleOperationIr) -> Result<(), LowerError> {
        use ModuleOperationIr as Op;
        match op {
            Op::Conv1d(d) => forward!(self.conv, d),
            Op::Conv2d(d) => forward!(self.conv, d),
            Op::Conv3d(d) => forward!(self.conv, d),
            Op::ConvTranspose1d(d) => forward!(self.conv_transpose, d),
            Op::ConvTranspose2d(d) => forward!(self.conv_transpose, d),
            Op::ConvTranspose3d(d) => forward!(self.conv_transpose, d),
            Op::Conv1dXBackward(d) => gradient!(self.spread_op, d, output_grad, weight),
            Op::Conv2dXBackward(d) => gradient!(self.spread_op, d, output_grad, weight),
            Op::Conv3dXBackward(d) => gradient!(self.spread_op, d, output_grad, weight),
            other => self.weight_gradients(other),
        }
    }

    fn weight_gradients(&mut self, op: &ModuleOperationIr) -> Result<(), LowerError> {
        use ModuleOperationIr as Op;
        match op {
            Op::Conv1dWeightBackward(d) => gradient!(self.kernel, d, x, output_grad),
            Op::Conv2dWeightBackward(d) => gradient!(self.kernel, d, x, output_grad),
            Op::Conv3dWeightBackward(d) => gradient!(self.kernel, d, x, output_grad),
            // A transposed convolution is the gradient of a convolution: input and output change places.
            Op::ConvTranspose1dWeightBackward(d) => gradient!(self.kernel, d, output_grad, x),
            Op::ConvTranspose2dWeightBackward(d) => gradient!(self.kernel, d, output_grad, x),
            Op::ConvTranspose3dWeightBackward(d) => gradient!(self.kernel, d, output_grad, x),
            Op::Conv1dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            Op::Conv2dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            Op::Conv3dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            Op::ConvTranspose1dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            Op::ConvTranspose2dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            Op::ConvTranspose3dBiasBackward(d) => self.channel_sums(&d.output_grad, &d.out),
            other => self.pools(other),
        }
    }

    fn conv(
        &mut self,
        (x, weight, bias): (&TensorIr, &TensorIr, Option<&TensorIr>),
        settings: &Settings,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
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
        let y = self.b.convolution(x, w, &conv);
        self.with_bias(y, bias, out)
    }

    /// Adds a number to each channel.
    fn with_bias(
        &mut self,
        y: Value,
        bias: Option<&TensorIr>,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
        let Some(bias) = bias else {
            return self.finish(out, y);
        };
        let bias = self.get(bias)?;
        let bias = self.cast(bias, self.b.element(y));
        let bias = self.b.broadcast(bias, &self.b.shape(y), &[1]);
        let y = self.b.add(y, bias);
        self.finish(out, y)
    }

    fn conv_transpose(
        &mut self,
        (x, weight, bias): (&TensorIr, &TensorIr, Option<&TensorIr>),
        settings: &Settings,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
        let y = self.spread(self.get(x)?, self.get(weight)?, settings, &out.shape[2..]);
        self.with_bias(y, bias, out)
    }

    fn spread_op(
        &mut self,
        x: &TensorIr,
        weight: &TensorIr,
        settings: &Settings,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
        self.conv_transpose((x, weight, None), settings, out)
    }

    /// Every element of x \[batch, in, …\] adds its multiple of the kernel, weight
    /// \[in, out / groups, …\], to the result: a convolution of x with its strides as zeros between
    /// elements, and with the kernel reversed.
    fn spread(&mut self, x: Value, weight: Value, s: &Settings, extents: &[usize]) -> Value {
        let (from, taps) = (self.b.shape(x), self.b.shape(weight));
        let spatial: Vec<usize> = (2..taps.len()).collect();
        let kernel = self.b.reverse(weight, &spatial);
        let kernel = self.exchange_channels(kernel, s.groups);
        let padding = (0..spatial.len()).map(|d| {
            let reach = (s.dilation[d] * (taps[d + 2] - 1)) as i64;
            let inner = ((from[d + 2] - 1) * s.stride[d] + 1) as i64;
            let low = reach - s.low[d];
            (low, extents[d] as i64 + reach - inner - low)
        });
        let conv = Convolution {
            stride: vec![1; spatial.len()],
            padding: padding.collect(),
            lhs_dilation: s.stride.clone(),
            rhs_dilation: s.dilation.clone(),
            groups: s.groups,
        };
        self.b.convolution(x, kernel, &conv)
    }

    /// \[in, out / groups, …\] → \[out, in / groups, …\]
    fn exchange_channels(&mut self, weight: Value, groups: usize) -> Value {
        let mut shape = self.b.shape(weight);
        let (inputs, outputs) = (shape[0] / groups, shape[1]);
        shape.splice(0..1, [groups, inputs]);
        let split = self.b.reshape(weight, &shape);
        let mut permutation: Vec<usize> = (0..shape.len()).collect();
        permutation.swap(1, 2);
        let swapped = self.b.transpose(split, &permutation);
        shape.splice(0..3, [groups * outputs, inputs]);
        self.b.reshape(swapped, &shape)
    }

    /// The gradient of the weight \[out, in / groups, …\]: x \[batch, in, …\] convolved with the gradient
    /// \[batch, out, …\], where the batch is what channels are in a convolution, and strides and
    /// dilations change places.
    fn kernel(
        &mut self,
        x: &TensorIr,
        grad: &TensorIr,
        s: &Settings,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
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
        let x = self.b.reshape(x, &shape);
        let mut permutation: Vec<usize> = (0..shape.len()).collect();
        permutation.swap(0, 2);
        let x = self.b.transpose(x, &permutation);
        shape.splice(0..3, [inputs, s.groups * batch]);
        let x = self.b.reshape(x, &shape);
        let mut permutation: Vec<usize> = (0..to.len()).collect();
        permutation.swap(0, 1);
        let grad = self.b.transpose(grad, &permutation);
        let y = self.b.convolution(x, grad, &conv);
        let y = self.b.transpose(y, &permutation);
        self.finish(out, y)
    }

    /// The sum over everything but the channels.
    fn channel_sums(&mut self, grad: &TensorIr, out: &TensorIr) -> Result<(), LowerError> {
        let grad = self.get_wide(grad)?;
        let others: Vec<usize> = (0..self.b.ty(grad).rank()).filter(|d| *d != 1).collect();
        let y = self.b.reduce(Reduction::Sum, grad, &others);
        self.finish(out, y)
    }
}
