//! Burn's operations in StableHLO.
//!
//! [`Lowering`] walks over `OperationIr`s in order and keeps the value of every tensor; [`graph`] lowers a whole
//! captured graph. Boolean tensors are i1, however Burn stores them. Results have the shape and dtype of the
//! operation's description. Sums of f16 and bf16 are taken in f32.
//!
//! | file | operations |
//! |---|---|
//! | `operations.rs` | the list of all operations, and which are lowered |
//! | `elements.rs` | element-wise operations of `BaseOperationIr`, `Bool`, creation, bits of integers |
//! | `layout.rs` | the rest of `BaseOperationIr`: shapes, slices, copies, select, gather, scatter |
//! | `numeric.rs` | `NumericOperationIr` |
//! | `float.rs` | `FloatOperationIr`, `ActivationOperationIr`, random numbers |
//! | `module/` | `ModuleOperationIr` |
//! | `divided.rs` | which tensors lie divided on several devices |

mod divided;
mod elements;
mod float;
mod graph;
mod layout;
mod module;
mod numeric;
mod operations;

pub(crate) use divided::Divided;
pub(crate) use graph::Source;
pub use graph::{Lowered, graph, graph_donating};
pub use operations::{Leaf, leaf, leaves};

use crate::custom::{self, CallError, ID};
use crate::record::element;
use crate::stablehlo::{Builder, Value};
use burn_backend::DType;
use burn_ir::{
    BaseOperationIr, CustomOpIr, FloatOperationIr, NumericOperationIr, OperationIr, ScalarIr,
    TensorId, TensorIr,
};
use moebius_pjrt::{ElementType, TensorType};
use std::cell::Cell;
use std::collections::HashMap;

/// The reason why a graph can't be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// An operation has no lowering; holds its name.
    #[error("no lowering for the operation {0}")]
    Unsupported(String),
    /// A tensor has a quantised type of Burn's, which programs don't have; Moebius keeps quantised values as words and
    /// scales.
    #[error("expected a plain tensor, got a quantised one: {0}")]
    Quantised(String),
    /// An operation reads a tensor that nothing has made.
    #[error("tensor {0} is read, but neither an input nor a result before it")]
    Unknown(TensorId),
    /// A donated input doesn't exist, or no free output has its type; holds its index.
    #[error("input {0} can't be given away: no output is left that has its type")]
    Donation(usize),
    /// A custom operation isn't one of Moebius's.
    #[error("expected the custom operation `{ID}`, got `{0}`")]
    Custom(String),
    /// The description of a custom operation can't be lowered.
    #[error(transparent)]
    Call(#[from] CallError),
}

type Result<T> = std::result::Result<T, LowerError>;

/// The values of a graph's tensors while it is lowered.
pub struct Lowering<'a> {
    /// The builder to which operations are appended.
    pub b: &'a Builder,
    values: HashMap<TensorId, Value>,
    random: Cell<Option<Value>>,
    /// The argument that holds the float scalars. The scalars of operations that [`takes_scalars`] names are indices
    /// into it.
    scalars: Option<Value>,
    /// Whether the scalars of the current operation are indices into `scalars`.
    numbered: bool,
    /// The tensors that lie divided on several devices; `None` for one device.
    divided: Option<&'a Divided>,
}

impl<'a> Lowering<'a> {
    /// Starts an empty graph. `random` is the state of the random number generator, ui64\[2\], if there is one.
    pub fn new(b: &'a Builder, random: Option<Value>) -> Self {
        Self {
            b,
            values: HashMap::new(),
            random: Cell::new(random),
            scalars: None,
            numbered: false,
            divided: None,
        }
    }

    /// The state of the random number generator after the operations so far.
    pub fn random(&self) -> Option<Value> {
        self.random.get()
    }

    /// Sets the value of a tensor.
    pub fn set(&mut self, id: TensorId, value: Value) {
        self.values.insert(id, value);
    }

    /// The value of a tensor.
    pub fn get(&self, tensor: &TensorIr) -> Result<Value> {
        self.value(tensor.id)
    }

    /// The value of the tensor with this id.
    pub fn value(&self, id: TensorId) -> Result<Value> {
        let value = self.values.get(&id).copied();
        value.ok_or(LowerError::Unknown(id))
    }

    /// Appends one operation.
    pub fn operation(&mut self, operation: &OperationIr) -> Result<()> {
        let leaf = leaf(operation);
        if !leaf.lowered {
            return Err(LowerError::Unsupported(leaf.to_string()));
        }
        self.numbered = self.scalars.is_some() && takes_scalars(operation);
        let values = match self.zeros(operation)? {
            Some(zeros) => zeros,
            None => self.results(operation)?,
        };
        for (tensor, value) in operation.outputs().zip(values) {
            let ty = tensor_type(tensor)?;
            let value = self.b.reshape(self.b.cast(value, ty.element), &ty.shape);
            self.set(tensor.id, value);
        }
        Ok(())
    }

    fn results(&mut self, operation: &OperationIr) -> Result<Vec<Value>> {
        Ok(match operation {
            OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => {
                vec![self.elements(op)?]
            }
            OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => {
                self.numeric(op)?
            }
            OperationIr::Bool(op) => vec![self.boolean(op)?],
            OperationIr::Int(op) => vec![self.int(op)?],
            OperationIr::Float(_, op) => vec![self.float(op)?],
            OperationIr::Module(op) => self.module(op)?,
            OperationIr::Init(ir) => vec![self.get(&ir.out)?],
            OperationIr::Custom(ir) => self.custom(ir)?,
            OperationIr::Drop(tensor) => {
                self.values.remove(&tensor.id);
                Vec::new()
            }
            OperationIr::Activation(op) => vec![self.activation(op)?],
            OperationIr::Distributed(_) => unreachable!("not listed as lowered"),
        })
    }

