//! What kernels take for granted of the words they are given: that a sort is one, and that places exist.

use super::operands::Operands;
use super::{Experts, GroupedGemm, KvCache, Operation, Permute, Routing};
use crate::error::Mismatch;
use crate::permute::NOWHERE;

/// Checks order, offsets and positions of a sort, chosen experts that a gradient is of, and spans of cached tokens.
pub(super) fn check(operation: &Operation, b: &Operands<'_>) -> Result<(), Mismatch> {
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
        Operation::KvCache(KvCache::Attend(p)) => {
            let sizes = p.attention().sizes();
            check_spans(b.words("spans"), sizes.queries, sizes.keys)
        }
        _ => Ok(()),
    }
}

/// The rows that buffers in the order of the experts have; 0 for operations without a sort among their operands.
fn sorted_rows(operation: &Operation) -> usize {
    match operation {
        Operation::Permute(
            Permute::Gather(p) | Permute::Combine { problem: p, .. } | Permute::CombineBackward(p),
        ) => p.row_bound(),
        Operation::GroupedGemm(operation) => match operation {
            GroupedGemm::Linear(p)
            | GroupedGemm::LinearBackward { problem: p, .. }
            | GroupedGemm::Fp8Linear(p) => p.row_bound,
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

/// Starts and ends of the tokens that a call knows of, `new` of which may be its own.
fn check_spans(spans: &[u32], new: usize, room: usize) -> Result<(), Mismatch> {
    for span in spans.chunks(2) {
        let [start, end] = [span[0] as usize, span[1] as usize];
        let fits = start <= room && end <= room && end <= start + new;
        let expected = format_args!("within {room} tokens, the end at most {new} after the start");
        Mismatch::unless(fits, "spans", expected, format_args!("{start}..{end}"))?;
    }
    Ok(())
}

/// Checks that each word of an operand names one of `things`.
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
