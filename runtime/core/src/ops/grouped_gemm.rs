//! Products: rows · W_eᵀ + b_e for the sorted rows of each expert e, or one product of all rows; the shapes are those of
//! [`moebius_ops::grouped_gemm`]. FP8 weights are panels of codes, and others blocks of codes ([`moebius_ops::blocks`]); both are decoded
//! while they are loaded, or FP8 codes multiplied by matrix instructions ([`moebius_ops::fp8_mma`]). Codes have no derivative; through a plain
//! product that decodes them x and the bias have one.

use super::call::Request;
use super::{Assignment, DeviceValue, Sorted, quantize};
use crate::Error;
use crate::check::element;
use crate::device::{self, is_flex};
use burn::tensor::{Device, Int, Tensor};
use moebius_ops::grouped_gemm::{Problem, Source, Stored};
use moebius_ops::{GroupedGemm, Mismatch, fp8_mma, quantize as codes};
use moebius_shaders::fp8::Conversion;
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::{ProductHow, Unsupported, fp8_mma as mma};

/// The rows that a product multiplies.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// The rows of slots, sorted by expert, in the tiles of their sort.
    Sorted(&'a Assignment),
    /// All rows, for a single expert, in their own order; computed by kernels of the given variant, if any.
    All(Option<Variant>),
}

impl<'a> Rows<'a> {
    pub(super) fn sorted(self) -> Option<&'a Sorted> {
        match self {
            Self::Sorted(assignment) => Some(&assignment.sorted),
            Self::All(_) => None,
        }
    }

    pub(super) fn variant(self) -> Option<Variant> {
        match self {
            Self::Sorted(assignment) => assignment.variant,
            Self::All(variant) => variant,
        }
    }

    /// How a product finds its rows in a buffer with one row per token.
    pub(crate) fn tokens(self) -> Source {
        match self {
            Self::Sorted(_) => Source::Tokens,
            Self::All(_) => Source::Sorted,
        }
    }

    /// Returns the rows of x \[T,H\].
    pub(crate) fn gather(self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        match self {
            Self::Sorted(assignment) => assignment.gather(x),
            Self::All(_) => Ok(x),
        }
    }

    /// Returns the rows after [`Assignment::defined`]; all rows of a single expert are defined.
    pub(crate) fn defined(self, rows: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Sorted(assignment) => assignment.defined(rows),
            Self::All(_) => rows,
        }
    }

    /// Describes a product of `rows` \[.., k\] with \[columns, k\]ᵀ per expert.
    pub(crate) fn product(self, rows: &Tensor<2>, columns: usize) -> Result<Problem, Mismatch> {
        let [count, k] = rows.dims();
        let problem = match self {
            Self::Sorted(assignment) => {
                let r = &assignment.routing;
                Problem {
                    rows: Source::Sorted,
                    row_bound: assignment.row_bound,
                    ..Problem::new(r.slots(), r.experts(), r.top_k(), columns, k)?
                }
            }
            Self::All(_) => Problem::dense(count, columns, k)?,
        };
        Ok(Problem {
            element: element(rows.dtype())?,
            ..problem
        })
    }

    /// Computes rows \[R,k\] · W_eᵀ + b_e, \[R,n\], for W \[E,n,k\] and b \[E,n\].
    pub(crate) fn linear(
        self,
        rows: Tensor<2>,
        w: Tensor<3>,
        bias: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let problem = self.product(&rows, w.dims()[1])?;
        run(rows, (w, None), bias, self, problem)
    }
}

impl Assignment {
    /// Computes [`Rows::linear`] for the sorted rows.
    pub(crate) fn linear(
        &self,
        rows: Tensor<2>,
        w: Tensor<3>,
        bias: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        Rows::Sorted(self).linear(rows, w, bias)
    }
}

