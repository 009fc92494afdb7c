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

/// As ModelOpt stores them.
#[test]
fn blocks_may_keep_extents_of_one() {
    assert_eq!(plain(&[256, 128], &[2, 1, 1, 1]), block(128, 128));
    assert_eq!(plain(&[256, 128], &[2, 2, 1, 1]), None);
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
    // Scales of the columns of a transposed expert.
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
