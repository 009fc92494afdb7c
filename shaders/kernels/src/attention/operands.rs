//! The buffers of an attention: q, k and v, whose rows may lie as strides say (heads side by side in a row of tokens, or the
//! parts of one projection), the tables of rules, and the operands and results of a backward pass.
//!
//! All tables share one binding, because WebGPU guarantees only seven buffers beside CubeCL's own, and q, k, v, o and lse take
//! five. A single table is bound as it is; several are copied one behind the other, floats as their bits.

use super::{ForwardBuffers, Plan};
use crate::named::{FromNames, Lookup, first};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::attention::{Dropout, Problem, Rule};

/// A buffer of rows \[B, H, S, D\]; each row is contiguous.
#[derive(Clone)]
pub struct Strided {
    /// The buffer; it begins with the first row.
    pub buffer: Handle,
    /// Strides of sequences, heads and rows in elements, multiples of D; `None` if the tensor is contiguous.
    pub strides: Option<[usize; 3]>,
}

impl From<Handle> for Strided {
    fn from(buffer: Handle) -> Self {
        let strides = None;
        Self { buffer, strides }
    }
}

impl FromNames for Strided {
    fn from_names(buffers: &impl Lookup, names: &[&str]) -> Self {
        Self {
            buffer: Handle::from_names(buffers, names),
            strides: names.iter().find_map(|name| buffers.strides(name)),
        }
    }
}

impl Strided {
    /// The strides of rows of shape \[B, H, S, D\].
    fn strides(&self, [_, heads, rows, dim]: [usize; 4]) -> [usize; 3] {
        self.strides
            .unwrap_or([heads * rows * dim, rows * dim, dim])
    }

    /// Binds the buffer up to its last row, of elements of `bytes` bytes, with strides in vectors of `lanes` elements. Without
    /// rows it binds `other`, because no binding may be empty.
    pub(super) fn bind(
        &self,
        shape: [usize; 4],
        lanes: usize,
        bytes: usize,
        other: &Handle,
    ) -> (BufferArg, StridesLaunch) {
        let strides = self.strides(shape);
        let [batch, head, row] = strides.map(|stride| stride / lanes);
        let launch = StridesLaunch::new(batch, head, row);
        if shape.contains(&0) {
            return (bind(other.clone()), launch);
        }
        let last: usize = shape.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
        let rows = first(self.buffer.clone(), (last + shape[3]) * bytes);
        (bind(rows), launch)
    }
}

/// Strides of sequences, heads and rows, in vectors.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Strides {
    batch: usize,
    head: usize,
    pub(super) row: usize,
}

/// The strides of the rows of q, k and v.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Layout {
    pub(super) q: Strides,
    pub(super) k: Strides,
    pub(super) v: Strides,
}

impl ForwardBuffers {
    /// Binds q, k and v as the plan's vectors, with the strides of their rows; an empty tensor is replaced by o.
    pub(super) fn operands(&self, plan: &Plan) -> [(BufferArg, StridesLaunch); 3] {
        let [queries, keys, values] = plan.shapes();
        let bytes = plan.problem.element().bytes();
        let of = |x: &Strided, shape| x.bind(shape, plan.lanes, bytes, &self.o);
        [of(&self.q, queries), of(&self.k, keys), of(&self.v, values)]
    }
}

/// The offset of a head's first row.
#[cube]
pub(super) fn head_at(strides: &Strides, batch: usize, head: usize) -> usize {
    batch * strides.batch + head * strides.head
}

