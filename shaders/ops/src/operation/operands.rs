//! Tensors on the host: the operands of a call by name, checks of the indices that kernels trust, and the results in plain Rust.
//! Every test harness uses this one oracle.

use super::{
    Exact, Experts, GroupedGemm, KvCache, Operation, Permute, Routing, Scalar, Signature,
    TensorInfo,
};
use crate::error::Mismatch;
use crate::permute::{NOWHERE, Sorted};

/// The elements of a tensor on the host; the operation's signature has its shape.
#[derive(Clone, Debug, PartialEq)]
pub enum HostTensor {
    /// Floats of any element type; f64 holds each of them exactly.
    Floats(Vec<f64>),
    /// 32-bit words.
    Words(Vec<u32>),
}

impl HostTensor {
    /// A tensor of floats from f32 values.
    pub fn of_f32(values: &[f32]) -> Self {
        Self::Floats(values.iter().copied().map(f64::from).collect())
    }

    /// The floats of the tensor; empty for a tensor of words.
    pub fn floats(&self) -> &[f64] {
        match self {
            Self::Floats(values) => values,
            Self::Words(_) => &[],
        }
    }

    /// The words of the tensor; empty for a tensor of floats.
    pub fn words(&self) -> &[u32] {
        match self {
            Self::Words(words) => words,
            Self::Floats(_) => &[],
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Words(words) => words.len(),
        }
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that the tensor has the number of elements and the kind of elements that `of` describes.
    fn check(&self, of: &TensorInfo) -> Result<(), Mismatch> {
        let kind = |floats| if floats { "floats" } else { "words" };
        let expected = matches!(of.scalar, Scalar::Float(_));
        let got = matches!(self, Self::Floats(_));
        Mismatch::unless(expected == got, of.name, kind(expected), kind(got))?;
        Mismatch::check(of.name, of.shape.iter().product(), self.len())
    }
}

impl From<Vec<f64>> for HostTensor {
    fn from(values: Vec<f64>) -> Self {
        Self::Floats(values)
    }
}

impl From<Vec<u32>> for HostTensor {
    fn from(words: Vec<u32>) -> Self {
        Self::Words(words)
    }
}

/// An oracle's results by their names in the signature; it may compute more than the operation asks for.
pub(super) type Computed = Vec<(&'static str, HostTensor)>;

/// Operands by name.
pub(super) struct Operands<'a>(Vec<(&'static str, &'a HostTensor)>);

impl<'a> Operands<'a> {
    fn new(signature: &Signature, tensors: &'a [HostTensor]) -> Self {
        let names = signature.operands.iter().map(|info| info.name);
        Self(names.zip(tensors).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<&'a HostTensor> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        found.map(|(_, tensor)| *tensor)
    }

    /// The floats of operand `name`; empty if the operation has no such operand.
    pub(super) fn floats(&self, name: &str) -> &'a [f64] {
        self.find(name).map_or(&[], HostTensor::floats)
    }

    /// The floats of operand `name` in f32, which holds every element type exactly.
    pub(super) fn f32s(&self, name: &str) -> Vec<f32> {
        self.floats(name).iter().map(|x| *x as f32).collect()
    }

    /// The floats of operand `name` in f32, or `None` if the operation has no such operand.
    pub(super) fn maybe_f32s(&self, name: &str) -> Option<Vec<f32>> {
        self.find(name).map(|_| self.f32s(name))
    }

    /// The words of operand `name`; empty if the operation has no such operand.
    pub(super) fn words(&self, name: &str) -> &'a [u32] {
        self.find(name).map_or(&[], HostTensor::words)
    }

    /// The operand `mask` as booleans, if present.
    pub(super) fn mask(&self) -> Option<Vec<bool>> {
        self.find("mask")?;
        let mask = self.words("mask").iter();
        Some(mask.map(|word| *word != 0).collect())
    }

    /// The sort of the slots. Without a sort among the operands, all `rows` rows belong to one expert, in order.
    pub(super) fn sorted(&self, rows: usize) -> Sorted {
        if self.find("offsets").is_none() {
            let order: Vec<u32> = (0..rows as u32).collect();
            return Sorted {
                offsets: vec![0, rows as u32],
                positions: order.clone(),
                order,
            };
        }
        Sorted {
            order: self.words("order").to_vec(),
            offsets: self.words("offsets").to_vec(),
            positions: self.words("positions").to_vec(),
        }
    }
}

impl Operation {
    /// Checks the description and that `tensors` match its operands in number and kind of elements, and that sorts, positions and
    /// spans stay within their tensors.
    ///
    /// # Errors
    /// [`Mismatch`] for the first tensor or value that doesn't fit.
    pub fn check_operands(&self, tensors: &[HostTensor]) -> Result<(), Mismatch> {
        self.check()?;
        let signature = self.signature();
        Mismatch::check("operands", signature.operands.len(), tensors.len())?;
        let mut pairs = signature.operands.iter().zip(tensors);
        pairs.try_for_each(|(info, tensor)| tensor.check(info))?;
        check_contents(self, &Operands::new(&signature, tensors))
    }

