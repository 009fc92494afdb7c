//! Load: counts\[g,e\] = how many slots of group g chose expert e.
//!
//! The tokens are cut into G groups of T/G neighbours. Every choice counts, or only the first of every
//! token; index E and beyond count nowhere. Counts are exact: no limit below 2³².
//!
//! Shapes: indices u32 \[T,K\], counts u32 \[G,E\]. Bytes: 4·T·K.

use super::Problem;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

getters! {
    /// What is counted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LoadProblem {
        /// Tokens, experts and choices per token.
        routing: Problem,
        /// Groups of tokens.
        groups: usize,
        /// Whether only the first choice of a token counts.
        first_only: bool,
    }
}

impl LoadProblem {
    /// Counts all choices of `routing`, of which only the sizes matter, in `groups` groups of tokens.
    ///
    /// # Errors
    /// [`Mismatch`] unless `groups` divides the tokens and groups × experts fits 31 bits.
    pub fn new(routing: Problem, groups: usize) -> Result<Self, Mismatch> {
        let right = groups > 0 && routing.tokens.is_multiple_of(groups);
        let expected = format_args!("a divisor of {} tokens", routing.tokens);
        Fault::Config.unless(right, "groups of tokens", expected, groups)?;
        Mismatch::index("groups x experts", &[groups, routing.experts])?;
        Ok(Self {
            routing,
            groups,
            first_only: false,
        })
    }

    /// The same, of the first choice of every token only.
    pub fn of_first_choices(self) -> Self {
        Self {
            first_only: true,
            ..self
        }
    }

    /// Checks what the constructor does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.routing.check()?;
        Self::new(self.routing, self.groups).map(drop)
    }

    /// Counts, G·E.
    pub fn counts(&self) -> usize {
        self.groups * self.routing.experts
    }

    /// Tokens of a group.
    pub fn tokens(&self) -> usize {
        self.routing.tokens / self.groups
    }

    /// Choices of a token that count.
    pub fn choices(&self) -> usize {
        if self.first_only {
            1
        } else {
            self.routing.top_k
        }
    }
}

/// The oracle: counts \[G,E\] of `indices` \[T,K\].
pub fn load_reference(problem: &LoadProblem, indices: &[u32]) -> Vec<u32> {
    let Problem { experts, top_k, .. } = problem.routing;
    let mut counts = vec![0; problem.counts()];
    for (token, chosen) in indices.chunks(top_k).enumerate() {
        let group = token / problem.tokens() * experts;
        for expert in &chosen[..problem.choices()] {
            if (*expert as usize) < experts {
                counts[group + *expert as usize] += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let indices = [0, 1, 2, 1, 3, 3, 0, 9];
        let problem = LoadProblem::new(Problem::new(4, 3, 2).unwrap(), 2).unwrap();
        assert_eq!(load_reference(&problem, &indices), [1, 2, 1, 1, 0, 0]);
        let first = problem.of_first_choices();
        assert_eq!(load_reference(&first, &indices), [1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn groups_divide_the_tokens() {
        let routing = Problem::new(6, 3, 2).unwrap();
        assert!(LoadProblem::new(routing, 0).is_err());
        assert!(LoadProblem::new(routing, 4).is_err());
        assert!(LoadProblem::new(routing, 6).is_ok());
    }
}
