//! Score rules on a device; [`moebius_ops::attention::Rule`] defines them.
//!
//! The list of rules is known at compile time. Their numbers are scalars, so that another window or cap needs no new kernel. A
//! register of scores belongs to one query and to consecutive keys.

use super::operands::table_offsets;
use cubecl::prelude::*;
use moebius_ops::attention::{MAX_RULES, Pattern, Problem, Rule};

/// The kind of a rule, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    None,
    Causal,
    CausalTopLeft,
    Window,
    SymmetricWindow,
    Prefix,
    Global,
    Dilated,
    Documents,
    Blocks,
    Mask,
    Alibi,
    Softcap,
    Bias,
    Relative,
}

/// The kinds of a kernel's rules, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kinds([Kind; MAX_RULES]);

impl Default for Kinds {
    /// An empty list of rules.
    fn default() -> Self {
        Self([Kind::None; MAX_RULES])
    }
}

impl Kinds {
    pub(crate) fn of(problem: &Problem) -> Self {
        let mut kinds = Self::default();
        for (kind, rule) in kinds.0.iter_mut().zip(problem.rules().iter()) {
            *kind = match rule {
                Rule::Causal => Kind::Causal,
                Rule::CausalTopLeft => Kind::CausalTopLeft,
                Rule::Window(_) => Kind::Window,
                Rule::SymmetricWindow(_) => Kind::SymmetricWindow,
                Rule::Prefix(_) => Kind::Prefix,
                Rule::Global { .. } => Kind::Global,
                Rule::Dilated(_) => Kind::Dilated,
                Rule::Documents => Kind::Documents,
                Rule::Blocks(_) => Kind::Blocks,
                Rule::Mask(_) => Kind::Mask,
                Rule::Alibi => Kind::Alibi,
                Rule::Softcap(_) => Kind::Softcap,
                Rule::Bias(_) => Kind::Bias,
                Rule::Relative(_) => Kind::Relative,
            };
        }
        kinds
    }

    pub(crate) fn at(self, place: usize) -> Kind {
        self.0[place]
    }

    /// The index of `kind` in the list.
    pub(crate) fn place(self, kind: Kind) -> usize {
        self.0
            .iter()
            .position(|other| *other == kind)
            .unwrap_or(MAX_RULES)
    }

    /// Whether any rule changes scores.
    pub(crate) fn change_scores(self) -> bool {
        self.any(&[Kind::Alibi, Kind::Softcap, Kind::Bias, Kind::Relative])
    }

    /// Whether any rule reads a table element for each pair.
    pub(crate) fn read_tables(self) -> bool {
        let hiding = [Kind::Documents, Kind::Blocks, Kind::Mask];
        self.any(&hiding) || self.any(&[Kind::Bias, Kind::Relative])
    }

    /// Whether tables can hide whole tiles.
    pub(crate) fn skip_by_tables(self) -> bool {
        self.any(&[Kind::Documents, Kind::Blocks])
    }

    /// Whether the list contains any of `kinds`.
    pub(crate) fn any(self, kinds: &[Kind]) -> bool {
        self.0.iter().any(|kind| kinds.contains(kind))
    }
}

/// Sizes of an attention, and the numbers of its rules.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Scalars {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    /// Query heads per key head.
    pub(crate) group: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) scale: f32,
    /// The position of query 0: query index plus `shift` is the query's position.
    pub(crate) shift: i32,
    window: i32,
    symmetric: i32,
    prefix: i32,
    global: i32,
    global_window: i32,
    dilation: i32,
    pub(crate) reach: i32,
    pub(crate) block: usize,
    cap: f32,
    /// Offsets of the tables.
    pub(crate) query_documents: usize,
    pub(crate) key_documents: usize,
    pub(crate) blocks: usize,
    mask: usize,
    slopes: usize,
    bias: usize,
    relative: usize,
    pub(crate) sinks: usize,
    /// Strides of sequences and heads in dense tables.
    mask_batch: usize,
    mask_head: usize,
    bias_batch: usize,
    bias_head: usize,
}

