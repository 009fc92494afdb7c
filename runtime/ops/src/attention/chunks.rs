//! A sequence that is cut in equal chunks, which several devices or queues have: ring attention (Liu et al. 2023).
//!
//! Place i has the queries of chunk i, and in turn t the keys and values of chunk i − t, modulo the number of chunks. What its queries
//! see of each is merged by the log-sum-exp. As rules of chunks follow from distances alone, a pair of chunks is told by how far they are
//! apart: in turn t by t, or by t less the number of chunks.

use super::{Problem, Rule, Rules, Sizes, Tile};
use crate::error::ShapeError;

/// An attention within a sequence, and how many chunks that is cut in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    whole: Problem,
    count: usize,
}

impl Chunks {
    /// The attention `whole` by `count` chunks.
    ///
    /// # Errors
    /// [`ShapeError`] for no sequences or tokens, other keys than queries, tokens that aren't a multiple of the chunks, a position, a
    /// dropout, and rules that chunks can't tell from distances and documents: causal from the top left, prefix, global, blocks, mask,
    /// bias.
    pub fn new(whole: Problem, count: usize) -> Result<Self, ShapeError> {
        let s = whole.sizes();
        let sizes = [
            ("chunks", count),
            ("sequences", s.batch),
            ("tokens", s.queries),
        ];
        ShapeError::positive(&sizes)?;
        ShapeError::check("keys of a sequence in chunks", s.queries, s.keys)?;
        let expected = format_args!("a multiple of {count} chunks");
        ShapeError::unless(
            s.queries.is_multiple_of(count),
            "tokens",
            expected,
            s.queries,
        )?;
        let given = whole.rules().position();
        let what = "position of a sequence in chunks";
        ShapeError::unless(given.is_none(), what, "none", given.unwrap_or(0))?;
        let what = "dropout of a sequence in chunks";
        ShapeError::unless(!whole.dropout(), what, "none", "some")?;
        for rule in whole.rules().iter() {
            let fits = match rule {
                Rule::Causal
                | Rule::Window(_)
                | Rule::SymmetricWindow(_)
                | Rule::Dilated(_)
                | Rule::Documents
                | Rule::Alibi
                | Rule::Softcap(_)
                | Rule::Relative(_) => true,
                Rule::CausalTopLeft
                | Rule::Prefix(_)
                | Rule::Global { .. }
                | Rule::Blocks(_)
                | Rule::Mask(_)
                | Rule::Bias(_) => false,
            };
            let what = "rule of a sequence in chunks";
            let expected = "one that follows from distances, documents or scores";
            ShapeError::unless(fits, what, expected, rule.name())?;
        }
        let this = Self { whole, count };
        for apart in [count as i64 - 1, 1 - count as i64] {
            this.problem(apart)?;
        }
        Ok(this)
    }

    /// The attention within the whole sequence.
    pub fn whole(&self) -> &Problem {
        &self.whole
    }

    /// How many chunks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Tokens of a chunk.
    pub fn tokens(&self) -> usize {
        self.whole.sizes().queries / self.count
    }

    /// The attention of a chunk's queries to the keys of the chunk that lies `apart` chunks before it: nothing where the rules let no
    /// pair be seen. Sinks are in that of a chunk to itself, which always is.
    pub fn pair(&self, apart: i64) -> Option<Problem> {
        let problem = self.problem(apart).ok()?;
        let all = 0..self.tokens();
        let tile = problem.rules().tile(problem.sizes(), all.clone(), all);
        (tile != Tile::Empty).then_some(problem)
    }

    /// How far apart the chunks are that meet in turn `turn`: at the places from `turn` on, and at those before.
    pub fn apart(&self, turn: usize) -> [i64; 2] {
        [turn as i64, turn as i64 - self.count as i64]
    }

    /// The turns, from 0 on, in which some place computes something.
    pub fn turns(&self) -> impl Iterator<Item = usize> {
        let some = |turn: &usize| self.apart(*turn).iter().any(|x| self.pair(*x).is_some());
        (0..self.count).filter(some)
    }

    fn problem(&self, apart: i64) -> Result<Problem, ShapeError> {
        let (tokens, whole) = (self.tokens(), self.whole);
        let rules = Rules::new(whole.rules().iter())?;
        let sizes = Sizes {
            queries: tokens,
            keys: tokens,
            ..*whole.sizes()
        };
        let rules = rules.with_position(Some(apart * tokens as i64));
        let sinks = whole.sinks() && apart == 0;
        whole.with_sizes(sizes)?.with_sinks(sinks).with_rules(rules)
    }
}
