//! Calls on CubeCL devices: launches of kernels.

use super::call::{Buffers, Call, Operations};
use super::dtype;
use super::tensors::{Named, Tensors, Value};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use moebius_ops::{Scalar, TensorInfo};
use moebius_shaders::checked;

impl Operations for CubeBackend {
    fn moebius_run(operands: Tensors<Self>, call: Box<Call>) -> Tensors<Self> {
        let results: Vec<TensorInfo> = call.results().collect();
        let Some(planned) = &call.planned else {
            unreachable!("a call on a CubeCL device carries its kernels");
        };
        let kernels = &planned.forward;
        let mut strides = Vec::new();
        let operand = |(name, value)| {
            let operand = tensor(value);
            if kernels.strided().contains(&name) && rows_are_whole(&operand) {
                strides.push((name, of_rows(&operand)));
                return operand;
            }
            into_contiguous(operand)
        };
        let mut tensors: Vec<CubeTensor> = call.operands().zip(operands.0).map(operand).collect();
        let Some(like) = tensors.first() else {
            unreachable!("an operation has an operand");
        };
        let (client, device) = (like.client.clone(), like.device.clone());
        let mut allocated = |result: &TensorInfo| {
            if let Some(at) = call.operands().position(|name| name == result.name) {
                return changed(&mut tensors[at]);
            }
            let (shape, dtype) = (result.shape.clone().into(), dtype(result.written()));
            empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype)
        };
        let out: Vec<CubeTensor> = results.iter().map(&mut allocated).collect();
        let outputs: Vec<_> = out.iter().map(|tensor| &tensor.handle).collect();
        let names = call
            .operands()
            .chain(results.iter().map(|result| result.name));
        let read = tensors.into_iter().map(|tensor| tensor.handle);
        let written = outputs.iter().map(|handle| (*handle).clone());
        let (views, strides): (Vec<_>, Vec<_>) = strides.into_iter().unzip();
        let buffers = Buffers {
            handles: Named::new(names, read.chain(written)),
            strides: Named::new(views, strides),
        };
        let mut ended = |stage| {
            if let Some(clock) = &call.clock {
                // A device error shows at the caller's next read; the clock only needs the wait.
                let _ = cubecl::future::block_on(client.sync());
                clock.mark(stage);
            }
        };
        let launch = || kernels.launch(&client, &call.signature, &buffers, &mut ended);
        checked(&client, &outputs, || call.counted(launch));
        if matches!(device, cubecl::Device::Cpu(_)) {
            // This keeps pace as `moebius::keep_pace` does. A failed launch has marked its results, so that the next read of them reports
            // the error.
            let _ = client.flush();
        }
        let value = |(tensor, result): (CubeTensor, &TensorInfo)| match result.scalar {
            Scalar::Word => Value::Word(tensor),
            Scalar::Float(_) => Value::Float(cast(tensor, dtype(result.scalar))),
        };
        Tensors(out.into_iter().zip(&results).map(value).collect())
    }
}

/// Bytes that one binding holds within WebGPU's default limits.
const BINDING: u64 = 128 << 20;

/// Whether a tensor is a view whose rows are each contiguous, in a buffer that every device can bind.
fn rows_are_whole(tensor: &CubeTensor) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let &[.., dim] = shape.as_slice() else {
        return false;
    };
    let whole = |stride: &usize| dim > 0 && stride.is_multiple_of(dim);
    let rows = strides.len() == 4 && strides[3] == 1 && strides[..3].iter().all(whole);
    rows && !tensor.is_contiguous() && tensor.handle.size_in_used() <= BINDING
}

/// Returns the strides from one sequence, head and row to the next.
fn of_rows(tensor: &CubeTensor) -> [usize; 3] {
    let strides = tensor.meta.strides();
    [strides[0], strides[1], strides[2]]
}

/// Returns an operand that the kernels change in place; if something else shares its memory, a copy.
fn changed(operand: &mut CubeTensor) -> CubeTensor {
    if !operand.handle.can_mut() {
        *operand = operand.copy();
    }
    operand.clone()
}

fn tensor(value: Value<CubeBackend>) -> CubeTensor {
    match value {
        Value::Float(tensor) | Value::Word(tensor) => tensor,
    }
}

fn cast(tensor: CubeTensor, dtype: DType) -> CubeTensor {
    if tensor.dtype == dtype {
        return tensor;
    }
    burn_cubecl::kernel::cast(tensor, dtype)
}
