//! Burn's side of our operations: recording them, and dtypes.

use crate::ElementType;
use crate::custom::{Call, ID};
use crate::stablehlo::TensorType;
use burn_backend::{BoolStore, DType, Shape, TensorMetadata};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn_router::{RouterClient, RouterTensor};

/// The element type that holds a Burn dtype; none for quantised tensors.
pub fn element(dtype: DType) -> Option<ElementType> {
    Some(match dtype {
        DType::F64 => ElementType::F64,
        DType::F32 | DType::Flex32 => ElementType::F32,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::I64 => ElementType::S64,
        DType::I32 => ElementType::S32,
        DType::I16 => ElementType::S16,
        DType::I8 => ElementType::S8,
        DType::U64 => ElementType::U64,
        DType::U32 => ElementType::U32,
        DType::U16 => ElementType::U16,
        DType::U8 => ElementType::U8,
        DType::Bool(_) => ElementType::Pred,
        DType::QFloat(_) => return None,
    })
}

/// The Burn dtype of an element type; none for FP8, which travels as words.
pub fn dtype(element: ElementType) -> Option<DType> {
    Some(match element {
        ElementType::Pred => DType::Bool(BoolStore::Native),
        ElementType::S8 => DType::I8,
        ElementType::S16 => DType::I16,
        ElementType::S32 => DType::I32,
        ElementType::S64 => DType::I64,
        ElementType::U8 => DType::U8,
        ElementType::U16 => DType::U16,
        ElementType::U32 => DType::U32,
        ElementType::U64 => DType::U64,
        ElementType::F16 => DType::F16,
        ElementType::BF16 => DType::BF16,
        ElementType::F32 => DType::F32,
        ElementType::F64 => DType::F64,
        ElementType::F8E4M3FN | ElementType::F8E5M2 => return None,
    })
}

/// Records `call` on the router of `inputs`, of which there is one at least, and returns its results.
///
/// # Panics
///
/// If an input is quantised or doesn't fit the descriptor: the caller has checked both.
pub fn record<C: RouterClient>(call: &Call, inputs: Vec<RouterTensor<C>>) -> Vec<RouterTensor<C>> {
    let types = inputs.iter().map(|tensor| {
        let shape: Vec<usize> = tensor.shape().to_vec();
        let element = element(tensor.dtype());
        TensorType::new(
            shape,
            element.unwrap_or_else(|| unreachable!("inputs are plain tensors")),
        )
    });
    let outputs = call.outputs(&types.collect::<Vec<_>>());
    let outputs = outputs.unwrap_or_else(|error| unreachable!("a checked call: {error}"));
    let client = inputs[0].client.clone();
    let outputs = outputs.into_iter().map(|ty| {
        let dtype = dtype(ty.element).unwrap_or_else(|| unreachable!("FP8 leaves as words"));
        TensorIr::uninit(client.create_empty_handle(), Shape::from(ty.shape), dtype)
    });
    let operation = CustomOpIr {
        id: ID.to_owned(),
        outputs: outputs.collect(),
        inputs: inputs.into_iter().map(RouterTensor::into_ir).collect(),
        scalars: call.pack().into_iter().map(ScalarIr::UInt).collect(),
    };
    client.register(OperationIr::Custom(operation))
}