    /// Computes the results for `operands`, both in the order of the signature, in f64 without rounding to the element type; rows
    /// that no slot is sorted to are 0.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Operation::check_operands`].
    pub fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, Mismatch> {
        self.check_operands(operands)?;
        let signature = self.signature();
        let mut computed = self.compute(&Operands::new(&signature, operands))?;
        let mut result = |info: &TensorInfo| {
            let place = computed.iter().position(|(name, _)| *name == info.name);
            let Some(place) = place else {
                unreachable!("{} computes {}", signature.name, info.name);
            };
            let (_, tensor) = computed.swap_remove(place);
            tensor.check(info).map(|()| tensor)
        };
        signature.results.iter().map(&mut result).collect()
    }
}

/// Checks the order, offsets and positions of a sort, the chosen experts of a backward pass, and the spans of a cache.
fn check_contents(operation: &Operation, b: &Operands<'_>) -> Result<(), Mismatch> {
    let rows = sorted_rows(operation);
    check_offsets(b.words("offsets"), rows)?;
    let order = b.words("order");
    let slot = |slot| (slot as usize) < order.len();
    all(order, "order", "slots", slot)?;
    let row = |row| row == NOWHERE || (row as usize) < rows;
    all(
        b.words("positions"),
        "positions",
        "sorted rows, or none",
        row,
    )?;
    match operation {
        Operation::Routing(Routing::RouteBackward { problem, .. }) => {
            let expert = |expert| expert as usize <= problem.experts();
            all(b.words("indices"), "indices", "experts, or none", expert)
        }
        Operation::KvCache(KvCache::Append(p)) => {
            check_spans(b.words("spans"), p.tokens, p.table * p.layout.page())
        }
        Operation::KvCache(KvCache::Attend(p)) | Operation::Exact(Exact::Attend(p)) => {
            let sizes = p.attention().sizes();
            check_spans(b.words("spans"), sizes.queries, sizes.keys)
        }
        _ => Ok(()),
    }
}

/// The number of rows of buffers sorted by expert; 0 for operations without a sort among their operands.
fn sorted_rows(operation: &Operation) -> usize {
    match operation {
        Operation::Permute(
            Permute::Gather(p) | Permute::Combine { problem: p, .. } | Permute::CombineBackward(p),
        ) => p.row_bound(),
        Operation::GroupedGemm(operation) => match operation {
            GroupedGemm::Linear(p)
            | GroupedGemm::LinearBackward { problem: p, .. }
            | GroupedGemm::CodedLinear(p)
            | GroupedGemm::CodedLinearBackward { problem: p, .. } => p.row_bound,
            GroupedGemm::Fp8Codes(p) => p.product.row_bound,
        },
        Operation::Experts(
            Experts::Forward { problem: p, .. } | Experts::Backward { problem: p, .. },
        ) => p.row_bound,
        Operation::SegmentAttention(operation) => operation.problem.rows(),
        _ => 0,
    }
}

fn check_offsets(offsets: &[u32], rows: usize) -> Result<(), Mismatch> {
    let Some((last, _)) = offsets.split_last() else {
        return Ok(());
    };
    let ascending = offsets[0] == 0 && offsets.is_sorted() && *last as usize <= rows;
    let expected = format_args!("from 0 ascending to at most {rows}");
    Mismatch::unless(ascending, "offsets", expected, format_args!("{offsets:?}"))
}

/// Checks that each (start, end) lies within `room` cached tokens and that end ≤ start + `new`.
fn check_spans(spans: &[u32], new: usize, room: usize) -> Result<(), Mismatch> {
    for span in spans.chunks(2) {
        let [start, end] = [span[0] as usize, span[1] as usize];
        let fits = start <= room && end <= room && end <= start + new;
        let expected = format_args!("within {room} tokens, the end at most {new} after the start");
        Mismatch::unless(fits, "spans", expected, format_args!("{start}..{end}"))?;
    }
    Ok(())
}

/// Checks that each of `words` satisfies `right`; `things` names the valid words in the error.
fn all(
    words: &[u32],
    what: &'static str,
    things: &str,
    right: impl Fn(u32) -> bool,
) -> Result<(), Mismatch> {
    match words.iter().find(|word| !right(**word)) {
        Some(word) => Err(Mismatch::new(what, things, word)),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
