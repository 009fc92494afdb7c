//! The description of every operation that crosses the seam to a device: its problem, and which operands it has.
//!
//! A description says all but the tensors: [`Operation::signature`] names the operands and results with their shapes
//! and types, which follow from it alone. Descriptions travel as text; what was read is checked again by
//! [`Operation::check`] before anything is computed.
//!
//! | file | operations |
//! |---|---|
//! | `quantization.rs` | casts to FP8 and back, codes and scales of matrices |
//! | `routing.rs` | logits, the choice of experts, hashes, loads, and the sort of the slots |
//! | `rows.rs` | rows in and out of the order of their experts, beside their neighbours, attention within a sequence |
//! | `products.rs` | products per expert, dense ones too, and feed-forward experts |
//! | `attention.rs` | attention under score rules |
//! | `gradient.rs` | which operation computes the gradients of another |

mod attention;
mod gradient;
mod products;
mod quantization;
mod routing;
mod rows;

pub use attention::{Attention, AttentionPass, TableGradients};
pub use gradient::Gradient;
pub use products::Product;
pub use quantization::Quantization;
pub use routing::Routing;
pub use rows::Rows;

use crate::element::Element;
use crate::error::ShapeError;
use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Floats.
    Float(Element),
    /// 32-bit words: indices, counts, or four FP8 codes.
    Word,
}

/// An operand or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// What the formulas call it.
    pub name: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub scalar: Scalar,
}

/// What an operation reads and writes, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operation's name in errors.
    pub name: &'static str,
    /// What it reads.
    pub operands: Vec<TensorInfo>,
    /// What it writes.
    pub results: Vec<TensorInfo>,
}

/// One operation, without its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// FP8 codes and scales.
    Quantization(Quantization),
    /// The choice of experts.
    Routing(Routing),
    /// Moved rows.
    Rows(Rows),
    /// Products.
    Product(Product),
    /// Attention under score rules.
    Attention(Attention),
}

impl Operation {
    /// Its operands and results.
    pub fn signature(&self) -> Signature {
        match self {
            Self::Quantization(operation) => operation.signature(),
            Self::Routing(operation) => operation.signature(),
            Self::Rows(operation) => operation.signature(),
            Self::Product(operation) => operation.signature(),
            Self::Attention(operation) => operation.signature(),
        }
    }

    /// Checks what the constructors of the problems check, of a description that was read.
    ///
    /// # Errors
    /// [`ShapeError`] for sizes that no constructor takes, or that don't fit each other.
    pub fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Quantization(operation) => operation.check(),
            Self::Routing(operation) => operation.check(),
            Self::Rows(operation) => operation.check(),
            Self::Product(operation) => operation.check(),
            Self::Attention(operation) => operation.check(),
        }
    }
}

macro_rules! families {
    ($($family:ident),*) => {$(
        impl From<$family> for Operation {
            fn from(operation: $family) -> Self {
                Self::$family(operation)
            }
        }
    )*};
}

families!(Quantization, Routing, Rows, Product, Attention);

/// A signature as a table: the operation's name, what it reads, what it writes. A tensor is its name, a letter of `sizes` for
/// each dimension, and `f` for f32s or `w` for words; without either it is of type `element`.
fn table(element: Element, sizes: &[(char, usize)], table: [&'static str; 3]) -> Signature {
    let size = |letter| {
        let found = sizes.iter().find(|(name, _)| *name == letter);
        found.map_or(1, |(_, size)| *size)
    };
    let tensor = |entry: &'static str| {
        let mut parts = entry.split(' ');
        TensorInfo {
            name: parts.next().unwrap_or_default(),
            shape: parts.next().unwrap_or_default().chars().map(size).collect(),
            scalar: match parts.next() {
                Some("w") => Scalar::Word,
                Some(_) => Scalar::Float(Element::F32),
                None => Scalar::Float(element),
            },
        }
    };
    let [name, operands, results] = table;
    Signature {
        name,
        operands: operands.split(", ").map(tensor).collect(),
        results: results.split(", ").map(tensor).collect(),
    }
}

impl Signature {
    /// Without the tensors of these names unless they are there.
    fn with(mut self, names: &[&str], present: bool) -> Self {
        let kept = |tensor: &TensorInfo| present || !names.contains(&tensor.name);
        self.operands.retain(kept);
        self.results.retain(kept);
        self
    }
}

#[cfg(test)]
mod tests;
