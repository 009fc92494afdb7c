//! Matrix instructions as the kernels of products use them: square fragments whose edge depends on the device.
//!
//! A cube takes 64 rows × 64 columns of the result. Each of its planes owns the rows of one fragment and all columns, so one
//! fragment of the left operand serves all products of a plane. Sums are stored through workgroup memory, one fragment at a time,
//! because the target doesn't tell where a fragment keeps its elements.

use crate::prelude::*;
use crate::rounds::looped;
use cubecl::cmma;
use cubecl::prelude::*;
use moebius_ops::Element;

/// Rows and columns of a cube's tile.
pub(super) const TILE: usize = 64;

/// The alignment in bytes that CUDA's fragment loads and stores require.
pub(super) const ALIGNMENT: usize = 32;

/// The edges of fragments that the kernels support, in order of preference; tensor devices have the first.
const EDGES: [usize; 2] = [16, 8];

/// A device's fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fragments {
    /// Rows, columns and inner columns of a fragment.
    pub(super) edge: usize,
    /// Units per plane.
    pub(super) plane: usize,
}

impl Fragments {
    /// The fragments of `device` for elements of type `element` with sums in f32.
    pub(super) fn of(
        element: Element,
        kernel: &'static str,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let input = element.to_string();
        let has = |edge: usize| {
            let edge = edge as u32;
            device.has_mma((edge, edge, edge), &input, "f32")
        };
        let edge = EDGES.into_iter().find(|edge| has(*edge));
        // The number of units of a plane must be known at compile time.
        let plane = device.subgroup.filter(|(smallest, largest)| {
            smallest == largest || device.runtime != moebius_device::Runtime::Vulkan
        });
        if let (Some(edge), Some((plane, _)), true) = (edge, plane, element != Element::F32) {
            let plane = plane as usize;
            return Ok(Self { edge, plane });
        }
        let needs = format!(
            "matrix instructions of 16 x 16 x 16 or 8 x 8 x 8 in {input} for the tensor_core variant"
        );
        let have = format!("{} without them", device.name);
        Err(Unsupported::new(kernel, needs, have))
    }

    /// The number of planes of a cube.
    pub(super) const fn planes(self) -> usize {
        TILE / self.edge
    }

    /// The number of units of a cube.
    pub(super) const fn units(self) -> usize {
        self.planes() * self.plane
    }

    /// Rounds of the loop in which a plane's units store a fragment from workgroup memory.
    pub(super) const fn store_rounds(self) -> usize {
        looped((self.edge * self.edge).div_ceil(self.plane), 0)
    }

    /// The number of elements that all planes store at a time, with `parts` fragments each.
    pub(super) const fn staged(self, parts: usize) -> usize {
        self.planes() * self.edge * self.edge * parts
    }
}

/// The layout of an operand in workgroup memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lines {
    /// A line for each row (or column) of the result.
    Outer,
    /// A line for each inner column.
    Inner,
}

impl Lines {
    /// The stride of lines, in vectors of four, of a tile of `lines` rows or columns of the result: a padding of eight elements
    /// spreads the lines over the banks and keeps fragments 32-byte aligned.
    pub(super) const fn stride(self, fragments: Fragments, lines: usize) -> usize {
        let elements = match self {
            Self::Outer => fragments.edge,
            Self::Inner => lines,
        };
        elements / 4 + 2
    }

    /// The number of vectors of a tile of `lines` rows or columns of the result.
    pub(super) const fn vectors(self, fragments: Fragments, lines: usize) -> usize {
        let stride = self.stride(fragments, lines);
        match self {
            Self::Outer => lines * stride,
            Self::Inner => fragments.edge * stride,
        }
    }
}

/// Zeroed fragments for this plane's sums, one per `edge` of `columns`.
#[cube]
pub(super) fn zero_sums(
    #[comptime] columns: usize,
    #[comptime] fragments: Fragments,
) -> Sequence<cmma::Matrix<f32>> {
    let edge = comptime!(fragments.edge);
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(columns / edge) {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            edge,
            edge,
            edge,
            cmma::MatrixLayout::Undefined,
            0.0,
        ));
    }
    sums
}

/// Fragment `index` of a tile of `columns` rows or columns of the result.
#[cube]
fn fragment<F: Float>(
    tile: &Shared<[Vector<F, Const<4>>]>,
    index: usize,
    #[comptime] ident: cmma::MatrixIdent,
    #[comptime] lines: Lines,
    #[comptime] columns: usize,
    #[comptime] fragments: Fragments,
) -> cmma::Matrix<Vector<F, Const<4>>> {
    let edge = comptime!(fragments.edge);
    let stride = comptime!(lines.stride(fragments, columns));
    let len = comptime!(lines.vectors(fragments, columns));
    let at = match comptime!(lines) {
        Lines::Outer => index * comptime!(edge * stride),
        Lines::Inner => index * comptime!(edge / 4),
    };
    // A is read along its rows, B along its columns.
    let along = comptime!(
        match (ident == cmma::MatrixIdent::A, lines == Lines::Outer) {
            (true, true) | (false, false) => cmma::MatrixLayout::RowMajor,
            _ => cmma::MatrixLayout::ColMajor,
        }
    );
    cmma::Matrix::<Vector<F, Const<4>>>::from_slice(
        ident,
        edge,
        edge,
        edge,
        along,
        &tile[at..len],
        comptime!(4 * stride as u32),
    )
}

/// Multiplies one step of inner columns into all sums of this plane.
#[cube]
pub(super) fn multiply<F: Float>(
    left: &Shared<[Vector<F, Const<4>>]>,
    right: &Shared<[Vector<F, Const<4>>]>,
    sums: &Sequence<cmma::Matrix<f32>>,
    #[comptime] lines: [Lines; 2],
    #[comptime] columns: usize,
    #[comptime] fragments: Fragments,
) {
    let (down, across) = comptime!((lines[0], lines[1]));
    let plane = UNIT_POS_Y as usize;
    let a = fragment::<F>(left, plane, cmma::MatrixIdent::A, down, TILE, fragments);
    #[unroll]
    for j in 0..comptime!(columns / fragments.edge) {
        let b = fragment::<F>(right, j, cmma::MatrixIdent::B, across, columns, fragments);
        cmma::execute(&a, &b, &sums[j], &sums[j]);
    }
}

/// Writes `sum`, part `part` of `parts`, to this plane's section of workgroup memory.
#[cube]
pub(super) fn stage(
    staged: &mut Shared<[f32]>,
    sum: &cmma::Matrix<f32>,
    #[comptime] part: usize,
    #[comptime] parts: usize,
    #[comptime] fragments: Fragments,
) {
    let area = comptime!(fragments.edge * fragments.edge);
    let at = UNIT_POS_Y as usize * comptime!(area * parts) + comptime!(area * part);
    cmma::store(
        &mut staged[at..comptime!(fragments.staged(parts))],
        sum,
        comptime!(fragments.edge as u32),
        cmma::MatrixLayout::RowMajor,
    );
}
