//! Score rules: they change scores and decide which keys a query sees.

use super::{HostRule, Sizes, few_elements};
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The largest number of rules of an attention.
pub const MAX_RULES: usize = 8;

/// A score rule. Query i is at position p = i + Skv − Sq, so that queries and keys end together, or at p = i plus the first
/// query's position if [`Rules::with_position`] gives one. Key 0 is the first of these keys, wherever it lies in a longer
/// sequence.
///
/// | rule | changes s, or lets query i see key j where | reads |
/// |---|---|---|
/// | `Causal` | j ≤ p | |
/// | `CausalTopLeft` | j ≤ i | |
/// | `Window(w)` | 0 ≤ p − j < w | |
/// | `SymmetricWindow(w)` | \|p − j\| < w | |
/// | `Prefix(n)` | j < n or j ≤ p | |
/// | `Global { tokens, window }` | \|p − j\| < window, j < tokens or p < tokens | |
/// | `Dilated(d)` | p − j is a multiple of d | |
/// | `Documents` | i and j have the same document id | query_documents u32 \[B, Sq\], key_documents u32 \[B, Skv\] |
/// | `Blocks(n)` | blocks\[i / n, j / n\] isn't 0 | blocks u32 \[⌈Sq / n⌉, ⌈Skv / n⌉\] |
/// | `Mask(pattern)` | mask\[b, h, i, j\] isn't 0 | mask u32 \[B or 1, Hq or 1, Sq, Skv\] |
/// | `Alibi` | s + slope_h · (j − p) | slopes f32 \[Hq\] |
/// | `Softcap(c)` | c · tanh(s / c) | |
/// | `Bias(pattern)` | s + bias\[b, h, i, j\] | bias f32 \[B or 1, Hq or 1, Sq, Skv\] |
/// | `Relative(n)` | s + relative\[h, clamp(j − p, −n, n) + n\] | relative f32 \[Hq, 2n + 1\] |
///
/// Sources: ALiBi Press et al. 2021; softcap Gemma 2, 2024; relative bias Shaw et al. 2018 and T5, 2019; windows and patterns
/// Longformer 2020 and Sparse Transformers 2019.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rule {
    /// Hides keys after the query's position.
    Causal,
    /// Hides keys with a larger index than the query: query 0 is aligned with key 0.
    CausalTopLeft,
    /// The last w keys, counting the key at the query's own position.
    Window(u32),
    /// Keys less than w positions away, on either side.
    SymmetricWindow(u32),
    /// The first n keys for every query, and beyond them no key after the query's position.
    Prefix(u32),
    /// Keys nearby on both sides, plus global tokens: the first tokens see all keys, and all queries see them.
    Global {
        /// The number of global tokens.
        tokens: u32,
        /// The window w of [`Rule::SymmetricWindow`].
        window: u32,
    },
    /// Every d-th key, counted from the query's position.
    Dilated(u32),
    /// Keys of the query's document.
    Documents,
    /// Visibility by a table with an entry for each n × n block of pairs.
    Blocks(u32),
    /// A dense mask with an entry for each pair.
    Mask(Pattern),
    /// Biases linear in the distance (ALiBi).
    Alibi,
    /// A soft bound c on scores.
    Softcap(f32),
    /// A dense bias with an entry for each pair.
    Bias(Pattern),
    /// A bias by distance, clamped to n keys either way.
    Relative(u32),
}

/// The dimensions of a dense table; along an absent one, the table is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// Whether each sequence has its own table.
    pub batch: bool,
    /// Whether each query head has its own table.
    pub heads: bool,
}

impl Pattern {
    /// The table's shape \[B or 1, Hq or 1, Sq, Skv\].
    pub fn shape(self, sizes: &Sizes) -> [usize; 4] {
        let or_one = |has: bool, size| if has { size } else { 1 };
        [
            or_one(self.batch, sizes.batch),
            or_one(self.heads, sizes.heads),
            sizes.queries,
            sizes.keys,
        ]
    }

    /// The index of `site`'s element in the table.
    pub(super) fn index(self, sizes: &Sizes, site: Site) -> usize {
        let heads = if self.heads { sizes.heads } else { 1 };
        let b = if self.batch { site.batch } else { 0 };
        let h = if self.heads { site.head } else { 0 };
        ((b * heads + h) * sizes.queries + site.query) * sizes.keys + site.key
    }
}

