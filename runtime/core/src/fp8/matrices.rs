//! FP8 weights as products read them.

use super::tensor::{Fp8Layout, Fp8Scales, Fp8Tensor};
use crate::Error;
use crate::check::check_device;
use crate::ops::CodedWeights;
use burn::module::{Module, Param, ParamId};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::Mismatch;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::fp8::PANEL;
use moebius_ops::scaling::Fp8Scheme;
use moebius_shaders::fp8::Conversion;

/// A stack of E matrices W ≈ code · scale \[E, n, k\] in panels of 64 output columns.
///
/// The codes of four neighbouring inner columns are a word, and the words of 64 neighbouring output
/// columns lie side by side, so that a product reads memory front to back: \[E·P·⌈n/64⌉, ⌈k/4⌉, 64\]
/// for P parts (a gate and an up projection are two). There is no other copy of the weights.
#[derive(Module, Debug)]
pub struct Fp8Matrices {
    /// Words.
    panels: Param<Tensor<3, Int>>,
    scales: ScaleParams,
    /// A marker whose length encodes the format, so that no record of another one is taken for it.
    format: Param<Tensor<1, Int>>,
    #[module(skip)]
    layout: Fp8Layout,
    #[module(skip)]
    parts: usize,
}

/// [`Fp8Scales`] in a module.
#[derive(Module, Debug)]
enum ScaleParams {
    F32(Param<Tensor<3>>),
    E8M0(Param<Tensor<3, Int>>),
}

impl ScaleParams {
    fn new(scales: Fp8Scales) -> Self {
        match scales {
            Fp8Scales::F32(scales) => {
                let scales = Param::from_tensor(scales.without_autodiff());
                Self::F32(scales.set_require_grad(false))
            }
            Fp8Scales::E8M0(words) => {
                let words = words.without_autodiff();
                Self::E8M0(Param::initialized(ParamId::new(), words))
            }
        }
    }

    fn val(&self) -> Fp8Scales {
        match self {
            Self::F32(scales) => Fp8Scales::F32(scales.val()),
            Self::E8M0(words) => Fp8Scales::E8M0(words.val()),
        }
    }
}

impl Fp8Matrices {
    /// `weights` \[E, n, k\], where the rows of a matrix are those of `parts` projections, one after
    /// the other.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when the parts don't divide n, or n or k is
    /// 0, [`ErrorKind::Config`](crate::ErrorKind::Config) when the columns of scale blocks aren't a multiple of 4.
    pub fn new(weights: Fp8Tensor, parts: usize) -> Result<Self, Error> {
        let layout = weights.layout();
        let [experts, n, k] = layout.shape;
        let right = parts > 0 && n.is_multiple_of(parts) && experts * n * k > 0;
        let expected = format_args!("at least 1 matrix of {parts} parts with equal rows");
        let got = format_args!("{:?}", layout.shape);
        Mismatch::unless(right, "fp8 weights", expected, got)?;
        layout.scheme().check(k)?;
        let (rows, words) = (n / parts, k.div_ceil(LANES_PER_WORD));
        let mut packed = weights.words().clone().without_autodiff();
        packed = packed.reshape([experts * parts, rows, words]);
        let missing = rows.next_multiple_of(PANEL) - rows;
        if missing > 0 {
            let zeros = Tensor::zeros(
                [experts * parts, missing, words],
                (&packed.device(), packed.dtype()),
            );
            packed = Tensor::cat(vec![packed, zeros], 1);
        }
        let panels = experts * parts * rows.div_ceil(PANEL);
        let format = Tensor::zeros([marker(layout.format)], (&packed.device(), DType::I32));
        let turned = packed.reshape([panels, PANEL, words]).swap_dims(1, 2);
        Ok(Self {
            panels: Param::initialized(ParamId::new(), laid_out(turned)),
            scales: ScaleParams::new(weights.scales().clone()),
            format: Param::initialized(ParamId::new(), format),
            layout,
            parts,
        })
    }

    /// The codes and scales \[E, n, k\] row by row, as files have them.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when a record has put other tensors here, [`ErrorKind::Device`](crate::ErrorKind::Device) when they are elsewhere.
    pub fn to_tensor(&self) -> Result<Fp8Tensor, Error> {
        self.check(&self.panels.val().device())?;
        let [experts, n, k] = self.layout.shape;
        let (rows, words) = (n / self.parts, k.div_ceil(LANES_PER_WORD));
        let padded = rows.next_multiple_of(PANEL);
        let packed = laid_out(self.panels.val().swap_dims(1, 2))
            .reshape([experts * self.parts, padded, words])
            .narrow(1, 0, rows);
        let packed = packed.reshape([experts, n, words]);
        Fp8Tensor::from_parts(packed, self.scales.val(), self.layout)
    }

    /// Shape \[E, n, k\], format and granularity.
    pub fn layout(&self) -> Fp8Layout {
        self.layout
    }

    /// Bytes of codes and scales, padding included.
    pub fn bytes(&self) -> usize {
        let words: usize = self.panels.dims().iter().product();
        let scales: usize = self.scales.val().dims().iter().product();
        4 * (words + scales)
    }

    /// Where they are.
    pub fn device(&self) -> Device {
        self.panels.val().device()
    }

    /// Checks what a record may have replaced, and that it is on `device`.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let [experts, n, k] = self.layout.shape;
        let panels = experts * self.parts * (n / self.parts).div_ceil(PANEL);
        let expected = [panels, k.div_ceil(LANES_PER_WORD), PANEL];
        let got = (self.panels.val().dims(), self.panels.val().dtype());
        let right = got.0 == expected && matches!(got.1, DType::I32 | DType::U32);
        let expected = format_args!("{expected:?} of 32 bits");
        Mismatch::unless(right, "fp8 panels", expected, format_args!("{got:?}"))?;
        let marked = self.format.val().dims()[0];
        Mismatch::check(
            "marker of the fp8 format",
            marker(self.layout.format),
            marked,
        )?;
        check_device("device of fp8 weights", self.device(), device)?;
        let (shape, granularity) = (self.layout.scales_shape(), self.layout.granularity);
        self.scales.val().check(shape, granularity, device)
    }

    /// Projections of a matrix.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// What the kernels must know of the weights.
    pub(crate) fn weights(&self) -> Fp8Scheme {
        self.layout.scheme()
    }

    /// The weights for the seam, decoded by `conversion`, with a bias \[E, n\].
    pub(crate) fn coded(&self, bias: Option<Tensor<2>>, conversion: Conversion) -> CodedWeights {
        CodedWeights {
            codes: self.panels.val(),
            scales: self.scales.val().into_value(),
            bias,
            conversion,
        }
    }
}

/// Length of what marks the format in a record.
fn marker(format: Fp8Format) -> usize {
    match format {
        Fp8Format::E4M3 => 1,
        Fp8Format::E5M2 => 2,
    }
}

/// The same values row by row in memory, whatever turned them; a reshape copies what isn't.
fn laid_out(turned: Tensor<3, Int>) -> Tensor<3, Int> {
    let [a, b, c] = turned.dims();
    turned.reshape([a * b * c]).reshape([a, b, c])
}
