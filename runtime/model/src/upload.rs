//! FP8 weights of files, on a device.

use burn::tensor::Device;
use moebius::fp8::{Fp8Layout, Fp8Tensor};
use moebius_weights::Fp8Weight;

use crate::error::Error;

/// The weight on a device, a matrix or a stack of them: what [`Weight`](moebius::fp8::Weight)s are made of.
///
/// # Errors
/// Those of [`Fp8Weight::check`], and [`Error::Moebius`] when the device can't hold it.
pub fn upload(weight: &Fp8Weight, device: &Device) -> Result<Fp8Tensor, Error> {
    weight.check()?;
    let layout = Fp8Layout {
        shape: weight.extents(),
        format: weight.scheme.format,
        granularity: weight.scheme.granularity,
    };
    let tensor = Fp8Tensor::from_codes(&weight.codes, &weight.scales, layout, device)?;
    Ok(tensor)
}
