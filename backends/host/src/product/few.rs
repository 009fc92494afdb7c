//! Few rows: the right factor is multiplied where it lies, and read once.

use super::factor::{DEEPEST, Part, SLACK, WIDEST};
use super::right::Right;
use super::task::{Memory, Product, Task, room};
use crate::vector::Transpose;
use pulp::Simd;

/// The most rows; with more, packing weights takes no longer than turning them for every tile.
pub(super) const FEW: usize = 8;

/// Rows in tiles of N, whose sums are in registers.
#[inline(always)]
pub(super) fn run<S: Simd, T: Transpose, R: Right, const N: usize>(
    task: Task<R>,
    vectors: (S, T),
    memory: &mut Memory,
) {
    let Product { inner, bias, .. } = *task.product;
    let tiles = task.rows.len().div_ceil(N);
    let blocks = |size: usize| {
        let firsts = (0..inner).step_by(size);
        firsts.map(move |first| first..(first + size).min(inner))
    };
    // Several tiles find the weights of a block in a cache.
    let deepest = if tiles == 1 { inner } else { DEEPEST };
    let Memory { left, scratch, .. } = memory;
    let left = room(left, tiles * N * inner + SLACK);
    for block in blocks(DEEPEST) {
        let at = tiles * N * block.start;
        let part = Part {
            inner: block,
            across: task.rows.clone(),
        };
        let panels = (&mut left[at..], N);
        task.product.left.pack(vectors.1, &part, panels, scratch);
    }
    let left = left.as_chunks::<N>().0;
    for first in task.columns.clone().step_by(WIDEST) {
        let across = first..(first + WIDEST).min(task.columns.end);
        let mut sums = [[0.0; WIDEST]; FEW];
        for block in blocks(deepest) {
            let left = left[tiles * block.start..][..tiles * block.len()].chunks_exact(block.len());
            let part = Part {
                inner: block,
                across: across.clone(),
            };
            for (left, sums) in left.zip(sums.as_chunks_mut::<N>().0) {
                task.product.right.multiply(vectors, &part, left, sums);
            }
        }
        let rows = task.to[first - task.columns.start..].chunks_mut(task.step);
        for (to, sums) in rows.zip(&sums).take(task.rows.len()) {
            let to = &mut to[..across.len()];
            to.copy_from_slice(&sums[..across.len()]);
            if let Some(bias) = bias {
                for (to, bias) in to.iter_mut().zip(&bias[across.clone()]) {
                    *to += bias;
                }
            }
        }
    }
}
