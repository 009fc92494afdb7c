//! The attention of a few of a problem's queries, for oracles that would take too long for all of them.

use super::{Pattern, Problem, Rule, Rules, Site, Sizes, Tables};
use crate::error::{Fault, Mismatch};

impl Problem {
    /// The attention of only `queries` in `heads` query heads that share a key head of one sequence, and its mask
    /// \[1, 1, `queries`, Skv\], which shows each query the keys that it sees in the whole problem.
    ///
    /// The results equal those of the same queries in the whole problem. So do the gradients, if the gradients of all other
    /// outputs are 0.
    ///
    /// # Errors
    /// [`Mismatch`] for a dropout, and for rules that change scores or read tables, because these depend on a query's index.
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

/// Whether `rule` decides only which keys are seen, and only by positions.
fn is_of_positions(rule: Rule) -> bool {
    use Rule::{Causal, CausalTopLeft, Dilated, Global, Prefix, SymmetricWindow, Window};
    let windows = matches!(rule, Window(_) | SymmetricWindow(_) | Dilated(_));
    windows || matches!(rule, Causal | CausalTopLeft | Prefix(_) | Global { .. })
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
