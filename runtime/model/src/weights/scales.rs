//! Which granularity a tensor of scales has, told from its shape.

use moebius::fp8::{Granularity, MX_BLOCK};

/// Rows and columns of a block where nothing says otherwise: DeepSeek-V3's, and everybody's since.
const USUAL_BLOCK: usize = 128;

/// How the scales of one matrix are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grid {
    One,
    Rows,
    Blocks([usize; 2]),
}

/// What is known beside the shapes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    /// Rows and columns of a block, from the configuration.
    pub(super) declared: Option<[usize; 2]>,
    /// The scales are called `inv`, which only blocks are.
    pub(super) inverse: bool,
    /// The scales are E8M0 bytes.
    pub(super) e8m0: bool,
}

/// The granularity of scales of shape `scales` for a weight of shape `weight`, \[n, k\] or \[E, n, k\].
///
/// A declared block size decides where it fits; then \[n, ⌈k/32⌉\] bytes are MX, one value is the
/// whole matrix's, n values are a row's each, and a grid is of 128 × 128 blocks where these fit, else
/// of the one block size that does. `None` where nothing fits, or more than one size does.
pub(super) fn granularity(weight: &[usize], scales: &[usize], hints: Hints) -> Option<Granularity> {
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
        [down, across] => Some(Grid::Blocks([*down, *across])),
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

/// The length of blocks of which `count` cover `len`.
///
/// 128 where it fits. Else of `len` divided evenly and the powers of two the only one that fits: 384 in
/// two blocks could be of 192 or of 256, and a guess would be a wrong result without an error.
fn side(len: usize, count: usize) -> Option<usize> {
    if len.div_ceil(USUAL_BLOCK) == count {
        return Some(USUAL_BLOCK);
    }
    if count == 1 {
        // Every length from here on up gives the same values; none has a block of an empty side.
        return (len != 0).then_some(len);
    }
    let even = (count != 0 && len.is_multiple_of(count)).then(|| len / count);
    let powers = (0..usize::BITS).map(|bits| 1_usize << bits);
    let mut fitting = even.into_iter().chain(powers).filter(|&side| {
        // An empty side of blocks would be even in any number of them.
        side != 0 && len.div_ceil(side) == count
    });
    let first = fitting.next()?;
    fitting.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{Granularity, Hints, granularity, side};

    const INVERSE: Hints = Hints {
        declared: None,
        inverse: true,
        e8m0: false,
    };

    fn plain(weight: &[usize], scales: &[usize]) -> Option<Granularity> {
        granularity(weight, scales, Hints::default())
    }

    fn block(rows: usize, columns: usize) -> Option<Granularity> {
        Some(Granularity::Block { rows, columns })
    }

    #[test]
    fn one_value_is_the_whole_matrix() {
        for scales in [&[][..], &[1], &[1, 1]] {
            assert_eq!(plain(&[200, 300], scales), Some(Granularity::Tensor));
        }
        for scales in [&[][..], &[1], &[4], &[4, 1], &[4, 1, 1]] {
            assert_eq!(plain(&[4, 200, 300], scales), Some(Granularity::Tensor));
        }
        assert_eq!(granularity(&[100, 128], &[1, 1], INVERSE), block(128, 128));
    }

    #[test]
    fn a_value_per_row_is_a_row() {
        for scales in [&[200][..], &[200, 1]] {
            assert_eq!(plain(&[200, 300], scales), Some(Granularity::Row));
        }
        for scales in [&[4, 200][..], &[4, 200, 1]] {
            assert_eq!(plain(&[4, 200, 300], scales), Some(Granularity::Row));
        }
        assert_eq!(plain(&[4, 200, 300], &[200, 1]), None);
        assert_eq!(plain(&[4, 200, 300], &[3, 200, 1]), None);
    }

    #[test]
    fn a_grid_is_of_the_usual_blocks_or_of_the_only_ones() {
        assert_eq!(plain(&[129, 391], &[2, 4]), block(128, 128));
        assert_eq!(plain(&[5, 129, 391], &[5, 2, 4]), block(128, 128));
        assert_eq!(plain(&[192, 512], &[3, 8]), block(64, 64));
        assert_eq!(plain(&[7, 391], &[7, 4]), block(1, 128));
        // Columns of a transposed expert.
        assert_eq!(plain(&[2, 256, 40], &[2, 1, 40]), block(256, 1));
        assert_eq!(plain(&[384, 384], &[2, 2]), None);
        assert_eq!(plain(&[256, 256], &[300, 2]), None);
        assert_eq!(plain(&[256, 256], &[0, 2]), None);
    }

    #[test]
    fn a_declared_block_decides_or_nothing_does() {
        let declared = |size| Hints {
            declared: Some(size),
            ..Hints::default()
        };
        assert_eq!(
            granularity(&[384, 384], &[2, 2], declared([192, 256])),
            block(192, 256)
        );
        assert_eq!(granularity(&[384, 384], &[3, 3], declared([64, 64])), None);
        let row = granularity(&[384, 384], &[384, 1], declared([64, 64]));
        assert_eq!(row, Some(Granularity::Row));
    }

    #[test]
    fn bytes_of_32_values_are_mx() {
        let e8m0 = Hints {
            e8m0: true,
            ..Hints::default()
        };
        for (weight, scales) in [
            (&[3, 64][..], &[3, 2][..]),
            (&[3, 65], &[3, 3]),
            (&[2, 3, 31], &[2, 3, 1]),
        ] {
            assert_eq!(granularity(weight, scales, e8m0), Some(Granularity::Mx));
        }
        assert_eq!(granularity(&[256, 256], &[2, 2], e8m0), block(128, 128));
    }

    #[test]
    fn empty_sides_do_not_divide_by_zero() {
        assert_eq!(side(0, 0), Some(128));
        assert_eq!((side(0, 1), side(0, 3)), (None, None));
        assert_eq!(plain(&[3, 0], &[3, 1]), Some(Granularity::Row));
        assert_eq!(side(5, 0), None);
        assert_eq!(side(usize::MAX, 1), Some(usize::MAX));
        assert_eq!(side(129, 65), Some(2));
    }
}
