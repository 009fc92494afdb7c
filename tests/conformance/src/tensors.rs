//! Tensors made from numbers and read back, and the case files.

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use moebius_ops::Element;
use moebius_tests::data::Rng;
use moebius_tests::elements::exact;
pub(crate) use moebius_tests::elements::floats;
use moebius_weights::Reader;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A tensor of these numbers.
pub(crate) fn tensor<const D: usize>(
    values: &[f32],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    typed(values, shape, DType::F32, device)
}

/// A tensor of these numbers, rounded to `dtype`.
pub(crate) fn typed<const D: usize>(
    values: &[f32],
    shape: [usize; D],
    dtype: DType,
    device: &Device,
) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype))
}

/// A tensor of random numbers within ±`bound`, rounded to `dtype`.
pub(crate) fn drawn<const D: usize>(
    rng: &mut Rng,
    shape: [usize; D],
    bound: f32,
    dtype: DType,
    device: &Device,
) -> Tensor<D> {
    typed(
        &rng.vec(shape.iter().product(), bound),
        shape,
        dtype,
        device,
    )
}

/// A tensor of random f32 numbers within ±`bound`, drawn from a seed.
pub(crate) fn random<const D: usize>(
    seed: u64,
    shape: [usize; D],
    bound: f32,
    device: &Device,
) -> Tensor<D> {
    drawn(&mut Rng::new(seed), shape, bound, DType::F32, device)
}

/// A mask of the available experts.
pub(crate) fn mask(available: &[bool], device: &Device) -> Tensor<1, Bool> {
    Tensor::from_data(TensorData::from(available), device)
}

/// Burn's dtype for an element type.
pub(crate) fn dtype(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F16 => DType::F16,
        Element::Bf16 => DType::BF16,
    }
}

/// A tensor's values as f64, for an oracle.
pub(crate) fn doubles<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    exact(&floats(tensor))
}

pub(crate) fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    floats(tensor).into_iter().map(f32::to_bits).collect()
}

pub(crate) fn words<const D: usize>(tensor: Tensor<D, Int>) -> Vec<u32> {
    let words = tensor.into_data();
    words.iter::<i64>().map(|word| word as u32).collect()
}

pub(crate) fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

/// The folder of case files: `tests/cases`, or on a machine without the sources the folder that `MOEBIUS_TEST_CASES` names.
pub fn case_folder() -> PathBuf {
    let named = std::env::var_os("MOEBIUS_TEST_CASES");
    let of_the_tree = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases");
    named.map_or_else(of_the_tree, PathBuf::from)
}

/// Opens a file or folder of [`case_folder`] by name: inputs and outputs that PyTorch computed.
pub(crate) fn case_file(name: &str) -> Reader {
    Reader::open(&case_folder().join(name)).unwrap()
}

/// The parameters of a case file's operation.
pub(crate) fn params(case: &Reader) -> Value {
    serde_json::from_str(case.metadata()["params"]).unwrap()
}