/// Computes `problem` \[R,n\] for rows \[R,k\], w \[E,n,k\] and a bias \[E,n\], if there is one; with places \[E,n,⌈k/32⌉\], w is what is kept
/// of 2:4 weights, \[E,n,k/2\]. The caller has checked the shapes.
pub(crate) fn run(
    rows: Tensor<2>,
    (w, places): (Tensor<3>, Option<Tensor<3, Int>>),
    bias: Option<Tensor<2>>,
    of: Rows<'_>,
    problem: Problem,
) -> Result<Tensor<2>, Error> {
    let problem = Problem {
        bias: bias.is_some(),
        stored: match places {
            Some(_) => Stored::Sparse24,
            None => Stored::Values,
        },
        ..problem
    };
    let how = ProductHow {
        variant: of.variant(),
        ..ProductHow::default()
    };
    let sorted = of.sorted();
    let call = Request::new(GroupedGemm::Linear(problem), &rows.device(), &how)?.reads([rows]);
    let call = call.reads([w]).reads(places);
    let call = call.reads(sorted.map(|sorted| &sorted.offsets)).reads(bias);
    let order = sorted.map(|sorted| ("order", sorted.order.clone()));
    let call = call.beside(order).beside(sorted.and_then(Sorted::tiles));
    Ok(call.run().floats())
}

/// Computes `problem` \[R,n\] for x \[T,k\] or \[R,k\], panels of codes with their scales, decoded by `conversion`, and a bias \[E,n\] in
/// the dtype of x. The caller has checked the shapes.
pub(crate) fn fp8_linear(
    x: Tensor<2>,
    [codes, scales]: [DeviceValue; 2],
    bias: Option<Tensor<2>>,
    of: Rows<'_>,
    problem: Problem,
    conversion: Conversion,
) -> Result<Tensor<2>, Error> {
    if conversion == Conversion::Instructions {
        needs_kernels(&x.device(), "FP8 conversion instructions")?;
    }
    coded_linear(x, vec![codes, scales], bias, of, problem, conversion)
}

/// Computes `problem` \[R,n\] for x \[T,k\] or \[R,k\], words of blocks \[E, n or 2n, words of a row\], and a bias \[E,n\] in the dtype of x. The
/// caller has checked the shapes. Interleaved words have been loaded for processors, and aren't multiplied elsewhere.
pub(crate) fn block_linear(
    x: Tensor<2>,
    words: DeviceValue,
    bias: Option<Tensor<2>>,
    of: Rows<'_>,
    problem: Problem,
) -> Result<Tensor<2>, Error> {
    if problem.interleaved && !is_flex(&x.device().inner()) {
        let (needs, have) = ("weights loaded on this device", "those of a processor");
        return Err(Unsupported::new("block_linear", needs, have).into());
    }
    let bias = bias.map(|bias| bias.cast(x.dtype()));
    coded_linear(x, vec![words], bias, of, problem, Conversion::Bits)
}

fn coded_linear(
    x: Tensor<2>,
    weights: Vec<DeviceValue>,
    bias: Option<Tensor<2>>,
    of: Rows<'_>,
    problem: Problem,
    conversion: Conversion,
) -> Result<Tensor<2>, Error> {
    let how = ProductHow {
        variant: of.variant(),
        conversion,
    };
    let call = Request::new(GroupedGemm::CodedLinear(problem), &x.device(), &how)?.reads([x]);
    let sort = of.sorted().into_iter().flat_map(Sorted::segments);
    let call = call.reads(weights).reads(sort).reads(bias);
    let call = call.beside(of.sorted().and_then(Sorted::tiles));
    Ok(call.run().floats())
}

