//! What rules read, in one binding.
//!
//! WebGPU grants seven buffers, and q, k, v, o and lse take five. One table is bound as it is; several are copied behind
//! each other, floats as their bits.

use crate::bound::{bind, empty_words};
use crate::grid::Grid;
use crate::launched;
use crate::named::buffers;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_ops::attention::{Dropout, Problem, Rule};

buffers! {
    /// Tables of the rules that there are; see [`Rule`].
    #[derive(Default)]
    pub struct TableBuffers {
        pub dropout: Option<Handle> => "u32 [4]" read,
        pub query_documents: Option<Handle> => "u32 [B, Sq]" read,
        pub key_documents: Option<Handle> => "u32 [B, Skv]" read,
        pub blocks: Option<Handle> => "u32 [⌈Sq / n⌉, ⌈Skv / n⌉]" read,
        pub mask: Option<Handle> => "u32 [B or 1, Hq or 1, Sq, Skv]" read,
        pub slopes: Option<Handle> => "f32 [Hq]" read,
        pub bias: Option<Handle> => "f32 [B or 1, Hq or 1, Sq, Skv]" read,
        pub relative: Option<Handle> => "f32 [Hq, 2n + 1]" read,
        pub sinks: Option<Handle> => "f32 [Hq]" read,
    }
}

/// Words of each table, in the order of [`TableBuffers`]; 0 for those that aren't there. A dropout's come first, so that kernels
/// find them without a scalar.
pub(crate) fn lengths(problem: &Problem) -> [usize; 9] {
    let (s, rules) = (problem.sizes(), problem.rules());
    let when = |there: bool, words: usize| if there { words } else { 0 };
    let documents = rules.has(Rule::Documents);
    let pairs = |shape: [usize; 4]| shape.iter().product();
    [
        when(problem.dropout(), Dropout::WORDS),
        when(documents, s.batch * s.queries),
        when(documents, s.batch * s.keys),
        rules
            .blocks()
            .map_or(0, |n| s.queries.div_ceil(n) * s.keys.div_ceil(n)),
        rules.mask().map_or(0, |pattern| pairs(pattern.shape(s))),
        when(rules.has(Rule::Alibi), s.heads),
        rules.bias().map_or(0, |pattern| pairs(pattern.shape(s))),
        rules.relative().map_or(0, |n| s.heads * (2 * n + 1)),
        when(problem.sinks(), s.heads),
    ]
}

/// Where each table begins in the binding, in the same order.
pub(crate) fn offsets(problem: &Problem) -> [usize; 9] {
    let mut words = 0;
    lengths(problem).map(|length| {
        words += length;
        words - length
    })
}

#[cube(launch_unchecked)]
fn attention_table(table: &[u32], tables: &mut [u32], first: usize, words: usize) {
    if ABSOLUTE_POS < words {
        tables[first + ABSOLUTE_POS] = table[ABSOLUTE_POS];
    }
}

/// The binding of all tables, a word where there is none; `grid` has a unit for each word of the longest.
pub(crate) fn gather(
    client: &Client,
    problem: &Problem,
    grid: Grid,
    buffers: &TableBuffers,
) -> Handle {
    let b = buffers.clone();
    let all = [
        b.dropout,
        b.query_documents,
        b.key_documents,
        b.blocks,
        b.mask,
        b.slopes,
        b.bias,
        b.relative,
        b.sinks,
    ];
    let lengths = lengths(problem);
    let tables = all.into_iter().zip(lengths).filter(|(_, words)| *words > 0);
    let tables = tables.filter_map(|(table, words)| {
        assert!(
            table.is_some(),
            "expected the tables of all rules of the plan"
        );
        table.map(|table| (table, words))
    });
    let tables: Vec<(Handle, usize)> = tables.collect();
    if let [(table, _)] = &tables[..] {
        return table.clone();
    }
    let gathered = empty_words(client, lengths.iter().sum());
    let mut first = 0;
    for (table, words) in tables {
        launched::note(|| "attention_table");
        // SAFETY: the tables are as long as they are described, all of them together as the gathered one; units past the last
        // return.
        unsafe {
            attention_table::launch_unchecked(
                client,
                grid.count(),
                grid.dim(),
                bind(table),
                bind(gathered.clone()),
                first,
                words,
            );
        }
        first += words;
    }
    gathered
}
