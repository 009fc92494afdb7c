//! Keys and values of a sequence where its pages are.

use super::codes::Codes;
use super::places::Places;
use crate::attention::{Line, Source};
use crate::vector::Transpose;
use moebius_ops::kv_cache::{BLOCK, Layout};
use std::ops::Range;

/// The tokens of a sequence; 0 where the pool doesn't have a page.
pub(super) struct Paged<'a> {
    pub(super) layout: &'a Layout,
    pub(super) pool: &'a [i32],
    pub(super) places: &'a Places<'a>,
    pub(super) sequence: usize,
    pub(super) codes: &'a Codes,
}

/// What a block has: keys, values, and the scales of both.
struct Parts<'a> {
    keys: &'a [i32],
    values: &'a [i32],
    key_scales: &'a [i32],
    value_scales: &'a [i32],
}

impl Paged<'_> {
    /// The block whose first token is `token`.
    #[inline(always)]
    fn block(&self, head: usize, token: usize) -> Option<Parts<'_>> {
        let l = self.layout;
        let at = self.places.block(l, [self.sequence, head], token)?;
        let block = &self.pool[at..][..l.block_words()];
        let (keys, block) = block.split_at(BLOCK * l.key_words());
        let (values, scales) = block.split_at(BLOCK * l.value_words());
        let (key_scales, value_scales) = scales.split_at(scales.len() / 2);
        Some(Parts {
            keys,
            values,
            key_scales,
            value_scales,
        })
    }
}

impl Source for Paged<'_> {
    #[inline(always)]
    fn keys<T: Transpose>(&self, _: T, head: usize, keys: Range<usize>, lines: &mut [Line]) {
        for (at, token) in keys.step_by(BLOCK).enumerate() {
            let lane = at * BLOCK;
            match self.block(head, token) {
                Some(of) => self.codes.keys(of.keys, of.key_scales, lines, lane),
                None => {
                    for line in &mut *lines {
                        line[lane..][..BLOCK].fill(0.0);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, room: &'a mut Vec<f32>) -> &'a [f32] {
        let width = self.layout.value_dim();
        room.resize(keys.len() * width, 0.0);
        for (token, to) in keys.step_by(BLOCK).zip(room.chunks_mut(BLOCK * width)) {
            match self.block(head, token) {
                Some(of) => self.codes.values(of.values, of.value_scales, to, width),
                None => to.fill(0.0),
            }
        }
        room
    }
}
