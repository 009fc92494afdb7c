//! Copies of the weights that take turns, so that few tokens read them from memory as a model does, whose other layers
//! have pushed them out of the caches.

use super::LinearBench;
use crate::ceiling::{copies_beyond, last_level_cache};
use std::cell::Cell;

/// Tokens up to which reading the weights is most of the work.
const FEW_TOKENS: usize = 16;
/// Copies of the codes at most: smaller layers stay in the caches, whatever their type.
const MOST: u64 = 256;

/// Copies of something, of which each use takes the next.
pub(super) struct Turns<T> {
    all: Vec<T>,
    next: Cell<usize>,
}

impl<T> Turns<T> {
    /// As many as `copies`, at least one.
    pub(super) fn of<E>(copies: usize, make: impl Fn() -> Result<T, E>) -> Result<Self, E> {
        let all = (0..copies.max(1)).map(|_| make());
        Ok(Self {
            all: all.collect::<Result<_, E>>()?,
            next: Cell::new(0),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn first(&self) -> &T {
        &self.all[0]
    }

    /// The one whose turn it is.
    pub(super) fn next(&self) -> &T {
        let next = self.next.get();
        self.next.set((next + 1) % self.all.len());
        &self.all[next]
    }
}

/// Copies of weights of `bytes`: for few tokens on the processor, together at least four times its last-level cache.
pub(super) fn copies(bench: &LinearBench, on_processor: bool, bytes: u64) -> usize {
    if !on_processor || bench.m > FEW_TOKENS {
        return 1;
    }
    let (cache, _) = last_level_cache();
    let codes = copies_beyond(cache, bench.n as u64 * bench.k as u64);
    let copies = if codes > MOST {
        1
    } else {
        copies_beyond(cache, bytes)
    };
    usize::try_from(copies).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::DType;
    use moebius::fp8::{Activations, Fp8Format, Granularity};

    fn bench(m: usize, n: usize) -> LinearBench {
        LinearBench {
            m,
            n,
            k: n,
            format: Fp8Format::E4M3,
            granularity: Granularity::Row,
            dtype: DType::F32,
            activations: Activations::Float,
            device: moebius::Device::Flex,
            peer: None,
        }
    }

    #[test]
    fn few_tokens_on_the_processor_read_more_than_the_cache_holds() {
        let (cache, _) = last_level_cache();
        let bytes = cache / 4;
        let wide = bench(16, (bytes as f64).sqrt() as usize);
        assert!((16..=17).contains(&copies(&wide, true, bytes)));
        assert_eq!(copies(&wide, true, 100 * cache), 2);
        // On a GPU, with more tokens, or where too many copies would be needed, in any type.
        assert_eq!(copies(&wide, false, bytes), 1);
        assert_eq!(copies(&LinearBench { m: 17, ..wide }, true, bytes), 1);
        assert_eq!(copies(&bench(1, 64), true, bytes), 1);
    }

    #[test]
    fn each_use_takes_the_next_and_the_first_comes_again() {
        let made = Cell::new(0);
        let turns = Turns::of(3, || -> Result<i32, ()> {
            made.set(made.get() + 1);
            Ok(made.get())
        });
        let turns = turns.expect("made");
        let order: Vec<i32> = (0..5).map(|_| *turns.next()).collect();
        assert_eq!((order, turns.count()), (vec![1, 2, 3, 1, 2], 3));
        assert_eq!(*turns.first(), 1);
        assert!(Turns::<()>::of(2, || Err("no memory")).is_err());
    }
}
