//! Recording of Moebius's operations in Burn's graphs, and conversions of dtypes.

use crate::custom::{self, CallError, ID};
use burn_backend::{BoolStore, DType, Shape, TensorMetadata};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn_router::{RouterClient, RouterTensor};
use moebius_ops::Operation;
use moebius_pjrt::{ElementType, TensorType};

/// The element type that holds a Burn dtype; `None` for quantised dtypes.
pub fn element(dtype: DType) -> Option<ElementType> {
    let stored = match dtype {
        DType::Flex32 => DType::F32,
        DType::Bool(_) => DType::Bool(BoolStore::Native),
        dtype => dtype,
    };
    let mut elements = ElementType::ALL.into_iter();
    elements.find(|element| self::dtype(*element) == Some(stored))
}

/// The Burn dtype of an element type; `None` for FP8, whose codes Burn holds as words.
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

/// The reason why a call can't be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The call has no input, and so no router that could record the call.
    #[error("expected at least one input, got none")]
    NoInputs,
    /// A tensor has an element type that Burn or XLA's programs lack.
    #[error("expected plain tensors, got {0}")]
    Element(String),
    /// The inputs don't fit the description.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Records `operation` on the router of `inputs` and returns its results.
///
/// # Errors
///
/// [`RecordError`], before anything is recorded.
pub fn record<C: RouterClient>(
    operation: &Operation,
    inputs: Vec<RouterTensor<C>>,
) -> Result<Vec<RouterTensor<C>>, RecordError> {
    let types = inputs.iter().map(|tensor| {
        let (shape, dtype) = (tensor.shape().to_vec(), tensor.dtype());
        let got = || format!("{dtype:?}");
        let element = element(dtype).ok_or_else(|| RecordError::Element(got()))?;
        Ok(TensorType::new(shape, element))
    });
    let outputs = custom::outputs(operation, &types.collect::<Result<Vec<_>, RecordError>>()?)?;
    let client = inputs.first().ok_or(RecordError::NoInputs)?.client.clone();
    let outputs = outputs.into_iter().map(|ty| {
        let got = || ty.element.to_string();
        let dtype = dtype(ty.element).ok_or_else(|| RecordError::Element(got()))?;
        let handle = client.create_empty_handle();
        Ok(TensorIr::uninit(handle, Shape::from(ty.shape), dtype))
    });
    let ir = CustomOpIr {
        id: ID.to_owned(),
        outputs: outputs.collect::<Result<_, RecordError>>()?,
        inputs: inputs.into_iter().map(RouterTensor::into_ir).collect(),
        scalars: custom::pack(operation)
            .into_iter()
            .map(ScalarIr::UInt)
            .collect(),
    };
    Ok(client.register(OperationIr::Custom(ir)))
}