/// Computes `problem` \[R,n\] in f32 for x \[1, T or R, k\], rounded to codes as `rounding` says, and panels of codes with their scales.
/// Sorted rows need tiles of [`mma::TILE_ROWS`]; the kernels have one variant, so the variant of [`Rows::All`] has no effect.
pub(crate) fn multiply_codes(
    x: Tensor<3>,
    rounding: codes::Problem,
    [codes, scales]: [DeviceValue; 2],
    bias: Option<Tensor<2>>,
    of: Rows<'_>,
    problem: fp8_mma::Problem,
) -> Result<Tensor<2>, Error> {
    let device = x.device();
    needs_kernels(&device, "FP8 matrix instructions")?;
    if let Rows::Sorted(assignment) = of
        && let Some(variant) = assignment.variant
        && variant.tile_rows() != mma::TILE_ROWS
    {
        let needs = "a variant whose tiles have 64 rows";
        return Err(Unsupported::new("fp8_mma", needs, variant.name()).into());
    }
    let product = GroupedGemm::Fp8Codes(problem);
    let call = Request::new(product, &device, &ProductHow::default())?;
    let (words, x_scales) = quantize::quantize(x, rounding)?;
    let call = call.reads([words]).reads([x_scales, codes, scales]);
    let sort = of.sorted().into_iter().flat_map(Sorted::segments);
    let call = call.reads(sort).reads(bias);
    let call = call.beside(of.sorted().and_then(Sorted::tiles));
    Ok(call.run().floats())
}

/// Checks that a device has buffers of so many bytes, for `what`.
pub(crate) fn check_kept(what: &'static str, bytes: usize, device: &Device) -> Result<(), Error> {
    device::plan(device, |device| {
        let most = device.limits.max_buffer_bytes;
        if bytes as u64 <= most {
            return Ok(());
        }
        let needs = format_args!("a buffer of {bytes} bytes");
        let have = format_args!("buffers of at most {most} bytes");
        Err(Unsupported::new(what, needs, have))
    })?;
    Ok(())
}

