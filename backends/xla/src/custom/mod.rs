//! Moebius's own operations in StableHLO.
//!
//! [`moebius_ops::Operation`] describes the operations, and the file of a family lowers them. Operands of words may be
//! signed or unsigned 32-bit integers (or i64, if the host made them); results of words are i32. Products and sums are
//! f32, whatever the type of rows.
//!
//! | file | operations |
//! |---|---|
//! | `routing/` | logits, the choice of experts, hashes, loads, and their gradients |
//! | `permute.rs` | slots by expert, the capacity rule, and rows of tokens in and out of that order |
//! | `grouped_gemm/segments.rs` | the walk over sorted rows that all products per expert use |
//! | `grouped_gemm/mod.rs` | one product per expert and its gradients, and products with FP8 weights |
//! | `experts.rs` | feed-forward experts and their gradients |
//! | `attention/` | attention under score rules, and its gradients |
//! | `kv_cache.rs` | keys and values in pages, and attention over them |
//! | `segment_attention.rs` | attention within a sequence |
//! | `quantize.rs` | FP8 casts, codes and scales of matrices, and back |
//! | `placed.rs` | all of them over several devices |
//! | `values.rs` | forms of values that lowerings share |

pub(crate) mod attention;
mod experts;
mod grouped_gemm;
mod kv_cache;
mod permute;
mod placed;
mod quantize;
mod routing;
mod segment_attention;
mod values;

pub use attention::Tiling;
pub(crate) use placed::{experts_of, is_stack};

use crate::stablehlo::{Builder, Value};
use moebius_ops::{GroupedGemm, Mismatch, Operation, Scalar, TensorInfo};
use moebius_pjrt::ElementType::{self, S32};
use moebius_pjrt::TensorType;
use values::float;

/// The name of Moebius's custom operations in Burn's graphs.
pub const ID: &str = "moebius";

/// The reason why an operation can't be lowered or recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The words end early or hold a wrong length.
    #[error("expected a length and that many bytes, got {words} words")]
    Length {
        /// The number of words.
        words: usize,
    },
    /// The bytes are no description of an operation.
    #[error("expected the description of an operation, got `{got}`: {reason}")]
    Syntax {
        /// The text in the bytes.
        got: String,
        /// The parser's message.
        reason: String,
    },
    /// The description has sizes that can't be computed.
    #[error(transparent)]
    Sizes(#[from] Mismatch),
    /// XLA has no lowering for the operation, which is named.
    #[error("expected an operation that XLA computes, got {0}")]
    NotLowered(&'static str),
    /// The number of operands is wrong.
    #[error("{operation} expected {expected} operands, got {got}")]
    Operands {
        /// The operation's name.
        operation: &'static str,
        /// The number of operands that the operation has.
        expected: usize,
        /// The number of operands given.
        got: usize,
    },
    /// A tensor has the wrong shape or type.
    #[error("{operation} expected {expected} as {tensor}, got {got}")]
    Tensor {
        /// The operation's name.
        operation: &'static str,
        /// The name of the operand or result.
        tensor: &'static str,
        /// The type in the description.
        expected: TensorType,
        /// The tensor's type.
        got: TensorType,
    },
    /// Experts over several devices keep nothing for a backward pass; holds the operation's name.
    #[error(
        "{0} over several devices expected the first product to be computed again, got it kept"
    )]
    Kept(&'static str),
}

/// Packs a description into words: its length in bytes, then JSON.
pub fn pack(operation: &Operation) -> Vec<u64> {
    let text = serde_json::to_vec(operation)
        .unwrap_or_else(|_| unreachable!("a description is plain data"));
    let words = text.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    std::iter::once(text.len() as u64).chain(words).collect()
}

/// Reads the description that [`pack`] wrote.
///
/// # Errors
///
/// [`CallError::Length`] or [`CallError::Syntax`] for other words, and [`CallError::Sizes`] for sizes that can't be
/// computed.
pub fn unpack(words: &[u64]) -> Result<Operation, CallError> {
    let (length, rest) = words.split_first().ok_or(CallError::Length { words: 0 })?;
    let mut bytes: Vec<u8> = rest.iter().flat_map(|w| w.to_le_bytes()).collect();
    if usize::try_from(*length).map_or(true, |length| bytes.len() != length.next_multiple_of(8)) {
        return Err(CallError::Length { words: words.len() });
    }
    bytes.truncate(*length as usize);
    let operation: Operation =
        serde_json::from_slice(&bytes).map_err(|reason| CallError::Syntax {
            got: String::from_utf8_lossy(&bytes).into_owned(),
            reason: reason.to_string(),
        })?;
    operation.check()?;
    Ok(operation)
}

