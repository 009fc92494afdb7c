//! The builder [`Attend`], which describes an attention, and its forward pass.

use super::parts::{Attended, merge};
use super::tables::{Given, Part, Tables};
use crate::Error;
use crate::check::{check_device, check_same, element, moved};
use crate::ops::attention::Axis;
use crate::ops::{self, DeviceValue};
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use moebius_ops::attention::{Chunks, Problem, Rule, Rules, Sizes};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::AnyRule;
use moebius_shaders::attention::LaunchRule;
use std::ops::Range;
use std::sync::Arc;

/// Attention of queries to keys: o_i = Σ_j p_ij · v_j, where p_ij = exp(s_ij − lse_i) for each key j that every rule lets query i see, s_ij
/// = rules(scale · ⟨q_i, k_j⟩), and lse_i = ln Σ_j exp(s_ij).
///
/// Rules that change scores apply in the order in which they are given; each kind may be given once, and at most eight rules in all. Query
/// i is at position p = i + Skv − Sq, so that the last query is beside the last key, as when the last tokens of a sequence are computed;
/// [`position`](Self::position) puts the queries anywhere else.
///
/// | rule | changes a score s, or lets query i see key j where | source |
/// |---|---|---|
/// | [`causal`](Self::causal) | j ≤ p | |
/// | [`causal_top_left`](Self::causal_top_left) | j ≤ i, as PyTorch's `is_causal` | |
/// | [`window`](Self::window) | 0 ≤ p − j < w | Longformer 2020 |
/// | [`symmetric_window`](Self::symmetric_window) | \|p − j\| < w | Longformer 2020 |
/// | [`prefix`](Self::prefix) | j < n or j ≤ p | T5 2019 |
/// | [`global`](Self::global) | \|p − j\| < w, j < tokens or p < tokens | Longformer 2020 |
/// | [`dilated`](Self::dilated) | p − j is a multiple of d | Sparse Transformers 2019 |
/// | [`documents`](Self::documents) | both are of the same document | |
/// | [`blocks`](Self::blocks) | the pattern is true at \[i / n, j / n\] | Sparse Transformers 2019 |
/// | [`mask`](Self::mask) | the mask isn't true | |
/// | [`alibi`](Self::alibi), [`alibi_slopes`](Self::alibi_slopes) | s + slope_h · (j − p) | Press et al. 2021 |
/// | [`softcap`](Self::softcap) | c · tanh(s / c) | Gemma 2, 2024 |
/// | [`bias`](Self::bias) | s + bias | |
/// | [`relative`](Self::relative) | s + table\[h, clamp(j − p, −n, n) + n\] | Shaw et al. 2018, T5 2019 |
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::Attend;
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let x = Tensor::<4>::random([1, 4, 32, 16], Distribution::Default, &device);
/// // Scores are capped after the slopes are added, in this order.
/// let attend = Attend::new().alibi().softcap(30.0).causal();
/// let out = attend.forward(x.clone(), x.clone(), x)?;
/// assert_eq!(out.lse.dims(), [1, 4, 32]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attend {
    rules: Vec<Given>,
    sinks: Option<Tensor<1>>,
    scale: Option<f32>,
    /// The probability of a dropped weight, and the seed; without a seed the device's generator draws one.
    dropout: Option<(f64, Option<u64>)>,
    position: Option<i64>,
    rule: Option<Arc<dyn AnyRule>>,
}