    /// Zeros as results of an operation that computes, if none of its results has elements.
    fn zeros(&self, operation: &OperationIr) -> Result<Option<Vec<Value>>> {
        let kept = matches!(operation, OperationIr::Init(_) | OperationIr::Custom(_));
        let types = operation.outputs().map(tensor_type);
        let types = types.collect::<Result<Vec<_>>>()?;
        if kept || types.is_empty() || types.iter().any(|ty| ty.elements() > 0) {
            return Ok(None);
        }
        for tensor in operation.inputs() {
            self.get(tensor)?;
        }
        let zeros = types.into_iter().map(|ty| self.b.splat(0.0, ty));
        Ok(Some(zeros.collect()))
    }

    fn custom(&self, ir: &CustomOpIr) -> Result<Vec<Value>> {
        if ir.id != ID {
            return Err(LowerError::Custom(ir.id.clone()));
        }
        let words: Vec<u64> = ir.scalars.iter().copied().map(ScalarIr::elem).collect();
        let operation = custom::unpack(&words)?;
        let inputs = ir.inputs.iter().map(|tensor| self.get(tensor));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let first = ir.inputs.first().zip(self.divided);
        let divided = first.is_some_and(|(tensor, divided)| divided.contains(tensor.id));
        Ok(custom::lower_divided(&operation, self.b, &inputs, divided)?)
    }

    /// A scalar repeated to a tensor of type `ty`; numbers are converted as by Rust's `as`.
    fn scalar(&self, scalar: ScalarIr, ty: TensorType) -> Value {
        if let (true, ScalarIr::UInt(place), Some(all)) = (self.numbered, scalar, self.scalars) {
            let place = place as usize;
            let value = self.b.slice_dim(all, 0, place..place + 1);
            let value = self.b.cast(self.b.reshape(value, &[]), ty.element);
            return self.b.broadcast(value, &ty.shape, &[]);
        }
        if ty.element.is_float() || ty.element == ElementType::Pred {
            return self.b.splat(scalar.elem(), ty);
        }
        let number = match scalar {
            ScalarIr::Float(x) => x as i128,
            ScalarIr::Int(x) => i128::from(x),
            ScalarIr::UInt(x) => i128::from(x),
            ScalarIr::Bool(x) => i128::from(x),
        };
        let number = number.clamp(ty.element.smallest(), ty.element.largest());
        self.b.splat_int(number, ty)
    }

    /// The values of two tensors, repeated to a common shape.
    fn pair(&self, lhs: &TensorIr, rhs: &TensorIr, shape: &[usize]) -> Result<(Value, Value)> {
        let (x, y) = (self.get(lhs)?, self.get(rhs)?);
        let y = self.b.cast(y, self.b.element(x));
        Ok((self.b.broadcast_to(x, shape), self.b.broadcast_to(y, shape)))
    }
}

impl Builder {
    /// `x` converted to f32 for sums if its type is narrower.
    fn widen(&self, x: Value) -> Value {
        match self.element(x) {
            ElementType::F16 | ElementType::BF16 => self.convert(x, ElementType::F32),
            _ => x,
        }
    }
}

/// The type of a Burn tensor.
pub fn tensor_type(tensor: &TensorIr) -> Result<TensorType> {
    value_type(&tensor.shape, tensor.dtype)
}

pub(crate) fn value_type(shape: &[usize], dtype: DType) -> Result<TensorType> {
    let element = element(dtype).ok_or_else(|| LowerError::Quantised(format!("{dtype:?}")))?;
    Ok(TensorType::new(shape, element))
}

/// Whether an operation draws random numbers.
pub(crate) fn draws(operation: &OperationIr) -> bool {
    matches!(
        operation,
        OperationIr::Float(_, FloatOperationIr::Random(_))
            | OperationIr::NumericInt(_, NumericOperationIr::IntRandom(_))
    )
}

/// Whether an operation's float scalars may be arguments. The scalars of other operations decide what the operation is
/// lowered to, or belong to a layer, which doesn't change them.
pub(crate) fn takes_scalars(operation: &OperationIr) -> bool {
    use BaseOperationIr as Base;
    use NumericOperationIr as Op;
    match operation {
        OperationIr::BaseFloat(operation) => matches!(
            operation,
            Base::MaskFill(_) | Base::EqualElem(_) | Base::NotEqualElem(_)
        ),
        OperationIr::NumericFloat(_, operation) => matches!(
            operation,
            Op::AddScalar(_)
                | Op::SubScalar(_)
                | Op::MulScalar(_)
                | Op::DivScalar(_)
                | Op::RemScalar(_)
                | Op::ClampMin(_)
                | Op::ClampMax(_)
                | Op::Clamp(_)
                | Op::GreaterElem(_)
                | Op::GreaterEqualElem(_)
                | Op::LowerElem(_)
                | Op::LowerEqualElem(_)
                | Op::Full(_)
                | Op::Pad(_)
        ),
        _ => false,
    }
}
