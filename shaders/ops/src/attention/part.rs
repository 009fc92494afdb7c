//! Some queries of an attention as one of their own: what an oracle computes where the whole takes too long.

use super::{Pattern, Problem, Rule, Rules, Site, Sizes, Tables};
use crate::error::{Fault, Mismatch};

impl Problem {
    /// The attention of `queries` in each of `heads` query heads that share a key head of one sequence, and the mask
    /// \[1, 1, `queries`, Skv\] with which it sees what they see among the others.
    ///
    /// The results are what these queries have among all others. So are the gradients, where the gradients of all other outputs are 0.
    ///
    /// # Errors
    /// [`Mismatch`] for a dropout, and for rules that change scores or read tables: these depend on the number of a query.
    pub fn of_queries(
        &self,
        heads: usize,
        queries: &[usize],
    ) -> Result<(Self, Vec<u32>), Mismatch> {
        let sizes = self.sizes;
        let other = self.rules.iter().find(|rule| !is_of_positions(*rule));
        if self.dropout || other.is_some() {
            let got = other.map_or("dropout", Rule::name);
            let expected = "rules that decide by positions what is seen";
            return Err(Fault::Config.error("some of the queries", expected, got));
        }
        let seen = |query: usize, key: usize| {
            let site = Site {
                batch: 0,
                head: 0,
                query,
                key,
            };
            u32::from(self.rules.seen(&sizes, &Tables::default(), site))
        };
        let pairs = queries
            .iter()
            .flat_map(|query| (0..sizes.keys).map(move |key| (*query, key)));
        let mask = pairs.map(|(query, key)| seen(query, key)).collect();
        let pattern = Pattern {
            batch: false,
            heads: false,
        };
        let rules = Rules::new([Rule::Mask(pattern)])?;
        let part = Sizes {
            batch: 1,
            heads,
            kv_heads: 1,
            queries: queries.len(),
            ..sizes
        };
        Ok((Self { rules, ..*self }.with_sizes(part)?, mask))
    }
}

/// Whether a rule says what is seen, and reads nothing but positions.
fn is_of_positions(rule: Rule) -> bool {
    use Rule::{Causal, CausalTopLeft, Dilated, Global, Prefix, SymmetricWindow, Window};
    let windows = matches!(rule, Window(_) | SymmetricWindow(_) | Dilated(_));
    windows || matches!(rule, Causal | CausalTopLeft | Prefix(_) | Global { .. })
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