/// `n` as the u32 of a rule; a larger number becomes `u32::MAX`, which rules refuse.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Attend {
    /// An attention without rules: every query sees every key.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, rule: Given) -> Self {
        self.rules.push(rule);
        self
    }

    fn with_plain(self, rule: Rule) -> Self {
        self.with(Given::Plain(rule))
    }

    /// Hides the keys after a query's position; the last query is beside the last key.
    #[must_use]
    pub fn causal(self) -> Self {
        self.with_plain(Rule::Causal)
    }

    /// Hides the keys after a query's position; the first query is beside the first key.
    #[must_use]
    pub fn causal_top_left(self) -> Self {
        self.with_plain(Rule::CausalTopLeft)
    }

    /// Lets a query see the last `keys` keys up to and including its own position.
    #[must_use]
    pub fn window(self, keys: usize) -> Self {
        self.with_plain(Rule::Window(count(keys)))
    }

    /// Lets a query see the keys fewer than `keys` positions away, on both sides.
    #[must_use]
    pub fn symmetric_window(self, keys: usize) -> Self {
        self.with_plain(Rule::SymmetricWindow(count(keys)))
    }

    /// Lets every query see the first `keys` keys, and beyond them the keys up to its own position.
    #[must_use]
    pub fn prefix(self, keys: usize) -> Self {
        self.with_plain(Rule::Prefix(count(keys)))
    }

    /// Lets a query see the keys fewer than `window` positions away, on both sides; the first `tokens` tokens see all keys, and all queries
    /// see these tokens.
    #[must_use]
    pub fn global(self, tokens: usize, window: usize) -> Self {
        let (tokens, window) = (count(tokens), count(window));
        self.with_plain(Rule::Global { tokens, window })
    }

    /// Lets a query see every `distance`-th key, counted from its own position.
    #[must_use]
    pub fn dilated(self, distance: usize) -> Self {
        self.with_plain(Rule::Dilated(count(distance)))
    }

    /// Lets a query see the keys of its own document. `queries` \[B, Sq\] and `keys` \[B, Skv\] give the document of each token as any
    /// 32-bit number, in any order. Ascending numbers cost least: tiles are skipped where the ranges of their documents don't overlap.
    #[must_use]
    pub fn documents(self, queries: Tensor<2, Int>, keys: Tensor<2, Int>) -> Self {
        self.with(Given::Documents(Box::new([queries, keys])))
    }

    /// Lets blocks of `size` queries see the blocks of `size` keys for which `seen` \[⌈Sq / size⌉, ⌈Skv / size⌉\] is true.
    #[must_use]
    pub fn blocks(self, size: usize, seen: Tensor<2, Bool>) -> Self {
        self.with(Given::Blocks(size, seen))
    }

    /// Hides keys where `hidden` \[B or 1, Hq or 1, Sq, Skv\] is true, as Burn's masks do.
    #[must_use]
    pub fn mask(self, hidden: Tensor<4, Bool>) -> Self {
        self.with(Given::Mask(hidden))
    }

    /// Adds linear biases with the slopes 2^(−8(h + 1)/Hq) if Hq is a power of two; otherwise with the slopes of the next lower power,
    /// followed by every second slope of the next higher power.
    #[must_use]
    pub fn alibi(self) -> Self {
        self.with(Given::Alibi(None))
    }

    /// Adds linear biases with the given `slopes` \[Hq\], which get no gradient.
    #[must_use]
    pub fn alibi_slopes(self, slopes: Tensor<1>) -> Self {
        self.with(Given::Alibi(Some(slopes)))
    }

    /// Keeps scores between −`cap` and `cap`: s becomes `cap` · tanh(s / `cap`).
    #[must_use]
    pub fn softcap(self, cap: f32) -> Self {
        self.with_plain(Rule::Softcap(cap))
    }

    /// Adds `bias` \[B or 1, Hq or 1, Sq, Skv\] to the scores; −∞ hides a key. `bias` gets a gradient.
    #[must_use]
    pub fn bias(self, bias: Tensor<4>) -> Self {
        self.with(Given::Bias(bias))
    }

    /// Adds a bias by distance from `table` \[Hq, 2n + 1\], which gets a gradient: element n is for the key at the query's own position,
    /// the last element for all keys n or more positions ahead.
    #[must_use]
    pub fn relative(self, table: Tensor<2>) -> Self {
        self.with(Given::Relative(table))
    }

    /// Adds exp(`sinks`_h) to the sum of head h's exponentials: attention that goes to no key. `sinks` \[Hq\] gets a gradient.
    #[must_use]
    pub fn sinks(self, sinks: Tensor<1>) -> Self {
        let sinks = Some(sinks);
        Self { sinks, ..self }
    }

    /// Drops each weight p_ij with probability `p` after the softmax, so that lse doesn't change, and multiplies the others by 1/(1 − p).
    /// Which weights are dropped depends only on `seed`, the sequence, the query head, i and j: the choice is the same forward and backward
    /// and on every device, and no mask is kept. [`Dropout`](moebius_ops::attention::Dropout) has the formula. A `p` of 0 means no dropout.
    /// Another `p` or seed compiles nothing.
    #[must_use]
    pub fn dropout(self, p: f64, seed: u64) -> Self {
        let dropout = Some((p, Some(seed)));
        Self { dropout, ..self }
    }

    /// Adds a rule of the program's own, after all others; a second call replaces the first rule. Keys that the rule hides aren't skipped:
    /// if it looks back no further than a window, give that window, too. On GPUs its kernels are slower than the others, because they run
    /// one unit per query; XLA refuses the rule. [`check_rule`](super::check_rule) tells whether the parts of a rule agree.
    #[must_use]
    pub fn rule(self, rule: impl LaunchRule) -> Self {
        let rule: Option<Arc<dyn AnyRule>> = Some(Arc::new(rule));
        Self { rule, ..self }
    }

    pub(super) fn has_rule(&self) -> bool {
        self.rule.is_some()
    }

    pub(super) fn has_dropout(&self) -> bool {
        self.dropout.is_some()
    }

    /// Drops weights with probability `p` and a seed that the device's generator draws in each forward pass.
    pub(super) fn dropout_drawn(self, p: f64) -> Self {
        let dropout = Some((p, None));
        Self { dropout, ..self }
    }

    /// Puts the first query at position `first`, counted from the first key of the call: query i is at p = `first` + i. Where keys are a
    /// chunk of a sequence, `first` is the query's place in the sequence minus that of the chunk's first key; p may be negative or past the
    /// last key. Rules that count keys from the first one (`prefix`, `global`, `blocks`) count the keys of the call, and `global` also the
    /// positions of the call, and `causal_top_left` stays j ≤ i. Another position compiles nothing on CubeCL's devices; on XLA the position
    /// is part of the program. Positions, sizes and windows together have to fit 32 bits.
    #[must_use]
    pub fn position(self, first: i64) -> Self {
        let position = Some(first);
        Self { position, ..self }
    }

    /// Multiplies ⟨q, k⟩ by `scale` in place of 1/√D.
    #[must_use]
    pub fn scale(self, scale: f32) -> Self {
        let scale = Some(scale);
        Self { scale, ..self }
    }

    /// Computes o and its log-sum-exp from q \[B, Hq, Sq, D\], k \[B, Hkv, Skv, D\] and v \[B, Hkv, Skv, Dv\], all of one dtype: f32, f16
    /// or bf16. Hkv divides Hq; D and Dv are at most 256; query head h reads key head h / (Hq / Hkv). Sums are f32. The forward pass reads
    /// views in place, such as the heads of a projection's rows \[B, S, H · D\]; the backward pass copies them.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes or dtypes, or a table that doesn't fit,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) for tensors on different devices, [`ErrorKind::Config`](crate::ErrorKind::Config)
    /// for a rule given twice, more than eight rules, a rule or position whose numbers are out of range, and a dropout outside of 0 ≤ p <
    /// 1, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device that can't compute the attention.
    pub fn forward(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Result<Attended, Error> {
        let sizes = sizes(&q, &k, &v)?;
        let (problem, tables) = self.problem(&sizes, &q)?;
        let rows = sizes.batch * sizes.queries;
        if rows == 0 || sizes.keys == 0 {
            return self.without_keys(&q, &sizes);
        }
        if let Some(halves) = self.halves(&problem, &q.device()) {
            return halves.forward([q, k, v]);
        }
        let (o, lse) = ops::attention::run([q, k, v], tables, problem, self.rule.clone())?;
        Ok(Attended { o, lse })
    }

    /// Returns the halves of an attention whose loops the device would end early, if each is an attention of its own.
    fn halves(&self, problem: &Problem, device: &Device) -> Option<Halves> {
        if self.has_rule() || self.has_dropout() {
            return None;
        }
        let axis = ops::attention::too_long(problem, device)?;
        let s = problem.sizes();
        let first = problem.position(0);
        let len = match axis {
            Axis::Queries => s.queries,
            Axis::Keys => s.keys,
        };
        // A half begins with a block.
        let at = (len / 2).next_multiple_of(problem.rules().blocks().unwrap_or(1));
        if at == 0 || at >= len {
            return None;
        }
        let part = |range: Range<usize>| {
            let (queries, keys) = match axis {
                Axis::Queries => (range, 0..s.keys),
                Axis::Keys => (0..s.queries, range),
            };
            let part = Part {
                queries,
                keys,
                first,
            };
            Some((self.part(&part)?, part))
        };
        Some(Halves {
            axis,
            parts: [part(0..at)?, part(at..len)?],
        })
    }

    /// Returns the attention of some queries to some keys; `None` if a rule needs the others.
    fn part(&self, part: &Part) -> Option<Self> {
        let rules: Option<Vec<Given>> = self.rules.iter().map(|given| given.within(part)).collect();
        let apart = part.queries.start as i64 - part.keys.start as i64;
        Some(Self {
            rules: rules?,
            // The sinks belong to one part of the keys.
            sinks: self.sinks.clone().filter(|_| part.keys.start == 0),
            position: Some(part.first + apart),
            ..self.clone()
        })
    }

    /// Describes the attention of queries like `q`, with the tables that it reads in the order of the operation's description.
    pub(super) fn problem(
        &self,
        sizes: &Sizes,
        q: &Tensor<4>,
    ) -> Result<(Problem, Vec<DeviceValue>), Error> {
        let problem = Problem::new(*sizes)?
            .with_element(element(q.dtype())?)
            .with_sinks(self.sinks.is_some())
            .with_dropout(self.dropout.is_some_and(|(p, _)| p != 0.0));
        let problem = match self.scale {
            Some(scale) => problem.with_scale(scale)?,
            None => problem,
        };
        let mut tables = Tables::new(sizes, q.device());
        let rules: Result<Vec<Rule>, Error> =
            self.rules.iter().map(|rule| tables.rule(rule)).collect();
        let rules = Rules::new(rules?)?.with_position(self.position);
        let problem = problem.with_rules(rules)?;
        if let Some(sinks) = &self.sinks {
            tables.sinks(sinks)?;
        }
        if let Some((p, seed)) = self.dropout.filter(|_| problem.dropout()) {
            tables.dropout(p, seed)?;
        }
        Ok((problem, tables.into_values()))
    }

    /// Describes the attention within a sequence of `count` chunks of size `chunk`, on the device and in the dtype of `q`; refuses rules
    /// that can't be computed chunk by chunk.
    pub(super) fn chunks(
        &self,
        chunk: &Sizes,
        q: &Tensor<4>,
        count: usize,
    ) -> Result<Chunks, Error> {
        Fault::Unsupported.unless(
            !self.has_rule(),
            "own rule of a sequence in chunks",
            "none",
            "one",
        )?;
        Mismatch::unless(chunk.queries > 0, "tokens", "at least 1", 0)?;
        let (what, first) = ("position of a sequence in chunks", self.position);
        Fault::Unsupported.unless(first.is_none(), what, "none", first.unwrap_or(0))?;
        for given in &self.rules {
            let of_pairs = match given {
                Given::Documents(documents) => {
                    let tokens = chunk.queries.saturating_mul(count);
                    for ids in documents.iter() {
                        check_same("documents [B, S]", ids.dims(), [chunk.batch, tokens])?;
                    }
                    continue;
                }
                Given::Blocks(..) => "blocks",
                Given::Mask(_) => "mask",
                Given::Bias(_) => "bias",
                Given::Plain(_) | Given::Alibi(_) | Given::Relative(_) => continue,
            };
            let (what, expected) = (
                "rule of a sequence in chunks",
                "one without a table of pairs",
            );
            return Err(Fault::Unsupported.error(what, expected, of_pairs).into());
        }
        let own = self.piece([0, 0], chunk.queries, &q.device());
        Ok(Chunks::new(own.problem(chunk, q)?.0, count)?)
    }

    /// Returns the attention of chunk `query` of the queries to chunk `key` of the keys, `size` tokens each, with its tables on `device`.
    /// Only the attention of a chunk to itself has the sinks.
    pub(super) fn piece(&self, [query, key]: [usize; 2], size: usize, device: &Device) -> Self {
        let rule = |given: &Given| match given {
            Given::Documents(documents) => {
                let [queries, keys] = documents.as_ref().clone();
                let part = |ids: Tensor<2, Int>, at| {
                    let ids = ids.narrow(1, at * size, size);
                    if ids.device().inner() == device.clone().inner() {
                        ids
                    } else {
                        ids.to_device(&device.clone().inner())
                    }
                };
                Given::Documents(Box::new([part(queries, query), part(keys, key)]))
            }
            Given::Alibi(Some(slopes)) => Given::Alibi(Some(moved(slopes.clone(), device))),
            Given::Relative(table) => Given::Relative(moved(table.clone(), device)),
            other => other.clone(),
        };
        let sinks = self.sinks.as_ref().filter(|_| query == key);
        Self {
            rules: self.rules.iter().map(rule).collect(),
            sinks: sinks.map(|sinks| moved(sinks.clone(), device)),
            position: Some((query as i64 - key as i64) * size as i64),
            ..self.clone()
        }
    }

    /// Returns o = 0, and the lse of the sinks or `f32::MIN`: the result of queries where there are no keys.
    fn without_keys(&self, q: &Tensor<4>, sizes: &Sizes) -> Result<Attended, Error> {
        let &Sizes {
            batch,
            heads,
            queries,
            ..
        } = sizes;
        let o = [batch, heads, queries, sizes.value_dim];
        let o = Tensor::zeros(o, (&q.device(), q.dtype()));
        let rows = [batch, heads, queries];
        let lse = match &self.sinks {
            Some(sinks) if batch * queries > 0 => {
                let sinks = sinks.clone().cast(DType::F32);
                sinks.reshape([1, heads, 1]).expand(rows)
            }
            _ => Tensor::full(rows, f32::MIN, (&q.device(), DType::F32)),
        };
        Ok(Attended { o, lse })
    }
}

