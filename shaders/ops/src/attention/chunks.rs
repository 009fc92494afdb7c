//! A sequence cut into equal chunks that lie on several devices or queues: ring attention (Liu et al. 2023).
//!
//! Place i holds the queries of chunk i. In turn t it also gets the keys and values of chunk i − t, modulo the number of chunks,
//! and merges the partial outputs by their log-sum-exp. The rules of chunks depend on distances alone, so a pair of chunks is
//! described by its distance in chunks: t in turn t, or t minus the number of chunks where the index wraps around.

use super::{Problem, Rule, Tile};
use crate::error::{Fault, Mismatch};

/// Attention within a sequence of equal chunks: the attention of a chunk to itself, and the number of chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    chunk: Problem,
    count: usize,
}

impl Chunks {
    /// A sequence of `count` chunks; `chunk` is the attention of each chunk to itself.
    ///
    /// # Errors
    /// [`Mismatch`] when there are no chunks, sequences or tokens, when queries and keys differ in number, for a dropout, for
    /// rules that depend on more than distances and documents (causal from the top left, prefix, global, blocks, mask, bias), and
    /// when the sequence has too many tokens for a position.
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
        // The two largest distances: every other pair of chunks is nearer.
        for apart in [count as i64 - 1, 1 - count as i64] {
            this.problem(apart)?;
        }
        Ok(this)
    }

    /// The attention of a chunk to itself.
    pub fn chunk(&self) -> &Problem {
        &self.chunk
    }

    /// The number of chunks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of tokens of a chunk.
    pub fn tokens(&self) -> usize {
        self.chunk.sizes().queries
    }

    /// The attention of a chunk's queries to the keys of the chunk `apart` chunks before it; `None` when the rules hide every
    /// pair. Sinks belong to the attention of a chunk to itself (`apart` = 0), which is never `None`.
    pub fn pair(&self, apart: i64) -> Option<Problem> {
        let problem = self.problem(apart).ok()?;
        let all = 0..self.tokens();
        let tile = problem.rules().tile(problem.sizes(), all.clone(), all);
        (tile != Tile::Empty).then_some(problem)
    }

    /// The distances, in chunks, between queries and keys in turn `turn`: at places from `turn` on, and at places below `turn`.
    pub fn apart(&self, turn: usize) -> [i64; 2] {
        [turn as i64, turn as i64 - self.count as i64]
    }

    /// The turns, from 0 on, in which at least one place has something to compute.
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