buffers! {
    /// Tables of the problem's rules, if present; see [`Rule`].
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

/// The number of words of each table, in the order of [`TableBuffers`]; 0 for an absent table. The dropout's words come first, so
/// that kernels find them at a constant offset.
pub(crate) fn table_lengths(problem: &Problem) -> [usize; 9] {
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

/// The offset of each table in the shared binding, in the order of [`TableBuffers`].
pub(crate) fn table_offsets(problem: &Problem) -> [usize; 9] {
    let mut words = 0;
    table_lengths(problem).map(|length| {
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

/// Returns one buffer with all tables, or a word if there are none; `grid` has a unit for each word of the longest table.
pub(crate) fn gather_tables(
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
    let lengths = table_lengths(problem);
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

buffers! {
    /// Buffers of the backward pass; shapes as in [`moebius_ops::attention`].
    pub struct BackwardBuffers {
        pub q: Handle => "[B, Hq, Sq, D]" read,
        pub k: Handle => "[B, Hkv, Skv, D]" read,
        pub v: Handle => "[B, Hkv, Skv, Dv]" read,
        /// Tables of the rules, read.
        pub tables: TableBuffers,
        pub lse: Handle => "[B, Hq, Sq] f32" read: "what the forward pass wrote",
        /// The result through which the gradient comes, with its buffers.
        pub through: Through,
        pub dq: Handle => "[B, Hq, Sq, D]" written,
        pub dk: Handle => "[B, Hkv, Skv, D]" written,
        pub d_bias: Option<Handle> = "dbias" => "f32" written: "of the dense bias, where it is there",
        pub d_relative: Option<Handle> = "drelative" => "f32" written: "of the biases by distance, where it is there",
        pub d_sinks: Option<Handle> = "dsinks" => "f32" written: "of the sinks, where it is there",
    }
}

/// The result whose gradient is given.
#[derive(Clone)]
pub enum Through {
    /// The output o.
    Output {
        /// The output of the forward pass, read.
        o: Handle,
        /// Gradient of o, read.
        d_o: Handle,
        /// Gradient of v, written.
        dv: Handle,
    },
    /// The log-sum-exp; the gradient of v is 0.
    LogSumExp {
        /// Gradient of lse f32, read.
        d_lse: Handle,
    },
}

impl FromNames for Through {
    /// Chooses the log-sum-exp if its gradient `dlse` is there, else o.
    fn from_names(buffers: &impl Lookup, _: &[&str]) -> Self {
        let of = |name: &str| Handle::from_names(buffers, &[name]);
        match buffers.find("dlse") {
            Some(d_lse) => Self::LogSumExp { d_lse },
            None => Self::Output {
                o: of("o"),
                d_o: of("do"),
                dv: of("dv"),
            },
        }
    }
}

/// The arguments that all launches of a backward pass share.
pub(super) struct Backward<'a, R> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a Plan,
    pub(super) buffers: &'a BackwardBuffers,
    pub(super) tables: Handle,
    /// (lse, Δ) of each query row, f32 \[B, Hq, Sq, 2\].
    pub(super) statistics: Handle,
    pub(super) rule: &'a R,
}

impl<R> Backward<'_, R> {
    /// Binds a matrix of `rows` rows; one without rows is never read, and the statistics fill its binding.
    pub(super) fn bind(&self, buffer: &Handle, rows: usize) -> BufferArg {
        bind(match rows {
            0 => self.statistics.clone(),
            _ => buffer.clone(),
        })
    }

    pub(super) fn through_lse(&self) -> bool {
        matches!(self.buffers.through, Through::LogSumExp { .. })
    }

    /// Binds do, or q for a gradient through the log-sum-exp, where nothing reads it.
    pub(super) fn d_o(&self) -> BufferArg {
        let d_o = match &self.buffers.through {
            Through::Output { d_o, .. } => d_o,
            Through::LogSumExp { .. } => &self.buffers.q,
        };
        self.bind(d_o, self.plan.problem.query_rows())
    }

    pub(super) fn statistics(&self) -> BufferArg {
        bind(self.statistics.clone())
    }

    pub(super) fn tables(&self) -> BufferArg {
        bind(self.tables.clone())
    }

    /// Binds the inputs of every gradient of pairs, in this order: q, k, v, do, statistics and tables.
    pub(super) fn inputs(&self) -> [BufferArg; 6] {
        let (p, b) = (&self.plan.problem, self.buffers);
        [
            self.bind(&b.q, p.query_rows()),
            self.bind(&b.k, p.key_rows()),
            self.bind(&b.v, p.key_rows()),
            self.d_o(),
            self.statistics(),
            self.tables(),
        ]
    }
}
