//! Described operations on host tensors: runs any kernel of this library on any device, without a layer.

use crate::Error;
use crate::ops::{DeviceValue, Request, dtype};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::{HostTensor, Mismatch, Operation, Scalar, TensorInfo};
use moebius_shaders::Family;

/// Computes `operation` on `device`; operands and results are in the order of its signature. Floats are rounded to the types of the
/// signature when they are copied to the device, and read back exactly. In products, rows past those of the last expert are undefined.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for operands that [`Operation::check_operands`] refuses,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for what the device can't run, and
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when it fails.
pub fn run<F: Family>(
    operation: &F,
    operands: &[HostTensor],
    device: &Device,
    how: &F::How,
) -> Result<Vec<HostTensor>, Error> {
    let described: Operation = operation.clone().into();
    described.check_operands(operands)?;
    let signature = described.signature();
    let request = Request::new(operation.clone(), device, how)?;
    let pairs = || signature.operands.iter().zip(operands);
    let offsets = pairs().find(|(info, _)| info.name == "offsets");
    let tiles = match (request.walks(), offsets) {
        (Some(tiles), Some((_, HostTensor::Words(offsets)))) => Some(tiles.of(offsets)),
        _ => None,
    };
    let tiles = tiles.map(|words| {
        let shape = [words.len()];
        ("tiles", words_on::<1>(&words, &shape, device))
    });
    let values = pairs().map(|(info, tensor)| upload(tensor, info, device));
    let values = values.collect::<Result<Vec<DeviceValue>, Mismatch>>()?;
    let mut results = request.reads(values).beside(tiles).run();
    let read = |info: &TensorInfo| download(results.value(), info);
    signature.results.iter().map(read).collect()
}

/// Calls a function that is generic over the rank with the rank of a shape.
macro_rules! by_rank {
    ($info:expr, $function:ident($($argument:expr),*)) => {
        match $info.shape.len() {
            1 => Ok($function::<1>($($argument),*)),
            2 => Ok($function::<2>($($argument),*)),
            3 => Ok($function::<3>($($argument),*)),
            4 => Ok($function::<4>($($argument),*)),
            5 => Ok($function::<5>($($argument),*)),
            other => Err(Mismatch::new($info.name, "1 to 5 dimensions", other)),
        }
    };
}

fn upload(
    tensor: &HostTensor,
    info: &TensorInfo,
    device: &Device,
) -> Result<DeviceValue, Mismatch> {
    match tensor {
        HostTensor::Floats(values) => by_rank!(info, floats_on(values, info, device)),
        HostTensor::Words(words) => by_rank!(info, words_on(words, &info.shape, device)),
    }
}

fn floats_on<const D: usize>(values: &[f64], info: &TensorInfo, device: &Device) -> DeviceValue {
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    let data = TensorData::new(values, info.shape.clone());
    Tensor::<D>::from_data(data, (device, dtype(info.scalar))).into()
}

fn words_on<const D: usize>(words: &[u32], shape: &[usize], device: &Device) -> DeviceValue {
    let words: Vec<i32> = words.iter().map(|word| *word as i32).collect();
    let data = TensorData::new(words, shape.to_vec());
    Tensor::<D, Int>::from_data(data, (device, DType::I32)).into()
}

fn download(value: DeviceValue, info: &TensorInfo) -> Result<HostTensor, Error> {
    let of = |data: TensorData| match info.scalar {
        Scalar::Float(_) => HostTensor::Floats(data.iter::<f64>().collect()),
        Scalar::Word => HostTensor::Words(data.iter::<i64>().map(|word| word as u32).collect()),
    };
    by_rank!(info, read(value, info))?.map(of)
}

fn read<const D: usize>(value: DeviceValue, info: &TensorInfo) -> Result<TensorData, Error> {
    let data = match info.scalar {
        Scalar::Float(_) => value.floats::<D>().try_into_data(),
        Scalar::Word => value.words::<D>().try_into_data(),
    };
    data.map_err(Error::device)
}
