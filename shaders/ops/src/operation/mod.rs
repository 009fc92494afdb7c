//! Descriptions of every operation that Moebius sends to a device: the problem, and which operands are present.
//!
//! A description contains everything but the tensors: [`Operation::signature`] derives the names, shapes and types of operands
//! and results from it. Descriptions are sent as text; [`Operation::check`] checks a parsed description again before anything is
//! computed.
//!
//! | file | operations |
//! |---|---|
//! | `quantize.rs` | casts to FP8 and back, codes and scales of matrices |
//! | `routing.rs` | logits, the choice of experts, hashes, loads |
//! | `permute.rs` | the sort of the slots, rows in and out of the order of their experts |
//! | `grouped_gemm.rs` | products per expert, dense ones too |
//! | `experts.rs` | feed-forward experts |
//! | `segment_attention.rs` | attention within a sequence |
//! | `attention.rs` | attention under score rules |
//! | `kv_cache.rs` | keys and values in pages, and attention over them |
//! | `exact.rs` | what has the same bits on every device |
//! | `gradient.rs` | which operation computes the gradients of another |
//! | `cost.rs` | bytes and floating-point operations |
//! | `operands.rs` | tensors on the host, and the results that the oracles compute of them |

mod attention;
mod cost;
mod exact;
mod experts;
mod gradient;
mod grouped_gemm;
mod kv_cache;
mod operands;
mod permute;
mod quantize;
mod routing;
mod segment_attention;

pub use attention::{Attention, AttentionPass, TableGradients};
pub use exact::Exact;
pub use experts::Experts;
pub use gradient::Gradient;
pub use grouped_gemm::GroupedGemm;
pub use kv_cache::KvCache;
pub use operands::HostTensor;
pub use permute::Permute;
pub use quantize::Quantize;
pub use routing::Routing;
pub use segment_attention::SegmentAttention;

use crate::element::Element;
use crate::error::Mismatch;
use operands::{Computed, Operands};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Floats.
    Float(Element),
    /// 32-bit words: indices, counts, or four FP8 codes.
    Word,
}

/// The description of an operand or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The tensor's name in the formulas.
    pub name: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub scalar: Scalar,
    /// Whether the tensor is a sum over rows, which kernels write in f32 regardless of `scalar`.
    pub summed: bool,
}

impl TensorInfo {
    /// The element type in which kernels write the tensor.
    pub fn written(&self) -> Scalar {
        if self.summed {
            Scalar::Float(Element::F32)
        } else {
            self.scalar
        }
    }

    /// The size in bytes of the tensor as kernels write it.
    pub fn bytes(&self) -> usize {
        let of_element = match self.written() {
            Scalar::Float(element) => element.bytes(),
            Scalar::Word => 4,
        };
        of_element * self.shape.iter().product::<usize>()
    }
}

/// The operands and results of an operation, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operation's name in errors.
    pub name: &'static str,
    /// The tensors that the operation reads.
    pub operands: Vec<TensorInfo>,
    /// The tensors that the operation writes.
    pub results: Vec<TensorInfo>,
}

impl fmt::Display for Signature {
    /// Writes the tensors with their shapes, such as `x 6×5, Wg 4×5 -> logits 6×4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |tensors: &[TensorInfo]| {
            let shaped = tensors.iter().map(|tensor| {
                let sizes: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
                format!("{} {}", tensor.name, sizes.join("×"))
            });
            shaped.collect::<Vec<String>>().join(", ")
        };
        write!(f, "{} -> {}", side(&self.operands), side(&self.results))
    }
}