/// Refuses a device without kernels, because it lacks `instructions`.
fn needs_kernels(device: &Device, instructions: &str) -> Result<(), Error> {
    if device::capability(device)?.is_none() {
        let needs = format!("kernels for {instructions}");
        return Err(Unsupported::new("fp8_linear", needs, "a device without kernels").into());
    }
    Ok(())
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! Products on Flex.

    use crate::ops::host::{
        Computed, Floats, Operands, Rows, Words, contiguous, matrices, segments, signed_words,
        to_f32, words,
    };
    use crate::ops::tensors::Value;
    use moebius_host::grouped_gemm::fp8::{self, Weights};
    use moebius_host::grouped_gemm::{self as host, blocks};
    use moebius_host::quantize::Scales;
    use moebius_ops::GroupedGemm;
    use moebius_ops::blocks::interleaved;
    use moebius_ops::grouped_gemm::Problem;
    use std::borrow::Cow;

    pub(in crate::ops) fn run(operation: &GroupedGemm, b: Operands) -> Vec<Computed> {
        match operation {
            GroupedGemm::Linear(problem) => linear(problem, b),
            GroupedGemm::LinearBackward {
                problem,
                rows,
                w,
                bias,
            } => gradients(problem, [*rows, *w, *bias], b),
            GroupedGemm::CodedLinear(problem) => coded_linear(problem, b),
            GroupedGemm::CodedLinearBackward { problem, x, bias } => {
                coded_gradients(problem, [*x, *bias], b)
            }
            GroupedGemm::Fp8Codes(_) => {
                unreachable!("a product of codes needs matrix instructions")
            }
        }
    }

    fn linear(problem: &Problem, mut b: Operands) -> Vec<Computed> {
        let segments = segments(&mut b, problem.row_bound);
        let rows = contiguous(b.float("rows"));
        let bias = Floats::of(&mut b, "b");
        let (w, places) = stack(&mut b);
        let places = places.as_ref().map(signed_words);
        let w = weights(&w, places.as_deref());
        let y = host::linear(problem, &segments, matrices(&rows), w, bias.maybe());
        vec![y.into()]
    }

    /// Computes the gradients that are needed: of the rows, the weights and the biases.
    fn gradients(problem: &Problem, needs: [bool; 3], mut b: Operands) -> Vec<Computed> {
        let segments = segments(&mut b, problem.row_bound);
        let floats = ["dy", "rows"].map(|name| Floats::of(&mut b, name));
        let (w, places) = stack(&mut b);
        let places = places.as_ref().map(signed_words);
        let w = weights(&w, places.as_deref());
        let floats = floats.each_ref().map(Floats::values);
        let gradients = host::linear_backward(problem, &segments, needs, floats, w);
        let needed = gradients.into_iter().flatten();
        needed.map(Computed::from).collect()
    }

    /// The weights of all experts, and their places if only those are stored that are kept.
    fn stack(b: &mut Operands) -> (Rows, Option<Words>) {
        let places = b.maybe_word("places").map(contiguous);
        (contiguous(b.float("W")), places)
    }

    fn weights<'a>(w: &'a Rows, places: Option<&'a [i32]>) -> host::Weights<'a> {
        let w = matrices(w);
        match places {
            Some(places) => host::Weights::Sparse24(w, places),
            None => host::Weights::Values(w),
        }
    }

    fn coded_linear(p: &Problem, mut b: Operands) -> Vec<Computed> {
        let x = contiguous(b.float("x"));
        let segments = (!p.dense).then(|| segments(&mut b, 0));
        let (segments, x) = (segments.as_ref(), matrices(&x));
        let y = if p.stored.blocks().is_some() {
            let (words, bias) = (contiguous(b.word("codes")), Floats::of(&mut b, "b"));
            blocks::linear(p, segments, x, &interleaved(p, &words), bias.maybe())
        } else {
            by_fp8(&mut b, |weights| fp8::linear(p, segments, x, weights))
        };
        vec![y.into()]
    }

    /// Computes the gradients that are needed through codes: of x and the biases.
    fn coded_gradients(p: &Problem, needs: [bool; 2], mut b: Operands) -> Vec<Computed> {
        let segments = segments(&mut b, p.row_bound);
        let dy = Floats::of(&mut b, "dy");
        let dy = dy.values();
        let gradients = if p.stored.blocks().is_some() {
            let words = contiguous(b.word("codes"));
            blocks::linear_backward(p, &segments, needs, dy, &interleaved(p, &words))
        } else {
            by_fp8(&mut b, |weights| {
                fp8::linear_backward(p, &segments, needs, dy, weights)
            })
        };
        let needed = gradients.into_iter().flatten();
        needed.map(Computed::from).collect()
    }

    /// The words of blocks, interleaved. Weights have been loaded so; rows of case files are moved for each call.
    fn interleaved<'a>(p: &Problem, words: &'a Words) -> Cow<'a, [i32]> {
        let words = signed_words(words);
        let [rows, _] = p.weight_rows();
        match p.stored.blocks() {
            Some(format) if !p.interleaved => {
                let mut words: Vec<_> = words.iter().map(|word| word.to_ne_bytes()).collect();
                interleaved::interleave(&mut words, format, [rows, format.row_words(p.k)]);
                words.into_iter().map(i32::from_ne_bytes).collect()
            }
            _ => words,
        }
    }

    /// Computes something of the FP8 codes, scales and bias among the operands.
    fn by_fp8<T>(b: &mut Operands, compute: impl FnOnce(&Weights<'_>) -> T) -> T {
        let codes = contiguous(b.word("codes"));
        let bias = Floats::of(b, "b");
        let scales = match b.take("scales") {
            Value::Float(scales) => Value::Float(contiguous(to_f32(scales))),
            bytes @ Value::Word(_) => bytes,
        };
        compute(&Weights {
            codes: &signed_words(&codes),
            scales: match &scales {
                Value::Float(scales) => Scales::F32(Cow::Borrowed(scales.storage())),
                Value::Word(bytes) => Scales::E8M0(words(bytes.clone()).into()),
            },
            bias: bias.maybe(),
        })
    }
}
