//! Moebius's own operations in StableHLO.
//!
//! A family is a file: descriptors that say everything but the tensors, and how each is lowered. Their
//! results have the shapes that the lowering gives them. Integers come as 32-bit words of either sign
//! (or as i64, when a host made them) and leave as i32.
//!
//! | file | operations |
//! |---|---|
//! | `router/` | logits, the choice of experts, hashes, loads, and their gradients |
//! | `sort.rs` | slots by expert, and the capacity rule |
//! | `grouped.rs` | the walk over sorted rows that every product per expert is made of |
//! | `experts/` | feed-forward experts and their gradients |
//! | `linear.rs` | one product per expert and its gradients |
//! | `rows.rs` | rows of tokens in and out of the order of their experts |
//! | `neighbours.rs` | sorted rows beside their neighbours in a sequence |
//! | `attention.rs` | attention within a sequence |
//! | `fp8.rs` | casts between floats and FP8 codes |
//! | `quantize.rs` | codes and scales of matrices, and back |
//! | `fp8_linear.rs` | products with FP8 weights |

pub mod attention;
pub mod experts;
pub mod fp8;
pub mod fp8_linear;
mod grouped;
pub mod linear;
pub mod neighbours;
pub mod quantize;
pub mod router;
pub mod rows;
pub mod sort;

use crate::ElementType;
use crate::stablehlo::{Builder, TensorType, Value};
use serde::{Deserialize, Serialize};

/// The name of our custom operations in Burn's graphs.
pub const ID: &str = "moebius";

/// What one family's operation is lowered to.
pub(crate) trait Lower {
    /// Its name in errors.
    fn name(&self) -> &'static str;

    /// Shapes of the operands.
    fn operands(&self) -> Vec<Vec<usize>>;

    /// Appends the operation and returns its results; the operands have their shapes.
    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value>;
}

/// One operation, without its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Call {
    /// A cast of flat tensors between f32 and FP8.
    Fp8(fp8::Cast),
    /// Codes and scales of a stack of matrices, and back.
    Quantize(quantize::Quantize),
    /// A product with FP8 weights.
    Fp8Linear(fp8_linear::Fp8Linear),
    /// Rows of tokens in and out of the order of their experts.
    Rows(rows::Rows),
    /// Sorted rows beside their neighbours.
    Neighbours(neighbours::Neighbours),
    /// Attention within a sequence.
    Attention(attention::Attention),
    /// Router logits.
    Logits(router::Logits),
    /// Gradients of router logits.
    LogitsBackward(router::LogitsBackward),
    /// The choice of experts.
    Route(router::Route),
    /// The logits' gradient through one output of the choice.
    RouteBackward(router::RouteBackward),
    /// The choice of experts by hash.
    Hash(router::Hash),
    /// Counts of choices.
    Load(router::Load),
    /// Slots sorted by expert.
    Sort(sort::Sort),
    /// Feed-forward experts.
    Experts(experts::Forward),
    /// Gradients of feed-forward experts.
    ExpertsBackward(experts::Backward),
    /// One product per expert.
    Linear(linear::Linear),
    /// Gradients of one product per expert.
    LinearBackward(linear::LinearBackward),
}

/// Why scalars don't describe an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The words end early or hold a wrong length.
    #[error("expected a length and that many bytes, got {words} words")]
    Length {
        /// Words that came.
        words: usize,
    },
    /// The bytes are no descriptor.
    #[error("expected the descriptor of an operation, got `{got}`: {reason}")]
    Syntax {
        /// The text that came.
        got: String,
        /// What the parser says.
        reason: String,
    },
    /// The operation has other operands.
    #[error("{operation} expected {expected} operands, got {got}")]
    Operands {
        /// The operation.
        operation: String,
        /// Operands it has.
        expected: usize,
        /// Operands that came.
        got: usize,
    },
    /// An operand has another shape.
    #[error("{operation} expected {expected:?} as shape of operand {operand}, got {got:?}")]
    Shape {
        /// The operation.
        operation: String,
        /// Which operand, from 0.
        operand: usize,
        /// The shape that the descriptor says.
        expected: Vec<usize>,
        /// The shape that came.
        got: Vec<usize>,
    },
}

