//! Where the keys and values of an attention are.

use super::panels::{Line, turn};
use super::scores::Operands;
use crate::vector::Transpose;
use std::ops::Range;

/// Gives keys and values of key heads, \[B, Hkv\] in one row.
pub(crate) trait Source: Sync {
    /// Puts keys, at most a panel's columns and the first a multiple of those, into columns: element d of key i to `lines[d][i]`. Past the last key is
    /// what means nothing.
    fn keys<T: Transpose>(&self, transpose: T, head: usize, keys: Range<usize>, lines: &mut [Line]);

    /// Values \[keys, Dv\] of keys of which the first is a multiple of a panel's columns; in `room`, where they don't lie so.
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, room: &'a mut Vec<f32>) -> &'a [f32];
}

/// k \[B, Hkv, Skv, D\] and v \[B, Hkv, Skv, Dv\] of a call.
impl Source for Operands<'_> {
    #[inline(always)]
    fn keys<T: Transpose>(
        &self,
        transpose: T,
        head: usize,
        keys: Range<usize>,
        lines: &mut [Line],
    ) {
        let s = self.problem.sizes();
        let first = (head * s.keys + keys.start) * s.head_dim;
        let k = &self.k[first..][..keys.len() * s.head_dim];
        turn(transpose, k, lines);
    }

    #[inline(always)]
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, _: &'a mut Vec<f32>) -> &'a [f32] {
        let s = self.problem.sizes();
        let first = (head * s.keys + keys.start) * s.value_dim;
        &self.v[first..][..keys.len() * s.value_dim]
    }
}