/// The types of an operation's results for operands of types `inputs`.
///
/// # Errors
///
/// [`CallError::Sizes`] for sizes that no constructor accepts, [`CallError::NotLowered`] for an operation without a
/// lowering, and [`CallError::Operands`] or [`CallError::Tensor`] for operands that don't match the description.
pub fn outputs(operation: &Operation, inputs: &[TensorType]) -> Result<Vec<TensorType>, CallError> {
    operation.check()?;
    let signature = operation.signature();
    if let Operation::GroupedGemm(GroupedGemm::Fp8Codes(_)) | Operation::Exact(_) = operation {
        return Err(CallError::NotLowered(signature.name));
    }
    if inputs.len() != signature.operands.len() {
        return Err(CallError::Operands {
            operation: signature.name,
            expected: signature.operands.len(),
            got: inputs.len(),
        });
    }
    for (operand, got) in signature.operands.iter().zip(inputs) {
        let expected = type_of(operand);
        // Operands may have any float or integer type: lowerings convert them, and results are compared with the
        // description.
        let suits = match operand.scalar {
            Scalar::Float(_) => got.element.is_float(),
            Scalar::Word => !got.element.is_float() && got.element != ElementType::Pred,
        };
        if !suits || got.shape != expected.shape {
            return Err(CallError::Tensor {
                operation: signature.name,
                tensor: operand.name,
                expected,
                got: got.clone(),
            });
        }
    }
    Ok(signature.results.iter().map(type_of).collect())
}

/// Appends the operation and returns its results, in the types of the description. Where the program has a
/// [mesh](Builder::mesh), the operation is divided among its devices.
///
/// # Errors
///
/// As for [`outputs`], and [`CallError::Tensor`] when a result takes its type from an operand whose type differs from
/// the description. Over several devices also [`CallError::Sizes`] when the places of experts don't divide them evenly,
/// and [`CallError::Kept`].
pub fn lower(
    operation: &Operation,
    b: &Builder,
    inputs: &[Value],
) -> Result<Vec<Value>, CallError> {
    lower_divided(operation, b, inputs, false)
}

/// As [`lower`]; `divided` says whether the first operand is divided among the places of experts.
pub(crate) fn lower_divided(
    operation: &Operation,
    b: &Builder,
    inputs: &[Value],
    divided: bool,
) -> Result<Vec<Value>, CallError> {
    let Some(mesh) = b.mesh() else {
        return lower_tiled(operation, b, inputs, Tiling::default());
    };
    outputs(operation, &b.types(inputs))?;
    placed::lower(b, &mesh, operation, inputs, divided)
}

/// As [`lower`] on one device, with the blocks in which attention under score rules is computed.
///
/// # Errors
///
/// As [`lower`].
pub fn lower_tiled(
    operation: &Operation,
    b: &Builder,
    inputs: &[Value],
    tiling: Tiling,
) -> Result<Vec<Value>, CallError> {
    let expected = outputs(operation, &b.types(inputs))?;
    let results = match operation {
        Operation::Quantize(operation) => quantize::lower(b, operation, inputs),
        Operation::Routing(operation) => routing::lower(b, operation, inputs),
        Operation::Permute(operation) => permute::lower(b, operation, inputs),
        Operation::GroupedGemm(operation) => grouped_gemm::lower(b, operation, inputs),
        Operation::Experts(operation) => experts::lower(b, operation, inputs),
        Operation::SegmentAttention(operation) => segment_attention::lower(b, operation, inputs),
        Operation::Attention(operation) => attention::lower(b, operation, inputs, tiling),
        Operation::KvCache(operation) => kv_cache::lower(b, operation, inputs, tiling)?,
        Operation::Exact(_) => return Err(CallError::NotLowered(operation.signature().name)),
    };
    let signature = operation.signature();
    debug_assert_eq!(results.len(), expected.len(), "{}", signature.name);
    let described = signature.results.iter().zip(expected);
    for ((info, expected), result) in described.zip(&results) {
        let got = b.ty(*result);
        if got != expected {
            return Err(CallError::Tensor {
                operation: signature.name,
                tensor: info.name,
                expected,
                got,
            });
        }
    }
    Ok(results)
}

/// The type that a described tensor has as a result.
fn type_of(tensor: &TensorInfo) -> TensorType {
    let element = match tensor.scalar {
        Scalar::Float(element) => float(element),
        Scalar::Word => S32,
    };
    TensorType::new(tensor.shape.clone(), element)
}