/// The tables that rules read; the table of an absent rule is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// Document id of each query \[B, Sq\].
    pub query_documents: &'a [u32],
    /// Document id of each key \[B, Skv\].
    pub key_documents: &'a [u32],
    /// Visible blocks \[⌈Sq / n⌉, ⌈Skv / n⌉\], 0 for a hidden one.
    pub blocks: &'a [u32],
    /// Visible pairs \[B or 1, Hq or 1, Sq, Skv\], 0 for a hidden one.
    pub mask: &'a [u32],
    /// ALiBi slopes \[Hq\].
    pub slopes: &'a [f64],
    /// Dense bias \[B or 1, Hq or 1, Sq, Skv\].
    pub bias: &'a [f64],
    /// Relative bias by distance \[Hq, 2n + 1\].
    pub relative: &'a [f64],
    /// Sinks of the softmax \[Hq\]; no rule reads them.
    pub sinks: &'a [f64],
    /// The four words of a [`super::Dropout`].
    pub dropout: &'a [u32],
    /// A user-defined rule, applied after all others.
    pub rule: Option<&'a dyn HostRule>,
}

/// The indices of a query and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The sequence.
    pub batch: usize,
    /// The query head.
    pub head: usize,
    /// The query i.
    pub query: usize,
    /// The key j.
    pub key: usize,
}

/// How many pairs of a tile of queries × keys are visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tile {
    /// No pair.
    Empty,
    /// Possibly some pairs, possibly not all.
    Part,
    /// Every pair.
    Full,
}

/// The margin that position arithmetic keeps from both ends of an i32, because whole blocks reach past the last token.
const SPARE: u64 = 1 << 12;

/// Score rules in the order in which they change scores, at most one of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    list: [Option<Rule>; MAX_RULES],
    /// The first query's position; `None` when queries and keys end together.
    first: Option<i64>,
}