/// The scalars of a problem.
pub(crate) fn scalars(problem: &Problem) -> ScalarsLaunch {
    let s = problem.sizes();
    let [
        _,
        query_documents,
        key_documents,
        blocks,
        mask_at,
        slopes,
        bias_at,
        relative,
        sinks,
    ] = table_offsets(problem);
    let mut numbers = Numbers::default();
    for rule in problem.rules().iter() {
        numbers.add(rule);
    }
    let [mask, bias] = [problem.rules().mask(), problem.rules().bias()].map(|table| {
        let pattern = table.unwrap_or(Pattern {
            batch: false,
            heads: false,
        });
        let [_, heads, rows, columns] = pattern.shape(s);
        let stride = |has: bool, size: usize| if has { size } else { 0 };
        [
            stride(pattern.batch, heads * rows * columns),
            stride(pattern.heads, rows * columns),
        ]
    });
    ScalarsLaunch::new(
        s.heads,
        s.kv_heads,
        problem.group(),
        s.queries,
        s.keys,
        problem.scale(),
        problem.position(0) as i32,
        numbers.window,
        numbers.symmetric,
        numbers.prefix,
        numbers.global,
        numbers.global_window,
        numbers.dilation,
        numbers.reach,
        numbers.block,
        numbers.cap,
        query_documents,
        key_documents,
        blocks,
        mask_at,
        slopes,
        bias_at,
        relative,
        sinks,
        mask[0],
        mask[1],
        bias[0],
        bias[1],
    )
}

/// The numbers of the rules of a problem.
#[derive(Default)]
struct Numbers {
    window: i32,
    symmetric: i32,
    prefix: i32,
    global: i32,
    global_window: i32,
    dilation: i32,
    reach: i32,
    block: usize,
    cap: f32,
}

impl Numbers {
    fn add(&mut self, rule: Rule) {
        match rule {
            Rule::Window(n) => self.window = n as i32,
            Rule::SymmetricWindow(n) => self.symmetric = n as i32,
            Rule::Prefix(n) => self.prefix = n as i32,
            Rule::Global { tokens, window } => {
                (self.global, self.global_window) = (tokens as i32, window as i32);
            }
            Rule::Dilated(n) => self.dilation = n as i32,
            Rule::Blocks(n) => self.block = n as usize,
            Rule::Softcap(cap) => self.cap = cap,
            Rule::Relative(n) => self.reach = n as i32,
            Rule::Causal
            | Rule::CausalTopLeft
            | Rule::Documents
            | Rule::Mask(_)
            | Rule::Alibi
            | Rule::Bias(_) => {}
        }
    }
}

/// A query and the consecutive keys of a register: lane l holds `key` + l.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Site<N: Size> {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) query: usize,
    pub(crate) key: usize,
    /// The lane numbers 0, 1, 2, ….
    pub(crate) lanes: Vector<i32, N>,
}

/// A query with keys from 0 on.
#[cube]
pub(crate) fn site<N: Size>(batch: usize, head: usize, query: usize) -> Site<N> {
    Site::<N> {
        batch,
        head,
        query,
        key: 0usize.runtime(),
        lanes: lane_numbers::<N>(),
    }
}

/// The lane numbers 0, 1, 2, ….
#[cube]
fn lane_numbers<N: Size>() -> Vector<i32, N> {
    let mut lanes = Vector::<i32, N>::new(0i32);
    #[unroll]
    for lane in 0..N::value() {
        lanes.insert(lane, comptime!(lane as i32).runtime());
    }
    lanes
}

/// The distance of each key ahead of the query's position.
#[cube]
fn ahead<N: Size>(site: &Site<N>, scalars: &Scalars) -> Vector<i32, N> {
    let position = site.query as i32 + scalars.shift;
    Vector::new(site.key as i32 - position) + site.lanes
}

/// The words at the site's keys in the table row that starts at `row`; a key past the last reads the last key's word.
#[cube]
fn words_of<N: Size>(tables: &[u32], row: usize, site: &Site<N>, keys: usize) -> Vector<u32, N> {
    let mut words = Vector::<u32, N>::new(0u32);
    #[unroll]
    for lane in 0..N::value() {
        words.insert(lane, tables[row + min(site.key + lane, keys - 1)]);
    }
    words
}

/// Whether every rule lets the query see each key; a key past the last may count as seen.
#[cube]
pub(crate) fn seen<N: Size>(
    site: &Site<N>,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> Vector<bool, N> {
    let mut seen = seen_by_place::<N>(site, scalars, kinds);
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Documents => {
                let own =
                    tables[scalars.query_documents + site.batch * scalars.queries + site.query];
                let row = scalars.key_documents + site.batch * scalars.keys;
                let others = words_of::<N>(tables, row, site, scalars.keys);
                seen = seen.vec_and(others.equal(&Vector::new(own)));
            }
            Kind::Blocks => {
                let allowed = block_words::<N>(tables, site, scalars);
                seen = seen.vec_and(allowed.not_equal(&Vector::new(0u32)));
            }
            Kind::Mask => {
                let row = scalars.mask
                    + site.batch * scalars.mask_batch
                    + site.head * scalars.mask_head
                    + site.query * scalars.keys;
                let allowed = words_of::<N>(tables, row, site, scalars.keys);
                seen = seen.vec_and(allowed.not_equal(&Vector::new(0u32)));
            }
            _ => {}
        }
    }
    seen
}

