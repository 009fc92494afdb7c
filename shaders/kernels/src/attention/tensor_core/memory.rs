//! The workgroup memory of the `tensor_core` variant.

use super::{ALIGNMENT, KEYS, PADDING, QUERIES, Spec};
use crate::attention::operands::Layout;
use crate::attention::tile::Block;
use cubecl::prelude::*;

/// A cube's workgroup memory.
#[derive(CubeType)]
pub(super) struct Tiles<F: Float> {
    pub(super) queries: Shared<[Vector<F, Const<4>>]>,
    pub(super) keys: Shared<[Vector<F, Const<4>>]>,
    pub(super) values: Shared<[Vector<F, Const<4>>]>,
    /// Probabilities of a tile.
    pub(super) weights: Shared<[Vector<F, Const<4>>]>,
    /// Scores, and sums of probabilities times values.
    pub(super) staged: Shared<[f32]>,
    /// The factor of each query's sums.
    pub(super) factors: Shared<[f32]>,
    /// Whether a value of the tile is infinite or NaN; several units may find one.
    pub(super) odd: Shared<[Atomic<u32>]>,
}

#[cube]
pub(super) fn tiles<F: Float>(#[comptime] spec: Spec) -> Tiles<F> {
    Tiles::<F> {
        queries: tile::<F>(comptime!(QUERIES * spec.key_row())),
        keys: tile::<F>(comptime!(KEYS * spec.key_row())),
        values: tile::<F>(comptime!(KEYS * spec.value_row())),
        weights: tile::<F>(comptime!(QUERIES * Spec::weight_row())),
        staged: Shared::<[f32]>::new_aligned_slice(comptime!(QUERIES * KEYS), ALIGNMENT),
        factors: Shared::<[f32]>::new_slice(QUERIES),
        odd: Shared::<[Atomic<u32>]>::new_slice(1usize),
    }
}

#[cube]
fn tile<F: Float>(#[comptime] vectors: usize) -> Shared<[Vector<F, Const<4>>]> {
    Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(vectors, ALIGNMENT)
}

/// Loads `held` keys and their values, from key `key` on.
#[cube]
pub(super) fn load_tile<F: Float>(
    k: &[Vector<F, Const<4>>],
    v: &[Vector<F, Const<4>>],
    tiles: &mut Tiles<F>,
    block: &Block,
    layout: &Layout,
    key: usize,
    held: usize,
    #[comptime] spec: Spec,
) {
    let (rows, units) = comptime!((KEYS, spec.units()));
    let (from, step) = (block.keys + key * layout.k.row, layout.k.row);
    let size = comptime!(Size {
        rows,
        width: spec.form.vectors,
        units
    });
    load::<F>(
        k,
        &mut tiles.keys,
        &tiles.odd,
        from,
        step,
        held,
        size,
        false,
    );
    let (from, step) = (block.values + key * layout.v.row, layout.v.row);
    let size = comptime!(Size {
        rows,
        width: spec.form.value_vectors,
        units
    });
    load::<F>(
        v,
        &mut tiles.values,
        &tiles.odd,
        from,
        step,
        held,
        size,
        true,
    );
}

/// The rows of a tile, the vectors of a row, and the units that load them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) units: usize,
}

/// Copies `held` rows of vectors to a tile, and fills its other rows with zeros; if `watched`, `odd` reports infinite and NaN
/// numbers.
#[cube]
pub(super) fn load<F: Float>(
    from: &[Vector<F, Const<4>>],
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    odd: &Shared<[Atomic<u32>]>,
    first: usize,
    step: usize,
    held: usize,
    #[comptime] size: Size,
    #[comptime] watched: bool,
) {
    let (count, width, units) = comptime!((size.rows, size.width, size.units));
    let unit = (UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    for i in range_stepped(unit, comptime!(count * width), units) {
        let (row, d) = (i / width, i % width);
        let mut vector = Vector::<F, Const<4>>::new(F::new(0.0));
        if row < held {
            vector = from[first + row * step + d];
            if comptime!(watched) {
                let number = Vector::<f32, Const<4>>::cast_from(vector);
                // Compares bits, because the compiler turns any number times 0 into 0.
                let bits = Vector::<u32, Const<4>>::reinterpret(number);
                let exponents = bits & Vector::new(0x7f80_0000u32);
                #[unroll]
                for lane in 0..4usize {
                    if exponents.extract(lane) == 0x7f80_0000u32 {
                        odd[0].store(1u32);
                    }
                }
            }
        }
        tile[row * comptime!(width + PADDING) + d] = vector;
    }
}