/// Defines [`Operation`] over all families, each of which has `signature`, `check` and `compute`.
macro_rules! families {
    ($($(#[$documented:meta])* $family:ident,)*) => {
        /// One operation, without its tensors.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Operation { $($(#[$documented])* $family($family),)* }

        impl Operation {
            /// The name of the family.
            pub fn family(&self) -> &'static str {
                match self {
                    $(Self::$family(_) => stringify!($family),)*
                }
            }

            /// The operands and results.
            pub fn signature(&self) -> Signature {
                match self {
                    $(Self::$family(operation) => operation.signature(),)*
                }
            }

            /// Repeats the constructors' checks for a deserialised description.
            ///
            /// # Errors
            /// [`Mismatch`] for sizes that a constructor refuses or that contradict each other.
            pub fn check(&self) -> Result<(), Mismatch> {
                match self {
                    $(Self::$family(operation) => operation.check(),)*
                }
            }

            fn compute(&self, operands: &Operands<'_>) -> Result<Computed, Mismatch> {
                match self {
                    $(Self::$family(operation) => operation.compute(operands),)*
                }
            }
        }

        $(impl From<$family> for Operation {
            fn from(operation: $family) -> Self {
                Self::$family(operation)
            }
        }

        impl TryFrom<Operation> for $family {
            type Error = Operation;

            /// Returns the operation if it is of this family, else `operation` as the error.
            fn try_from(operation: Operation) -> Result<Self, Operation> {
                match operation {
                    Operation::$family(operation) => Ok(operation),
                    other => Err(other),
                }
            }
        })*
    };
}

families! {
    /// FP8 codes and scales.
    Quantize,
    /// Router logits and the choice of experts.
    Routing,
    /// The sort of slots, and moves of rows.
    Permute,
    /// Grouped and dense matrix products.
    GroupedGemm,
    /// Feed-forward experts.
    Experts,
    /// Attention within a sequence.
    SegmentAttention,
    /// Attention under score rules.
    Attention,
    /// Cached keys and values.
    KvCache,
    /// What has the same bits on every device.
    Exact,
}

/// The signatures of all operations, as `name: operands -> results`. A tensor is its name, one size letter for each dimension,
/// and its type: `f` for f32, `w` for words, nothing for the operation's element type, or `s` for that type in a tensor that
/// kernels sum in f32. A result with the name of an operand is that operand, changed in place.
const SIGNATURES: &str = "\
fp8 encode: x n f -> codes c w
fp8 decode: codes c w -> y n f
fp8 quantize: x Mmn -> codes Mmc w, scales Mda w
fp8 quantize by scales: x Mmn, scales Mda w -> codes Mmc w
fp8 dequantize: codes Mmc w, scales Mda w -> y Mmn
fp8 fake quantize: x Mmn -> y Mmn
fp8 fake quantize by scales: x Mmn, scales Mda w -> y Mmn
fp8 amax: x n -> amax 1 f
router logits: x TH, Wg EH -> logits TE f
router logits backward: x TH, Wg EH, dlogits TE f -> dx TH, dWg EH s
route: logits TE, mask E w, bias E -> indices TK w, weights TK, probs TE, lse T
route backward: dweights TK, dprobs TE, dlse T, logits TE, mask E w, indices TK w, weights TK, \
    probs TE, lse T -> dlogits TE
hash: x TH, mask E w -> indices TK w, weights TK f
load: indices TK w -> counts GE w
sort: weights TK, indices TK w, mask E w, factors E -> order S w, offsets B w, positions S w, \
    dropped 1 w
gather rows: x Tn, order S w, offsets B w -> rows Rn
combine rows: rows Rn, positions S w, weights TK f -> y Tn
combine rows backward: dy Tn, rows Rn, weights TK f, order S w, offsets B w, positions S w \
    -> drows Rn, dweights TK f
segment attention: q Rn, k Rn, v Rn, order S w, offsets B w -> o Rn, lse Rh f
segment attention backward: q Rn, k Rn, v Rn, order S w, offsets B w, o Rn, lse Rh f, do Rn \
    -> dq Rn, dk Rn, dv Rn
grouped linear: rows Rk, W Env, places Eng w, offsets B w, b En -> y Rn
grouped linear backward: dy Rn, rows Rk, W Env, places Eng w, offsets B w -> drows Rk, dW Env s, db En s
fp8 linear: x mk, codes Pqp w, scales Eda f, b Ec -> y Rn
grouped fp8 linear: x mk, codes Pqp w, scales Eda f, order S w, offsets B w, b Ec -> y Rn
block linear: x mk, codes Ecz w, b Ec -> y Rn
grouped block linear: x mk, codes Ecz w, order S w, offsets B w, b Ec -> y Rn
fp8 linear backward: dy Rn, codes Pqp w, scales Eda f, order S w, offsets B w -> dx mk, db En s
block linear backward: dy Rn, codes Ecz w, order S w, offsets B w -> dx mk, db En s
fp8 product of codes: x mq w, x_scales xX f, codes Pqp w, scales Eda f, order S w, offsets B w, b Ec f -> y Rn f
experts: x TH, weights TK f, order S w, offsets B w, positions S w, w_in ECH, w_out EHF, \
    b_in EC, b_out EH -> y TH, pre RC
experts backward: dy TH, x TH, weights TK f, order S w, offsets B w, positions S w, w_in ECH, \
    w_out EHF, b_in EC, b_out EH, pre RC \
    -> dx TH, dweights TK f, dw_in ECH s, dw_out EHF s, db_in EC s, db_out EH s
attention: q BHQD, k BGKD, v BGKE, dropout s w, query_documents BQ w, key_documents BK w, blocks xy w, \
    mask mnQK w, slopes H f, bias bhQK f, relative Hr f, sinks H f -> o BHQE, lse BHQ f
attention backward: q BHQD, k BGKD, v BGKE, dropout s w, query_documents BQ w, key_documents BK w, \
    blocks xy w, mask mnQK w, slopes H f, bias bhQK f, relative Hr f, sinks H f, o BHQE, lse BHQ f, do BHQE \
    -> dq BHQD, dk BGKD, dv BGKE, dbias bhQK f, drelative Hr f, dsinks H f
attention backward of lse: q BHQD, k BGKD, v BGKE, dropout s w, query_documents BQ w, key_documents BK w, \
    blocks xy w, mask mnQK w, slopes H f, bias bhQK f, relative Hr f, sinks H f, lse BHQ f, dlse BHQ f \
    -> dq BHQD, dk BGKD, dbias bhQK f, drelative Hr f, dsinks H f
cache append: k BGTD, v BGTE, pool Pw w, table BM w, spans Bs w -> pool Pw w
cache attention: q BHQD, pool Pw w, table BM w, spans Bs w, slopes H f, relative Hr f, sinks H f \
    -> o BHQE, lse BHQ f
exact map: x n -> y n
exact product: x mk, W Enk, indices R w, b En -> y Rn
exact activation: x Rc -> y RF
exact norm: x Rn, gamma n -> y Rn
exact route: logits TE, bias E -> indices TK w, weights TK, probs TE, lse T
exact combine: rows Sn, weights S, base Tn -> y Tn
exact rotate: x BQHD, cos bQoh, sin bQoh -> y BQHD
exact attention: q BHQD, pool Pw w, table BM w, spans Bs w, sinks H -> o BHQE
";

/// [`SIGNATURES`] by name: operands, results.
static TABLES: LazyLock<HashMap<&str, [Vec<Entry>; 2]>> = LazyLock::new(|| {
    let sides = |line: &'static str| {
        let (name, tensors) = line.split_once(": ")?;
        let (reads, writes) = tensors.split_once(" -> ")?;
        let entries = |side: &'static str| side.split(", ").map(Entry::parse).collect();
        Some((name, [reads, writes].map(entries)))
    };
    SIGNATURES.lines().filter_map(sides).collect()
});

