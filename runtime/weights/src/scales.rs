//! Detection of the granularity of scales from their shape.

use moebius_ops::scaling::{Granularity, MX_BLOCK};

/// Rows and columns of a block by default: those of DeepSeek-V3, which all later models use.
const USUAL_BLOCK: usize = 128;

/// Layout of the scales of one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grid {
    One,
    Rows,
    Blocks([usize; 2]),
}

/// Hints on the granularity in addition to the shapes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// Rows and columns of a block, as declared by the configuration.
    pub(crate) declared: Option<[usize; 2]>,
    /// Whether the name of the scales ends in `inv`, which only scales of blocks have.
    pub(crate) inverse: bool,
    /// Whether the scales are E8M0 bytes.
    pub(crate) e8m0: bool,
}

/// Determines the granularity of scales of shape `scales` for a weight of shape `weight`, \[n, k\] or \[E, n, k\].
///
/// A declared block size is used where it fits; otherwise \[n, ⌈k/32⌉\] bytes are MX, one value is the whole matrix's, n values are one per
/// row, and a grid is of 128 × 128 blocks where these fit, else of the only block size that fits. `None` where no size fits, or several do.
pub(crate) fn granularity(weight: &[usize], scales: &[usize], hints: Hints) -> Option<Granularity> {
    let (experts, &[n, k]) = weight.split_last_chunk::<2>()?;
    let size = [n, k];
    match grid(experts, n, scales)? {
        Grid::One => Some(Granularity::Tensor),
        Grid::Rows => Some(Granularity::Row),
        Grid::Blocks(grid) => of_grid(grid, size, hints),
    }
}

fn grid(experts: &[usize], n: usize, scales: &[usize]) -> Option<Grid> {
    if matches!(scales, [] | [1]) {
        return Some(Grid::One);
    }
    match scales.strip_prefix(experts)? {
        [] | [1] => Some(Grid::One),
        [rows] if *rows == n => Some(Grid::Rows),
        // ModelOpt keeps the extents of the blocks' values, 1 each.
        [down, across] | [down, 1, across, 1] => Some(Grid::Blocks([*down, *across])),
        _ => None,
    }
}

fn of_grid(grid: [usize; 2], size: [usize; 2], hints: Hints) -> Option<Granularity> {
    let [n, k] = size;
    let block = |[rows, columns]: [usize; 2]| Granularity::Block { rows, columns };
    let fits = |of: [usize; 2]| block(of).blocks(n, k) == grid;
    if hints.e8m0 && grid == [n, k.div_ceil(MX_BLOCK)] {
        return Some(Granularity::Mx);
    }
    if let Some(of) = hints.declared
        && fits(of)
    {
        return Some(block(of));
    }
    let usual = [USUAL_BLOCK; 2];
    if grid == [1, 1] {
        let whole = !(hints.inverse && fits(usual));
        return Some(if whole {
            Granularity::Tensor
        } else {
            block(usual)
        });
    }
    if grid == [n, 1] {
        return Some(Granularity::Row);
    }
    if hints.declared.is_some() {
        return None;
    }
    Some(block([side(n, grid[0])?, side(k, grid[1])?]))
}

/// The side of blocks of which `count` cover the length `len`.
///
/// The result is 128 where it fits, else the only fitting one of `len / count` and the powers of two: 384 in two blocks could mean 192 or
/// 256, and a guess could give wrong values without an error.
fn side(len: usize, count: usize) -> Option<usize> {
    if len.div_ceil(USUAL_BLOCK) == count {
        return Some(USUAL_BLOCK);
    }
    if count == 1 {
        // All larger sides give the same values; an empty length has no blocks.
        return (len != 0).then_some(len);
    }
    let even = (count != 0 && len.is_multiple_of(count)).then(|| len / count);
    let powers = (0..usize::BITS).map(|bits| 1_usize << bits);
    let mut fitting = even.into_iter().chain(powers).filter(|&side| {
        // A side of 0 would fit any number of blocks.
        side != 0 && len.div_ceil(side) == count
    });
    let first = fitting.next()?;
    fitting.all(|other| other == first).then_some(first)
}

#[cfg(test)]
#[path = "scales_tests.rs"]
mod tests;
