//! Products with FP8 weights, in panels of codes, which are decoded while they are loaded or multiplied by matrix
//! instructions; shapes as in [`moebius_ops::grouped_gemm`] and [`moebius_ops::fp8_mma`]. They have no derivative.

#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;

use crate::ops::call::Request;
use crate::ops::permute::Sorted;
use crate::ops::{Assignment, DeviceValue, quantize};
use crate::{Error, device};
use burn::tensor::{Device, Int, Tensor};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::{GroupedGemm, fp8_mma, quantize as codes};
use moebius_shaders::fp8::Conversion;
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::{ProductHow, Unsupported, fp8_mma as mma};

/// Weights as codes.
#[derive(Clone, Debug)]
pub(crate) struct CodedWeights {
    /// Panels of words.
    pub(crate) codes: Tensor<3, Int>,
    pub(crate) scales: DeviceValue,
    /// \[E,n\] in the dtype of x.
    pub(crate) bias: Option<Tensor<2>>,
    /// How codes are decoded.
    pub(crate) conversion: Conversion,
}

/// \[R,n\]: `problem` of x \[T,k\] or \[R,k\]; sorted rows by the tiles of the `variant` of their sort. The
/// caller has checked the shapes.
pub(crate) fn run(
    x: Tensor<2>,
    weights: CodedWeights,
    sorted: Option<&Sorted>,
    (problem, variant): (Problem, Option<Variant>),
) -> Result<Tensor<2>, Error> {
    let conversion = weights.conversion;
    if conversion == Conversion::Instructions {
        needs_kernels(&x.device(), "FP8 conversion instructions")?;
    }
    let how = ProductHow {
        variant,
        conversion,
    };
    let call = Request::new(GroupedGemm::Fp8Linear(problem), &x.device(), &how)?.reads([x]);
    let call = call.reads([weights.codes]).reads([weights.scales]);
    let sort = sorted.into_iter().flat_map(Sorted::segments);
    let call = call.reads(sort).reads(weights.bias);
    Ok(call.beside(sorted.and_then(Sorted::tiles)).run().floats())
}

/// \[R,n\] f32: `problem` of x \[1, T or R, k\], whose codes are those of `codes`; rows that were sorted as `assignment`
/// says, by tiles of [`mma::TILE_ROWS`].
pub(crate) fn multiply_codes(
    x: Tensor<3>,
    codes: codes::Problem,
    weights: CodedWeights,
    assignment: Option<&Assignment>,
    problem: fp8_mma::Problem,
) -> Result<Tensor<2>, Error> {
    let device = x.device();
    needs_kernels(&device, "FP8 matrix instructions")?;
    if let Some(variant) = assignment.and_then(|assignment| assignment.variant)
        && variant.tile_rows() != mma::TILE_ROWS
    {
        let needs = "a variant whose tiles have 64 rows";
        return Err(Unsupported::new("fp8_mma", needs, variant.name()).into());
    }
    let sorted = assignment.map(|assignment| &assignment.sorted);
    let call = Request::new(
        GroupedGemm::Fp8Codes(problem),
        &device,
        &ProductHow::default(),
    )?;
    let (words, scales) = quantize::quantize(x, codes)?;
    let call = call.reads([words]).reads([scales]).reads([weights.codes]);
    let sort = sorted.into_iter().flat_map(Sorted::segments);
    let call = call.reads([weights.scales]).reads(sort).reads(weights.bias);
    Ok(call.beside(sorted.and_then(Sorted::tiles)).run().floats())
}

/// Refuses a device without kernels, which has no `instructions`.
fn needs_kernels(device: &Device, instructions: &str) -> Result<(), Error> {
    if device::capability(device)?.is_none() {
        let needs = format!("kernels for {instructions}");
        return Err(Unsupported::new("fp8_linear", needs, "a device without kernels").into());
    }
    Ok(())
}

impl Assignment {
    /// \[R,n\]: `problem` of x \[T,k\] or \[R,k\] and FP8 weights.
    pub(crate) fn fp8_linear(
        &self,
        x: Tensor<2>,
        weights: CodedWeights,
        problem: Problem,
    ) -> Result<Tensor<2>, Error> {
        run(x, weights, Some(&self.sorted), (problem, self.variant))
    }
}