impl Call {
    /// The descriptor as words: a length in bytes, then JSON.
    pub fn pack(&self) -> Vec<u64> {
        let text =
            serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("a descriptor is plain data"));
        let words = text.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        std::iter::once(text.len() as u64).chain(words).collect()
    }

    /// The descriptor that [`Call::pack`] wrote.
    pub fn unpack(words: &[u64]) -> Result<Self, CallError> {
        let (length, rest) = words.split_first().ok_or(CallError::Length { words: 0 })?;
        let mut bytes: Vec<u8> = rest.iter().flat_map(|w| w.to_le_bytes()).collect();
        if usize::try_from(*length).map_or(true, |length| bytes.len() != length.next_multiple_of(8))
        {
            return Err(CallError::Length { words: words.len() });
        }
        bytes.truncate(*length as usize);
        serde_json::from_slice(&bytes).map_err(|reason| CallError::Syntax {
            got: String::from_utf8_lossy(&bytes).into_owned(),
            reason: reason.to_string(),
        })
    }

    fn family(&self) -> &dyn Lower {
        match self {
            Self::Fp8(call) => call,
            Self::Quantize(call) => call,
            Self::Fp8Linear(call) => call,
            Self::Rows(call) => call,
            Self::Neighbours(call) => call,
            Self::Attention(call) => call,
            Self::Logits(call) => call,
            Self::LogitsBackward(call) => call,
            Self::Route(call) => call,
            Self::RouteBackward(call) => call,
            Self::Hash(call) => call,
            Self::Load(call) => call,
            Self::Sort(call) => call,
            Self::Experts(call) => call,
            Self::ExpertsBackward(call) => call,
            Self::Linear(call) => call,
            Self::LinearBackward(call) => call,
        }
    }

    /// Appends the operation and returns its results.
    ///
    /// # Errors
    ///
    /// [`CallError`] for another number of operands, or other shapes than the descriptor says.
    pub fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Result<Vec<Value>, CallError> {
        let family = self.family();
        let operation = || family.name().to_owned();
        let shapes = family.operands();
        if inputs.len() != shapes.len() {
            return Err(CallError::Operands {
                operation: operation(),
                expected: shapes.len(),
                got: inputs.len(),
            });
        }
        for (operand, (expected, input)) in shapes.into_iter().zip(inputs).enumerate() {
            let got = b.shape(*input);
            if got != expected {
                return Err(CallError::Shape {
                    operation: operation(),
                    operand,
                    expected,
                    got,
                });
            }
        }
        Ok(family.lower(b, inputs))
    }

    /// Types of the results for operands of these types.
    ///
    /// # Errors
    ///
    /// As [`Call::lower`].
    pub fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, CallError> {
        let mut b = Builder::new();
        let inputs: Vec<Value> = inputs.iter().map(|ty| b.argument(ty.clone())).collect();
        let outputs = self.lower(&mut b, &inputs)?;
        Ok(outputs.iter().map(|v| b.ty(*v).clone()).collect())
    }
}

/// An integer tensor's values as ui32.
pub(crate) fn words(b: &mut Builder, x: Value) -> Value {
    match b.element(x) {
        ElementType::S32 => b.bitcast(x, ElementType::U32),
        _ => b.convert(x, ElementType::U32),
    }
}

/// A vector's values along dimension `dim` of `shape`.
pub(crate) fn along(b: &mut Builder, x: Value, shape: &[usize], dim: usize) -> Value {
    b.broadcast(x, shape, &[dim])
}

/// `yes` where `condition` holds, and 0 elsewhere; the condition is a vector along dimension 0.
pub(crate) fn rows_where(b: &mut Builder, condition: Value, yes: Value) -> Value {
    let shape = b.shape(yes);
    let condition = along(b, condition, &shape, 0);
    let zero = b.splat_like(0.0, yes);
    b.select(condition, yes, zero)
}
