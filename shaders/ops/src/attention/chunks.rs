//! A sequence that is cut in equal chunks, which several devices or queues have: ring attention (Liu et al. 2023).
//!
//! Place i has the queries of chunk i, and in turn t the keys and values of chunk i − t, modulo the number of chunks. What its queries
//! see of each is merged by the log-sum-exp. As rules of chunks follow from distances alone, a pair of chunks is told by how far they are
//! apart: in turn t by t, or by t less the number of chunks.

use super::{Problem, Rule, Tile};
use crate::error::{Fault, Mismatch};

/// An attention within a sequence of equal chunks: that of a chunk to itself, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    chunk: Problem,
    count: usize,
}

impl Chunks {
    /// `count` chunks, of which `chunk` is the attention of each to itself.
    ///
    /// # Errors
    /// [`Mismatch`] for no chunks, sequences or tokens, other keys than queries, a dropout, rules that chunks can't tell from distances
    /// and documents (causal from the top left, prefix, global, blocks, mask, bias), and a sequence of too many tokens for a position.
    pub fn new(chunk: Problem, count: usize) -> Result<Self, Mismatch> {
        let s = chunk.sizes();
        let sizes = [
            ("chunks", count),
            ("sequences", s.batch),
            ("tokens", s.queries),
        ];
        Mismatch::positive(&sizes)?;
        Mismatch::check("keys of a chunk", s.queries, s.keys)?;
        let what = "dropout of a sequence in chunks";
        Fault::Unsupported.unless(!chunk.dropout(), what, "none", "some")?;
        for rule in chunk.rules().iter() {
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
            Fault::Unsupported.unless(fits, what, expected, rule.name())?;
        }
        let this = Self { chunk, count };
        // Those between are nearer.
        for apart in [count as i64 - 1, 1 - count as i64] {
            this.problem(apart)?;
        }
        Ok(this)
    }

    /// The attention of a chunk to itself.
    pub fn chunk(&self) -> &Problem {
        &self.chunk
    }

    /// How many chunks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Tokens of a chunk.
    pub fn tokens(&self) -> usize {
        self.chunk.sizes().queries
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

    fn problem(&self, apart: i64) -> Result<Problem, Mismatch> {
        let first = apart.saturating_mul(self.tokens() as i64);
        let rules = self.chunk.rules().with_position(Some(first));
        let sinks = self.chunk.sinks() && apart == 0;
        self.chunk.with_sinks(sinks).with_rules(rules)
    }
}