/// Whether the rules without tables let the query see each key.
#[cube]
fn seen_by_place<N: Size>(
    site: &Site<N>,
    scalars: &Scalars,
    #[comptime] kinds: Kinds,
) -> Vector<bool, N> {
    let ahead = ahead::<N>(site, scalars);
    let zero = Vector::<i32, N>::new(0i32);
    let mut seen = Vector::<i32, N>::new(0i32).equal(&zero);
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Causal => seen = seen.vec_and(ahead.less_equal(&zero)),
            Kind::CausalTopLeft => {
                let later = Vector::new(site.key as i32 - site.query as i32) + site.lanes;
                seen = seen.vec_and(later.less_equal(&zero));
            }
            Kind::Window => {
                let far = ahead.greater_than(&Vector::new(-scalars.window));
                seen = seen.vec_and(ahead.less_equal(&zero)).vec_and(far);
            }
            Kind::SymmetricWindow => {
                let far = ahead.greater_than(&Vector::new(-scalars.symmetric));
                let near = ahead.less_than(&Vector::new(scalars.symmetric));
                seen = seen.vec_and(near).vec_and(far);
            }
            Kind::Prefix => {
                let key = Vector::new(site.key as i32) + site.lanes;
                let first = key.less_than(&Vector::new(scalars.prefix));
                seen = seen.vec_and(first.or(ahead.less_equal(&zero)));
            }
            Kind::Global => {
                let far = ahead.greater_than(&Vector::new(-scalars.global_window));
                let near = ahead.less_than(&Vector::new(scalars.global_window));
                let key = Vector::new(site.key as i32) + site.lanes;
                let position = Vector::new(site.query as i32 + scalars.shift);
                let global = Vector::new(scalars.global);
                let first = key.less_than(&global).or(position.less_than(&global));
                seen = seen.vec_and(near.vec_and(far).or(first));
            }
            Kind::Dilated => {
                let rest = ahead % Vector::new(scalars.dilation);
                seen = seen.vec_and(rest.equal(&zero));
            }
            _ => {}
        }
    }
    seen
}

/// The words of [`Kind::Blocks`]'s table for the keys' blocks.
#[cube]
fn block_words<N: Size>(tables: &[u32], site: &Site<N>, scalars: &Scalars) -> Vector<u32, N> {
    let across = scalars.keys.div_ceil(scalars.block);
    let row = scalars.blocks + site.query / scalars.block * across;
    let mut words = Vector::<u32, N>::new(0u32);
    #[unroll]
    for lane in 0..N::value() {
        let key = min(site.key + lane, scalars.keys - 1);
        words.insert(lane, tables[row + key / scalars.block]);
    }
    words
}

/// The scores after all rules, and the slope of the rules from index `from` on.
#[cube]
pub(crate) fn trace<N: Size>(
    raw: Vector<f32, N>,
    site: &Site<N>,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
    #[comptime] from: usize,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let mut s = raw;
    let mut slope = Vector::<f32, N>::new(1.0f32);
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Alibi => {
                let factor = f32::reinterpret(tables[scalars.slopes + site.head]);
                let ahead = Vector::<f32, N>::cast_from(ahead::<N>(site, scalars));
                s = fma(Vector::new(factor), ahead, s);
            }
            Kind::Softcap => {
                let t = tanh_of::<N>(s / Vector::new(scalars.cap));
                if comptime!(place >= from) {
                    slope *= Vector::new(1.0f32) - t * t;
                }
                s = t * Vector::new(scalars.cap);
            }
            Kind::Bias => {
                let row = scalars.bias
                    + site.batch * scalars.bias_batch
                    + site.head * scalars.bias_head
                    + site.query * scalars.keys;
                let words = words_of::<N>(tables, row, site, scalars.keys);
                s += Vector::<f32, N>::reinterpret(words);
            }
            Kind::Relative => {
                let row = scalars.relative + site.head * (2 * scalars.reach as usize + 1);
                let ahead = ahead::<N>(site, scalars);
                let reach = Vector::new(scalars.reach);
                let at = ahead.max(-reach).min(reach) + reach;
                let mut words = Vector::<u32, N>::new(0u32);
                #[unroll]
                for lane in 0..N::value() {
                    words.insert(lane, tables[row + at.extract(lane) as usize]);
                }
                s += Vector::<f32, N>::reinterpret(words);
            }
            Kind::None
            | Kind::Causal
            | Kind::CausalTopLeft
            | Kind::Window
            | Kind::SymmetricWindow
            | Kind::Prefix
            | Kind::Global
            | Kind::Dilated
            | Kind::Documents
            | Kind::Blocks
            | Kind::Mask => {}
        }
    }
    (s, slope)
}

