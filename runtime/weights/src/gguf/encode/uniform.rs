//! Encoding of blocks with one scale: Q8_0, Q4_0 and Q5_0, and with one minimum more: Q4_1 and Q5_1.

use half::f16;
use moebius_ops::blocks::BlockFormat;

use super::grid::{
    Distance, Grid, Offset, SUBNORMAL, affine, farthest, half, plain_affine, plain_symmetric,
    symmetric,
};

/// The largest relative error of rounding a number of at least 2⁻¹⁴ to F16.
const ROUNDED: f32 = 1.0 / (1_u32 << 11) as f32;

/// The grid as the file has it, with scale and offset in F16.
fn stored(grid: Grid) -> Grid {
    Grid {
        scale: half(grid.scale),
        offset: half(grid.offset),
        ..grid
    }
}

/// The grid of the least squares among these, each as the file has it, of those whose largest difference is at most `limit`.
fn best(grids: &[Grid], first: Grid, values: &[f32; 32], limit: f32) -> Grid {
    let with_distance = |grid: Grid| {
        let grid = stored(grid);
        (grid, grid.distance(values))
    };
    let better = |best: (Grid, Distance), &grid: &Grid| {
        let next = with_distance(grid);
        if next.1.is_better(best.1, limit) {
            next
        } else {
            best
        }
    };
    grids.iter().fold(with_distance(first), better).0
}

/// The most that a value may be off in a format without a minimum: one step of the `plain` scale, which holds all of them without the largest
/// code of a sign that has one more, and the rounding of that scale.
fn limit(plain: Grid) -> f32 {
    plain.scale + plain.most * SUBNORMAL
}

/// The best grid of a format without a minimum, within its [`limit`].
fn scaled(values: &[f32; 32], range: [f32; 2]) -> Grid {
    let plain = plain_symmetric(values, range);
    // The scale of ggml: the value with the largest magnitude has the code that a sign has more.
    let usual = Grid {
        scale: farthest(values) / range[0],
        ..plain
    };
    let grids = [usual, symmetric(values, range)];
    best(&grids, plain, values, limit(plain))
}

/// The best grid of a format with a minimum. No value is off by more than one step of the scale that spans all of them, and the rounding of
/// scale and minimum.
fn shifted(values: &[f32; 32], most: f32) -> Grid {
    let plain = plain_affine(values, most, Offset::Any);
    let rounding = plain.offset.abs() * ROUNDED + (most + 1.0) * SUBNORMAL;
    let searched = affine(values, most, Offset::Any);
    best(&[searched], plain, values, plain.scale + rounding)
}

/// The bytes of a number in F16.
fn bytes(number: f32) -> [u8; 2] {
    f16::from_f32(number).to_le_bytes()
}

/// The codes as bytes, counted from the least.
fn counted(grid: Grid, values: &[f32; 32]) -> [u8; 32] {
    grid.codes(values).map(|code| (code - grid.least) as u8)
}

/// Codes from −127 to 127: products of processors' vector instructions have no room for −128. The scale is fitted once: a search would take five times
/// as long, which is most of what loading waits for, to make errors that are below 1 % smaller by a tenth.
pub(super) fn q8_0(values: &[f32; 32], out: &mut [u8; 34]) {
    let plain = plain_symmetric(values, [-127.0, 127.0]);
    let fitted = plain.fitted(values, Offset::None);
    let grid = best(&[fitted], plain, values, limit(plain));
    out[..2].copy_from_slice(&bytes(grid.scale));
    for (out, code) in out[2..].iter_mut().zip(grid.codes(values)) {
        *out = (code as i8).cast_unsigned();
    }
}

pub(super) fn q4_0(values: &[f32; 32], out: &mut [u8; 18]) {
    let grid = scaled(values, [-8.0, 7.0]);
    out[..2].copy_from_slice(&bytes(grid.scale));
    BlockFormat::Q4_0.layout().put(&counted(grid, values), out);
}

pub(super) fn q4_1(values: &[f32; 32], out: &mut [u8; 20]) {
    let grid = shifted(values, 15.0);
    out[..2].copy_from_slice(&bytes(grid.scale));
    out[2..4].copy_from_slice(&bytes(grid.offset));
    BlockFormat::Q4_1.layout().put(&counted(grid, values), out);
}

pub(super) fn q5_0(values: &[f32; 32], out: &mut [u8; 22]) {
    let grid = scaled(values, [-16.0, 15.0]);
    out[..2].copy_from_slice(&bytes(grid.scale));
    BlockFormat::Q5_0.layout().put(&counted(grid, values), out);
}

pub(super) fn q5_1(values: &[f32; 32], out: &mut [u8; 24]) {
    let grid = shifted(values, 31.0);
    out[..2].copy_from_slice(&bytes(grid.scale));
    out[2..4].copy_from_slice(&bytes(grid.offset));
    BlockFormat::Q5_1.layout().put(&counted(grid, values), out);
}
