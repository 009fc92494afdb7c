//! Burn's operations in StableHLO.
//!
//! [`Lowering`] walks over `OperationIr`s in order and keeps the value of every tensor. Boolean tensors
//! are i1 whatever their store.

use crate::custom::{Call, CallError, ID};
use crate::record::element;
use crate::stablehlo::{Builder, TensorType, Value};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorId, TensorIr};
use std::collections::HashMap;

/// Why a graph has no StableHLO.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// There is no lowering for an operation.
    #[error("no lowering for the operation {operation}")]
    Unsupported {
        /// The operation and what about it isn't supported.
        operation: String,
    },
    /// Quantised tensors are Burn's own; ours are words and scales.
    #[error("expected a plain tensor, got a quantised one: {dtype}")]
    Quantised {
        /// Its dtype.
        dtype: String,
    },
    /// An operation reads a tensor that nothing has made.
    #[error("tensor {id} is read, but neither an input nor a result before it")]
    Unknown {
        /// The tensor.
        id: TensorId,
    },
    /// A custom operation that isn't ours.
    #[error("expected the custom operation `{ID}`, got `{got}`")]
    Custom {
        /// Its name.
        got: String,
    },
    /// A custom operation that can't be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A graph's values while it is lowered.
pub struct Lowering<'a> {
    /// Where operations are appended.
    pub b: &'a mut Builder,
    values: HashMap<TensorId, Value>,
    random: Option<Value>,
}

impl<'a> Lowering<'a> {
    /// An empty graph. `random` is the state of the random number generator, ui64\[2\], if there is one.
    pub fn new(b: &'a mut Builder, random: Option<Value>) -> Self {
        Self {
            b,
            values: HashMap::new(),
            random,
        }
    }

    /// The state of the random number generator after the operations so far.
    pub fn random(&self) -> Option<Value> {
        self.random
    }

    /// Gives a tensor its value.
    pub fn set(&mut self, id: TensorId, value: Value) {
        self.values.insert(id, value);
    }

    /// The value of a tensor.
    pub fn get(&self, tensor: &TensorIr) -> Result<Value, LowerError> {
        let value = self.values.get(&tensor.id).copied();
        value.ok_or(LowerError::Unknown { id: tensor.id })
    }

    /// Appends one operation.
    pub fn operation(&mut self, operation: &OperationIr) -> Result<(), LowerError> {
        match operation {
            OperationIr::Custom(ir) => self.custom(ir),
            OperationIr::Drop(tensor) => {
                self.values.remove(&tensor.id);
                Ok(())
            }
            other => Err(LowerError::Unsupported {
                operation: format!("{other:?}"),
            }),
        }
    }

    fn custom(&mut self, ir: &CustomOpIr) -> Result<(), LowerError> {
        if ir.id != ID {
            return Err(LowerError::Custom { got: ir.id.clone() });
        }
        let words: Vec<u64> = ir.scalars.iter().copied().map(ScalarIr::elem).collect();
        let call = Call::unpack(&words)?;
        let inputs = ir.inputs.iter().map(|tensor| self.get(tensor));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = call.lower(self.b, &inputs)?;
        for (tensor, value) in ir.outputs.iter().zip(outputs) {
            self.set(tensor.id, value);
        }
        Ok(())
    }
}

/// The type of a Burn tensor.
pub fn tensor_type(tensor: &TensorIr) -> Result<TensorType, LowerError> {
    let element = element(tensor.dtype).ok_or_else(|| LowerError::Quantised {
        dtype: format!("{:?}", tensor.dtype),
    })?;
    Ok(TensorType::new(tensor.shape.to_vec(), element))
}