/// tanh by the exponential of a number that isn't positive, because drivers' own tanh overflows for large numbers.
#[cube]
fn tanh_of<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let e = (x.abs() * Vector::new(-2.0f32)).exp();
    let one = Vector::<f32, N>::new(1.0f32);
    let t = (one - e) / (one + e);
    select_many(x.less_than(&Vector::new(0.0f32)), -t, t)
}

/// The keys that the queries from `first` to `last` may see: the first key, and one past the last.
#[cube]
pub(crate) fn keys_of(
    first: usize,
    last: usize,
    scalars: &Scalars,
    #[comptime] kinds: Kinds,
) -> (usize, usize) {
    let low = first as i32 + scalars.shift;
    let high = last as i32 + scalars.shift;
    let mut begin = 0i32;
    let mut end = scalars.keys as i32;
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Causal => end = min(end, high + 1),
            Kind::CausalTopLeft => end = min(end, last as i32 + 1),
            Kind::Window => {
                begin = max(begin, low - scalars.window + 1);
                end = min(end, high + 1);
            }
            Kind::SymmetricWindow => {
                begin = max(begin, low - scalars.symmetric + 1);
                end = min(end, high + scalars.symmetric);
            }
            Kind::Prefix => end = min(end, max(high + 1, scalars.prefix)),
            _ => {}
        }
    }
    let end = max(end, 0);
    (min(begin, end) as usize, end as usize)
}

/// The queries that may see the keys from `first` to `last`: the first query, and one past the last.
#[cube]
pub(crate) fn queries_of(
    first: usize,
    last: usize,
    scalars: &Scalars,
    #[comptime] kinds: Kinds,
) -> (usize, usize) {
    let low = first as i32 - scalars.shift;
    let high = last as i32 - scalars.shift;
    let mut begin = 0i32;
    let mut end = scalars.queries as i32;
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Causal => begin = max(begin, low),
            Kind::CausalTopLeft => begin = max(begin, first as i32),
            Kind::Window => {
                begin = max(begin, low);
                end = min(end, high + scalars.window);
            }
            Kind::SymmetricWindow => {
                begin = max(begin, low - scalars.symmetric + 1);
                end = min(end, high + scalars.symmetric);
            }
            Kind::Prefix => {
                let beyond = first as i32 >= scalars.prefix;
                begin = select(beyond, max(begin, low), begin);
            }
            _ => {}
        }
    }
    let end = max(end, 0);
    (min(begin, end) as usize, end as usize)
}

/// How many pairs of the queries and keys, each range given by its first and last, the rules without tables show: 0 none, 1
/// possibly some, 2 all.
#[cube]
pub(crate) fn tile_of(
    first_query: usize,
    last_query: usize,
    first_key: usize,
    last_key: usize,
    scalars: &Scalars,
    #[comptime] kinds: Kinds,
) -> u32 {
    let (first, last) = (first_key as i32, last_key as i32);
    let low = first_query as i32 + scalars.shift;
    let high = last_query as i32 + scalars.shift;
    // The smallest and the largest distance of a key behind its query.
    let (near, far) = (low - last, high - first);
    let mut some = true.runtime();
    let mut all = true.runtime();
    #[unroll]
    for place in 0..comptime!(MAX_RULES) {
        match comptime!(kinds.at(place)) {
            Kind::Causal => {
                some = some && far >= 0;
                all = all && near >= 0;
            }
            Kind::CausalTopLeft => {
                some = some && last_query as i32 >= first;
                all = all && first_query as i32 >= last;
            }
            Kind::Window => {
                some = some && far >= 0 && near < scalars.window;
                all = all && near >= 0 && far < scalars.window;
            }
            Kind::SymmetricWindow => {
                some = some && far > -scalars.symmetric && near < scalars.symmetric;
                all = all && near > -scalars.symmetric && far < scalars.symmetric;
            }
            Kind::Prefix => {
                some = some && (first < scalars.prefix || far >= 0);
                all = all && (last < scalars.prefix || near >= 0);
            }
            Kind::Global => {
                let window = scalars.global_window;
                let beside = far > -window && near < window;
                let within = near > -window && far < window;
                some = some && (beside || first < scalars.global || low < scalars.global);
                all = all && (within || last < scalars.global || high < scalars.global);
            }
            Kind::Dilated | Kind::Documents | Kind::Blocks | Kind::Mask => all = false.runtime(),
            Kind::None | Kind::Alibi | Kind::Softcap | Kind::Bias | Kind::Relative => {}
        }
    }
    let mut met = 0u32;
    if some {
        met = 1u32;
        if all {
            met = 2u32;
        }
    }
    met
}