/// An attention in two halves.
struct Halves {
    axis: Axis,
    parts: [(Attend, Part); 2],
}

impl Halves {
    /// Computes what the whole attention would, up to the order of sums; each half may be halved again.
    fn forward(self, [q, k, v]: [Tensor<4>; 3]) -> Result<Attended, Error> {
        let of =
            |x: &Tensor<4>, range: &Range<usize>| x.clone().narrow(2, range.start, range.len());
        let half = |(attend, part): &(Attend, Part)| {
            let [k, v] = [&k, &v].map(|x| of(x, &part.keys));
            attend.forward(of(&q, &part.queries), k, v)
        };
        let [first, second] = &self.parts;
        // Where the first half is refused, the second isn't tried: halves of halves of both would be very many.
        let (first, second) = (half(first)?, half(second)?);
        match self.axis {
            Axis::Queries => Ok(Attended {
                o: Tensor::cat(vec![first.o, second.o], 2),
                lse: Tensor::cat(vec![first.lse, second.lse], 2),
            }),
            Axis::Keys => merge(&[first, second]),
        }
    }
}

/// Returns the sizes of q, k and v, after a check that the three fit each other.
pub(super) fn sizes(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Result<Sizes, Error> {
    let [batch, heads, queries, head_dim] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let [_, _, _, value_dim] = v.dims();
    let shape = [batch, kv_heads, keys, head_dim];
    check_same("k [B, Hkv, Skv, D]", k.dims(), shape)?;
    let shape = [batch, kv_heads, keys, value_dim];
    check_same("v [B, Hkv, Skv, Dv]", v.dims(), shape)?;
    for (dtype, device, other) in [
        ("dtype of k", "device of k", k),
        ("dtype of v", "device of v", v),
    ] {
        check_same(dtype, other.dtype(), q.dtype())?;
        check_device(device, other.device(), &q.device())?;
    }
    Ok(Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        head_dim,
        value_dim,
    })
}