/// A tensor of [`SIGNATURES`].
struct Entry {
    name: &'static str,
    /// A letter for each dimension.
    sizes: &'static str,
    /// The type, or `None` for the operation's element type.
    scalar: Option<Scalar>,
    summed: bool,
}

impl Entry {
    fn parse(text: &'static str) -> Self {
        let mut parts = text.split(' ');
        let (name, sizes, kind) = (parts.next(), parts.next(), parts.next());
        Self {
            name: name.unwrap_or_default(),
            sizes: sizes.unwrap_or_default(),
            scalar: match kind {
                Some("w") => Some(Scalar::Word),
                Some("f") => Some(Scalar::Float(Element::F32)),
                _ => None,
            },
            summed: kind == Some("s"),
        }
    }
}

/// The signature of the operation `name` on tensors of type `element`.
fn signature(name: &str, element: Element, sizes: &[(char, usize)]) -> Signature {
    signature_where(name, element, sizes, |_| true)
}

/// The signature of the operation `name` on tensors of type `element`, of those tensors alone for whose names `there` is true.
fn signature_where(
    name: &str,
    element: Element,
    sizes: &[(char, usize)],
    there: impl Fn(&str) -> bool,
) -> Signature {
    let Some((&name, [reads, writes])) = TABLES.get_key_value(name) else {
        unreachable!("{name} is listed");
    };
    let size = |letter: u8| {
        let found = sizes.iter().find(|(name, _)| *name == letter.into());
        found.map_or(1, |(_, size)| *size)
    };
    let tensor = |entry: &Entry| TensorInfo {
        name: entry.name,
        shape: entry.sizes.bytes().map(size).collect(),
        scalar: entry.scalar.unwrap_or(Scalar::Float(element)),
        summed: entry.summed,
    };
    let tensors = |entries: &[Entry]| {
        let found = entries.iter().filter(|entry| there(entry.name));
        found.map(tensor).collect()
    };
    Signature {
        name,
        operands: tensors(reads),
        results: tensors(writes),
    }
}

#[cfg(test)]
mod tests;