impl Rules {
    /// The given rules, in the given order.
    ///
    /// # Errors
    /// [`Mismatch`] for more than eight rules, two rules of one kind, a window, dilation or block of 0, or a cap that isn't
    /// positive and finite.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, Mismatch> {
        let mut all = [None; MAX_RULES];
        for (count, rule) in rules.into_iter().enumerate() {
            rule.check()?;
            let same =
                |other: &Rule| std::mem::discriminant(other) == std::mem::discriminant(&rule);
            let (twice, got) = (all.iter().flatten().any(same), rule.name());
            let got = format_args!("{got} twice");
            Fault::Config.unless(!twice, "score rules", "each kind once", got)?;
            let Some(free) = all.get_mut(count) else {
                let expected = format!("at most {MAX_RULES}");
                return Err(Fault::Config.error("score rules", expected, count + 1));
            };
            *free = Some(rule);
        }
        Ok(Self {
            list: all,
            first: None,
        })
    }

    /// A copy with the first query at position `first`, counted from the first key; `None` means Skv − Sq.
    pub fn with_position(self, first: Option<i64>) -> Self {
        Self { first, ..self }
    }

    /// The position of the first query, if given.
    pub fn position(&self) -> Option<i64> {
        self.first
    }

    /// The rules in order.
    pub fn iter(&self) -> impl Iterator<Item = Rule> {
        self.list.iter().flatten().copied()
    }

    /// The dimensions of the dense mask, if there is one.
    pub fn mask(&self) -> Option<Pattern> {
        self.iter().find_map(|rule| match rule {
            Rule::Mask(pattern) => Some(pattern),
            _ => None,
        })
    }

    /// The dimensions of the dense bias, if there is one.
    pub fn bias(&self) -> Option<Pattern> {
        self.iter().find_map(|rule| match rule {
            Rule::Bias(pattern) => Some(pattern),
            _ => None,
        })
    }

    /// The largest distance n with its own relative bias, if there is such a rule.
    pub fn relative(&self) -> Option<usize> {
        self.iter().find_map(|rule| match rule {
            Rule::Relative(reach) => Some(reach as usize),
            _ => None,
        })
    }

    /// The size n of a block of [`Rule::Blocks`], if there is such a rule.
    pub fn blocks(&self) -> Option<usize> {
        self.iter().find_map(|rule| match rule {
            Rule::Blocks(size) => Some(size as usize),
            _ => None,
        })
    }

    /// Whether `rule` is in the list.
    pub fn has(&self, rule: Rule) -> bool {
        self.iter().any(|other| other == rule)
    }

    pub(super) fn check(&self, sizes: &Sizes) -> Result<(), Mismatch> {
        self.check_position(sizes)?;
        for rule in self.iter() {
            match rule {
                Rule::Mask(pattern) => few_elements("mask", &pattern.shape(sizes))?,
                Rule::Bias(pattern) => few_elements("bias", &pattern.shape(sizes))?,
                Rule::Relative(n) => {
                    few_elements("relative bias", &[sizes.heads, 2 * n as usize + 1])?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that distances and ends of windows fit 32 bits.
    fn check_position(&self, sizes: &Sizes) -> Result<(), Mismatch> {
        let Some(first) = self.first else {
            return Ok(());
        };
        let widths = self.iter().map(|rule| match rule {
            Rule::Window(n)
            | Rule::SymmetricWindow(n)
            | Rule::Prefix(n)
            | Rule::Dilated(n)
            | Rule::Relative(n) => n,
            Rule::Global { tokens, window } => tokens.max(window),
            _ => 0,
        });
        let widest = u64::from(widths.max().unwrap_or(0));
        let most = i32::MAX as u64 - SPARE - widest - (sizes.queries + sizes.keys) as u64;
        let expected = format_args!("-{most} to {most} with these sizes and rules");
        Fault::Config.unless(first.unsigned_abs() <= most, "position", expected, first)
    }

    /// The position of query `query`.
    pub(super) fn place(&self, sizes: &Sizes, query: usize) -> i64 {
        let together = || sizes.keys as i64 - sizes.queries as i64;
        query as i64 + self.first.unwrap_or_else(together)
    }

    /// Whether every rule lets the query of `site` see its key.
    pub fn seen(&self, sizes: &Sizes, tables: &Tables<'_>, site: Site) -> bool {
        let position = self.place(sizes, site.query);
        let back = position - site.key as i64;
        self.iter().all(|rule| match rule {
            Rule::Causal => back >= 0,
            Rule::CausalTopLeft => site.key <= site.query,
            Rule::Window(w) => (0..i64::from(w)).contains(&back),
            Rule::SymmetricWindow(w) => back.abs() < i64::from(w),
            Rule::Prefix(n) => site.key < n as usize || back >= 0,
            Rule::Global { tokens, window } => {
                let first = (site.key as i64).min(position);
                back.abs() < i64::from(window) || first < i64::from(tokens)
            }
            Rule::Dilated(d) => back.rem_euclid(i64::from(d)) == 0,
            Rule::Documents => {
                tables.query_documents[site.batch * sizes.queries + site.query]
                    == tables.key_documents[site.batch * sizes.keys + site.key]
            }
            Rule::Blocks(n) => {
                let n = n as usize;
                tables.blocks[site.query / n * sizes.keys.div_ceil(n) + site.key / n] != 0
            }
            Rule::Mask(pattern) => tables.mask[pattern.index(sizes, site)] != 0,
            Rule::Alibi | Rule::Softcap(_) | Rule::Bias(_) | Rule::Relative(_) => true,
        })
    }

    /// The score of a visible pair after all rules, and for each rule its slope.
    fn trace(&self, sizes: &Sizes, tables: &Tables<'_>, site: Site, s: f64) -> (f64, Vec<f64>) {
        let ahead = site.key as i64 - self.place(sizes, site.query);
        let mut slopes = Vec::new();
        let score = self.iter().fold(s, |s, rule| {
            let (next, slope) = match rule {
                Rule::Alibi => (s + tables.slopes[site.head] * ahead as f64, 1.0),
                Rule::Softcap(cap) => {
                    let cap = f64::from(cap);
                    let t = (s / cap).tanh();
                    (cap * t, 1.0 - t * t)
                }
                Rule::Bias(pattern) => (s + tables.bias[pattern.index(sizes, site)], 1.0),
                Rule::Relative(n) => {
                    let at = relative_index(n, ahead);
                    let row = site.head * (2 * n as usize + 1);
                    (s + tables.relative[row + at], 1.0)
                }
                _ => (s, 1.0),
            };
            slopes.push(slope);
            next
        });
        (score, slopes)
    }

    /// The score after all rules, given the raw score `s`.
    pub fn score(&self, sizes: &Sizes, tables: &Tables<'_>, site: Site, s: f64) -> f64 {
        self.trace(sizes, tables, site, s).0
    }

    /// The slope at the raw score `s` of the rules from index `from` on; 0 means all rules.
    pub fn slope(
        &self,
        sizes: &Sizes,
        tables: &Tables<'_>,
        (site, s): (Site, f64),
        from: usize,
    ) -> f64 {
        self.trace(sizes, tables, site, s).1[from..]
            .iter()
            .product()
    }

    /// See [`super::Problem::keys_of`].
    pub(super) fn keys_of(&self, sizes: &Sizes, queries: Range<usize>) -> Range<usize> {
        let (mut first, mut end) = (0, sizes.keys as i64);
        if queries.is_empty() {
            return 0..0;
        }
        let low = self.place(sizes, queries.start);
        let high = self.place(sizes, queries.end - 1);
        for rule in self.iter() {
            match rule {
                Rule::Causal => end = end.min(high + 1),
                Rule::CausalTopLeft => end = end.min(queries.end as i64),
                Rule::Window(w) => {
                    first = first.max(low - i64::from(w) + 1);
                    end = end.min(high + 1);
                }
                Rule::SymmetricWindow(w) => {
                    first = first.max(low - i64::from(w) + 1);
                    end = end.min(high + i64::from(w));
                }
                Rule::Prefix(n) => end = end.min((high + 1).max(i64::from(n))),
                _ => {}
            }
        }
        range(first, end)
    }

    /// See [`super::Problem::queries_of`].
    pub(super) fn queries_of(&self, sizes: &Sizes, keys: Range<usize>) -> Range<usize> {
        let (mut first, mut end) = (0, sizes.queries as i64);
        if keys.is_empty() {
            return 0..0;
        }
        let shift = self.place(sizes, 0);
        let (low, high) = (keys.start as i64 - shift, keys.end as i64 - 1 - shift);
        for rule in self.iter() {
            match rule {
                Rule::Causal => first = first.max(low),
                Rule::CausalTopLeft => first = first.max(keys.start as i64),
                Rule::Window(w) => {
                    first = first.max(low);
                    end = end.min(high + i64::from(w));
                }
                Rule::SymmetricWindow(w) => {
                    first = first.max(low - i64::from(w) + 1);
                    end = end.min(high + i64::from(w));
                }
                Rule::Prefix(n) if keys.start >= n as usize => first = first.max(low),
                _ => {}
            }
        }
        range(first, end)
    }

    /// How many pairs of `queries` × `keys` (neither empty) the rules let see, ignoring tables. Tables can only hide more pairs,
    /// so `Full` is returned only when no rule that hides keys reads a table.
    pub fn tile(&self, sizes: &Sizes, queries: Range<usize>, keys: Range<usize>) -> Tile {
        let low = self.place(sizes, queries.start);
        let high = self.place(sizes, queries.end - 1);
        let (first, last) = (keys.start as i64, keys.end as i64 - 1);
        // The smallest and the largest distance of a key of the tile behind its query.
        let (near, far) = (low - last, high - first);
        let of = |some: bool, all: bool| match (some, all) {
            (false, _) => Tile::Empty,
            (true, false) => Tile::Part,
            (true, true) => Tile::Full,
        };
        let each = self.iter().map(|rule| match rule {
            Rule::Causal => of(far >= 0, near >= 0),
            Rule::CausalTopLeft => {
                let (near, far) = (queries.start as i64 - last, queries.end as i64 - 1 - first);
                of(far >= 0, near >= 0)
            }
            Rule::Window(w) => {
                let w = i64::from(w);
                of(far >= 0 && near < w, near >= 0 && far < w)
            }
            Rule::SymmetricWindow(w) => {
                let w = i64::from(w);
                of(far > -w && near < w, near > -w && far < w)
            }
            Rule::Prefix(n) => {
                let n = i64::from(n);
                of(first < n || far >= 0, last < n || near >= 0)
            }
            Rule::Global { tokens, window } => {
                let (n, w) = (i64::from(tokens), i64::from(window));
                let near_some = far > -w && near < w;
                let near_all = near > -w && far < w;
                of(
                    near_some || first < n || low < n,
                    near_all || last < n || high < n,
                )
            }
            Rule::Dilated(d) => {
                let d = i64::from(d);
                of(far.div_euclid(d) * d >= near, d == 1)
            }
            Rule::Documents | Rule::Blocks(_) | Rule::Mask(_) => Tile::Part,
            Rule::Alibi | Rule::Softcap(_) | Rule::Bias(_) | Rule::Relative(_) => Tile::Full,
        });
        each.min().unwrap_or(Tile::Full)
    }

    /// Whether the tables of documents and blocks may let one of `queries` of sequence `batch` see one of `keys`; neither range
    /// is empty. Documents are compared by their ranges of ids, so unsorted ids hide fewer tiles.
    pub fn tables_show(
        &self,
        sizes: &Sizes,
        tables: &Tables<'_>,
        batch: usize,
        (queries, keys): (Range<usize>, Range<usize>),
    ) -> bool {
        if self.has(Rule::Documents) {
            let of = |table: &[u32], all: usize, some: &Range<usize>| {
                let numbers = &table[batch * all..][some.clone()];
                let (least, most) = (numbers.iter().min(), numbers.iter().max());
                (least.copied(), most.copied())
            };
            let (least, most) = of(tables.query_documents, sizes.queries, &queries);
            let (first, last) = of(tables.key_documents, sizes.keys, &keys);
            if last < least || most < first {
                return false;
            }
        }
        let Some(n) = self.blocks() else {
            return true;
        };
        let across = sizes.keys.div_ceil(n);
        let mut rows = queries.start / n..=(queries.end - 1) / n;
        rows.any(|row| {
            let row = &tables.blocks[row * across..][keys.start / n..=(keys.end - 1) / n];
            row.iter().any(|word| *word != 0)
        })
    }
}

impl Rule {
    /// The rule's name in errors and in kernel names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Causal => "causal",
            Self::CausalTopLeft => "causal_top_left",
            Self::Window(_) => "window",
            Self::SymmetricWindow(_) => "symmetric_window",
            Self::Prefix(_) => "prefix",
            Self::Global { .. } => "global",
            Self::Dilated(_) => "dilated",
            Self::Documents => "documents",
            Self::Blocks(_) => "blocks",
            Self::Mask(_) => "mask",
            Self::Alibi => "alibi",
            Self::Softcap(_) => "softcap",
            Self::Bias(_) => "bias",
            Self::Relative(_) => "relative",
        }
    }

    fn check(self) -> Result<(), Mismatch> {
        match self {
            Self::Window(n)
            | Self::SymmetricWindow(n)
            | Self::Global { window: n, .. }
            | Self::Dilated(n)
            | Self::Blocks(n)
                if n == 0 || n >= 1 << 30 =>
            {
                Err(Fault::Config.error(self.name(), "1 to 2^30 - 1", n))
            }
            Self::Prefix(n) | Self::Relative(n) | Self::Global { tokens: n, .. }
                if n >= 1 << 30 =>
            {
                Err(Fault::Config.error(self.name(), "fewer than 2^30", n))
            }
            Self::Softcap(cap) if !(cap.is_finite() && cap > 0.0) => {
                Err(Fault::Config.error("softcap", "a positive, finite number", cap))
            }
            _ => Ok(()),
        }
    }
}

/// The ALiBi slopes \[heads\]: 2^(−8(h + 1)/n) when the number of heads n is a power of two. Otherwise the slopes of the next
/// lower power of two, then every second slope of the next higher one (Press et al. 2021).
pub fn alibi_slopes(heads: usize) -> Vec<f32> {
    let of_power = |n: usize, h: usize| (-8.0 * (h + 1) as f64 / n as f64).exp2() as f32;
    let below = match heads.checked_ilog2() {
        Some(log) => 1 << log,
        None => return Vec::new(),
    };
    let first = (0..below).map(|h| of_power(below, h));
    let rest = (0..heads - below).map(|h| of_power(2 * below, 2 * h));
    first.chain(rest).collect()
}

/// The index, within its head's row, of the relative bias of a key `ahead` positions after its query.
pub(super) fn relative_index(reach: u32, ahead: i64) -> usize {
    let reach = i64::from(reach);
    (ahead.clamp(-reach, reach) + reach) as usize
}

/// The range from `first` to `end`, cut at 0; empty when `first` isn't below `end`.
fn range(first: i64, end: i64) -> Range<usize> {
    let (first, end) = (first.max(0), end.max(0));
    if first < end {
        first as usize..end as usize
    } else {
        0..0
    }
}
