//! Grouped GEMM: every expert multiplies the rows routed to it by its own matrix.
//!
//! out\[r\] = act(x\[r\] · W_eᵀ + b_e) for the rows r of expert e; gated: act(x · Gᵀ + g) · (x · Uᵀ + u)
//! with both products in one pass over x. Rows are found through a sort of the slots
//! ([`crate::permute`]), so nothing need be copied into expert order: row r reads token row
//! `order[r] / K` ([`Source::Tokens`]) or sorted row r ([`Source::Sorted`]).
//!
//! Shapes: W \[E, n or 2n (gate rows, then up rows), k\], or \[E, k, n\] for x · W_e, the backward of
//! a product ([`WeightLayout`]); b \[E, n or 2n\]; x \[T,k\] or \[R,k\], out \[R,n\],
//! where R ≤ S is the most sorted rows any routing produces. f32, f16 or bf16 with f32
//! sums. Rows no slot is sorted to are left as they are.
//! Every variant but `TensorCore` sums over k in order with fused multiply-adds, so variants agree
//! to the last bit and an output doesn't depend on the other rows of the batch.
//! [`Problem::dense`] is the ordinary product: one matrix for all rows, and nothing is sorted.
//! Weights may be FP8 codes, decoded while they are loaded ([`fp8`]); the result is, to the last
//! bit, that of the decoded weights in f32.
//!
//! FLOPs 2·R·n·k, twice that gated. Bytes at least (R·k + E·n·k + R·n) elements.
//!
//! The gradients of W and b are sums over the rows of an expert: [`weight_gradient`],
//! [`bias_gradient`].

pub(crate) mod activation;
pub mod bias_gradient;
mod cpu;
mod cpu_fp8;
#[cfg(feature = "emit")]
mod entries;
pub mod fp8;
mod naive;
mod plan;
mod tensor_core;
mod tile;
pub mod weight_gradient;

pub use activation::Activation;
#[cfg(feature = "emit")]
pub(crate) use entries::entries;
pub use fp8::Fp8Weights;
pub use plan::{Choice, Plan, Slab, Variant, plan};
pub use tile::TileShape;

use crate::element::Element;
use crate::error::ShapeError;
use crate::launched;
use crate::permute::TILE_WORDS;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Which rows of a buffer belong to the slots of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// One row per token: slot s reads row s / K.
    Tokens,
    /// One row per sorted row.
    Sorted,
}

/// How the weights of an expert lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// \[n or 2n, k\]: out = x · Wᵀ.
    #[default]
    OutIn,
    /// \[k, n\]: out = x · W, as in the gradient of x. Not gated.
    InOut,
}

/// One grouped GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The most sorted rows R any routing produces, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Output columns.
    pub n: usize,
    /// Input columns.
    pub k: usize,
    /// Type of x, W, b and out.
    pub element: Element,
    /// Which rows of x are read.
    pub rows: Source,
    /// How W lies in memory.
    pub layout: WeightLayout,
    /// Two products, multiplied after the activation of the first.
    pub gated: bool,
    /// Applied before the store.
    pub activation: Option<Activation>,
    /// Whether there is a bias.
    pub bias: bool,
    /// One expert has all rows, in their order; there is no sort.
    pub dense: bool,
    /// The weights are FP8 codes; those of [`WeightLayout::OutIn`].
    pub fp8: Option<Fp8Weights>,
}

impl Problem {
    /// x \[`m`, `k`\] · W \[`n`, `k`\]ᵀ.
    ///
    /// # Errors
    /// [`ShapeError`] when n or k is 0 or an index would not fit 31 bits.
    pub fn dense(m: usize, n: usize, k: usize) -> Result<Self, ShapeError> {
        Ok(Self {
            rows: Source::Sorted,
            dense: true,
            ..Self::new(m, 1, 1, n, k)?
        })
    }

    /// A plain product of `slots` = T·`top_k` rows: \[.., `k`\] · \[`n`, `k`\]ᵀ per expert.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        n: usize,
        k: usize,
    ) -> Result<Self, ShapeError> {
        let sizes = [
            ("experts", experts),
            ("top_k", top_k),
            ("columns", n),
            ("inner columns", k),
        ];
        for (what, size) in sizes {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        if !slots.is_multiple_of(top_k) {
            return Err(ShapeError::new(
                "slots",
                format!("a multiple of top_k = {top_k}"),
                slots,
            ));
        }
        let fits = |sizes: &[usize]| {
            let product = sizes
                .iter()
                .try_fold(1usize, |product, size| product.checked_mul(*size));
            product.is_some_and(|product| product <= i32::MAX as usize)
        };
        let matrices = [&[slots, n][..], &[slots, k], &[experts, n, 2], &[n, k, 2]];
        if !matrices.into_iter().all(fits) {
            let got = format!("{slots} slots, {experts} experts, {n} x {k}");
            return Err(ShapeError::new(
                "grouped gemm",
                "matrices of at most 2^31 - 1 elements",
                got,
            ));
        }
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            top_k,
            n,
            k,
            element: Element::F32,
            rows: Source::Tokens,
            layout: WeightLayout::OutIn,
            gated: false,
            activation: None,
            bias: false,
            dense: false,
            fp8: None,
        })
    }

    /// What its kernel of `variant` is called, by all that changes its code but sizes.
    fn name(&self, variant: Variant) -> String {
        let family = if self.fp8.is_some() {
            "fp8_gemm"
        } else {
            "grouped_gemm"
        };
        let rows = match self.rows {
            _ if self.dense => "dense",
            Source::Tokens => "gather",
            Source::Sorted => "sorted",
        };
        let mut name = format!("{family}_{}_{}_{rows}", variant.name(), self.element);
        name += launched::suffix(self.layout == WeightLayout::InOut, "_in_out");
        name += launched::suffix(self.gated, "_gated");
        if let Some(activation) = self.activation {
            name += &format!("_{activation}");
        }
        name += launched::suffix(self.bias, "_bias");
        if let Some(codes) = self.fp8 {
            name += &format!("_{}_{}", codes.format.name(), codes.granularity.name());
        }
        name
    }

    /// Weight matrices per expert: 2 when gated.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// Elements of one expert's weights as they are bound, and the bytes of each.
    fn expert_elements(&self) -> (usize, usize) {
        match self.fp8 {
            Some(_) => (fp8::expert_words(self), 4),
            None => (self.n * self.parts() * self.k, self.element.bytes()),
        }
    }

    /// Bytes of one expert's weights, without their scales.
    pub fn expert_bytes(&self) -> usize {
        let (elements, bytes) = self.expert_elements();
        elements * bytes
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        2 * self.row_bound as u64 * (self.n * self.parts()) as u64 * self.k as u64
    }

    /// Rows of x.
    pub fn input_rows(&self) -> usize {
        match self.rows {
            Source::Tokens => self.slots / self.top_k,
            Source::Sorted => self.row_bound,
        }
    }
}

/// Which rows belong to which expert: the result of a sort.
#[derive(Clone)]
pub struct Segments {
    /// \[S\] u32: slots sorted by expert.
    pub order: Handle,
    /// \[E+1\] u32.
    pub offsets: Handle,
    /// Tiles of the sort.
    pub tiles: Handle,
}

/// Buffers of one grouped GEMM.
#[derive(Clone)]
pub struct Operands {
    /// \[T,k\] or \[R,k\], read.
    pub x: Handle,
    /// Read; absent in a dense product.
    pub segments: Option<Segments>,
    /// \[E, n or 2n, k\] or \[E, k, n\], or panels of codes ([`fp8`]), read.
    pub weights: Handle,
    /// Read; present when the weights are codes.
    pub scales: Option<Handle>,
    /// \[E, n or 2n\], read; present when the problem has a bias.
    pub bias: Option<Handle>,
    /// \[R,n\], written.
    pub out: Handle,
}

/// Enqueues the product: one launch, or one per slab of weights.
pub fn launch(client: &Client, plan: &Plan, operands: &Operands) {
    if plan.problem.row_bound == 0 {
        return;
    }
    for slab in &plan.slabs {
        launched::note(|| plan.problem.name(plan.variant));
        match plan.variant {
            Variant::Cpu if plan.problem.fp8.is_some() => {
                cpu_fp8::launch(client, plan, slab, operands);
            }
            Variant::Cpu => cpu::launch(client, plan, slab, operands),
            Variant::Unit | Variant::Gemv => tile::launch(client, plan, slab, operands),
            Variant::TensorCore => tensor_core::launch(client, plan, slab, operands),
            Variant::Naive => naive::launch(client, plan, slab, operands),
        }
    }
}

/// Sizes the variants that take a slab are told at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    n: usize,
    k: usize,
    top_k: usize,
    /// Rows of a dense product.
    rows: usize,
    /// Scales down and across an expert's matrix.
    scales_down: usize,
    scales_across: usize,
    /// Experts whose weights are bound: first, and one past the last.
    slab_first: usize,
    slab_last: usize,
}

fn sizes(plan: &Plan, slab: &Slab) -> SizesLaunch {
    let p = &plan.problem;
    let [down, across] = fp8::scale_shape(p);
    let (first, last) = (slab.first as usize, slab.last as usize);
    SizesLaunch::new(p.n, p.k, p.top_k, p.row_bound, down, across, first, last)
}

#[cfg(feature = "emit")]
fn sizes_argument() -> SizesCompilationArg {
    SizesCompilationArg {
        n: (),
        k: (),
        top_k: (),
        rows: (),
        scales_down: (),
        scales_across: (),
        slab_first: (),
        slab_last: (),
    }
}

/// A buffer that a problem may lack.
#[cfg(feature = "emit")]
pub(crate) fn optional<B: CubePrimitive>(
    present: bool,
) -> ComptimeOptionCompilationArg<&'static [B]> {
    if present {
        ComptimeOptionCompilationArg::Some(crate::emit::buffer())
    } else {
        ComptimeOptionCompilationArg::None
    }
}

/// One weight column's sum with its bias.
#[cube]
fn with_bias<F: Float>(bias: &ComptimeOption<&[F]>, sum: f32, row: usize) -> f32 {
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => sum + f32::cast_from(bias[row]),
        ComptimeOption::None => sum,
    }
}

/// The row of a buffer that sorted row `sorted` reads; the row itself in a dense product.
#[cube]
pub(crate) fn input_row(
    order: &ComptimeOption<&[u32]>,
    sorted: usize,
    top_k: usize,
    #[comptime] source: Source,
) -> usize {
    #[comptime]
    match order {
        ComptimeOption::Some(order) => match comptime!(source) {
            Source::Tokens => order[sorted] as usize / top_k,
            Source::Sorted => sorted,
        },
        ComptimeOption::None => sorted,
    }
}

/// The rows of `expert`: all `rows` of them in a dense product.
#[cube]
fn segment(offsets: &ComptimeOption<&[u32]>, expert: usize, rows: usize) -> (usize, usize) {
    #[comptime]
    match offsets {
        ComptimeOption::Some(offsets) => (offsets[expert] as usize, offsets[expert + 1] as usize),
        ComptimeOption::None => (0usize.runtime(), rows),
    }
}

/// Expert, first row and one past the last of tile `at`.
#[cube]
pub(crate) fn tile_at(
    tiles: &ComptimeOption<&[u32]>,
    at: usize,
    rows: usize,
    #[comptime] tile_rows: usize,
) -> (usize, usize, usize) {
    #[comptime]
    match tiles {
        ComptimeOption::Some(tiles) => {
            let first = at * TILE_WORDS;
            (
                tiles[first] as usize,
                tiles[first + 1] as usize,
                tiles[first + 2] as usize,
            )
        }
        ComptimeOption::None => {
            let first = at * tile_rows;
            (0usize.runtime(), first, min(first + tile_rows, rows))
        }
    }
}

/// The buffer arguments every variant binds, in binding order.
struct Bindings {
    x: BufferArg,
    order: Option<BufferArg>,
    offsets: Option<BufferArg>,
    tiles: Option<BufferArg>,
    weights: BufferArg,
    scales: Option<BufferArg>,
    bias: Option<BufferArg>,
    out: BufferArg,
}

impl Bindings {
    /// Binds `operands` with so many elements of x and of W to a vector, and the weights of `slab`.
    ///
    /// # Safety
    /// The operands must have the shapes of the plan's problem.
    unsafe fn new(plan: &Plan, slab: &Slab, operands: &Operands, lanes: [usize; 2]) -> Self {
        let p = &plan.problem;
        let [x_lanes, w_lanes] = lanes;
        let operands = operands.clone();
        let columns = p.n * p.parts();
        let slab_elements = (slab.last - slab.first) as usize * p.expert_elements().0;
        let before = slab.first as usize * p.expert_bytes();
        let after = (p.experts - slab.last as usize) * p.expert_bytes();
        let weights = operands
            .weights
            .offset_start(before as u64)
            .offset_end(after as u64);
        let segments = operands.segments;
        let segment = |of: fn(&Segments) -> &Handle| segments.as_ref().map(|s| of(s).clone());
        // SAFETY: lengths follow from the problem's shapes, which the caller vouches for.
        unsafe {
            let bind =
                |buffer: Option<Handle>, len| buffer.map(|b| BufferArg::from_raw_parts(b, len));
            Self {
                x: BufferArg::from_raw_parts(operands.x, p.input_rows() * p.k / x_lanes),
                order: bind(segment(|s| &s.order), p.slots),
                offsets: bind(segment(|s| &s.offsets), p.experts + 1),
                tiles: bind(segment(|s| &s.tiles), TILE_WORDS * plan.max_tiles()),
                weights: BufferArg::from_raw_parts(weights, slab_elements / w_lanes),
                scales: bind(operands.scales, fp8::scale_words(p)),
                bias: bind(operands.bias, p.experts * columns),
                out: BufferArg::from_raw_parts(operands.out, p.row_bound * p.n),
            }
        }
    }
}

/// The oracle: f64 throughout, rows that no slot is sorted to are 0.
///
/// `order` and `offsets` come from the sort; `x`, `weights` and `bias` are as in [`Operands`].
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    x: &[f64],
    weights: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f64> {
    let Problem { n, k, .. } = *problem;
    let columns = n * problem.parts();
    let mut out = vec![0.0; problem.row_bound * n];
    for e in 0..problem.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        for (sorted_row, slot) in rows.clone().zip(&sorted.order[rows]) {
            let slot = *slot as usize;
            let from = match problem.rows {
                Source::Tokens => slot / problem.top_k,
                Source::Sorted => sorted_row,
            };
            let weight = |column: usize, kk: usize| match problem.layout {
                WeightLayout::OutIn => weights[(e * columns + column) * k + kk],
                WeightLayout::InOut => weights[(e * k + kk) * columns + column],
            };
            let dot = |column: usize| -> f64 {
                let x = x[from * k..][..k].iter().enumerate();
                let products = x.map(|(kk, x)| x * f64::from(weight(column, kk)));
                products.sum::<f64>() + bias.map_or(0.0, |b| f64::from(b[e * columns + column]))
            };
            let act = |value: f64| problem.activation.map_or(value, |a| a.reference(value));
            for column in 0..n {
                let value = act(dot(column));
                let up = if problem.gated { dot(n + column) } else { 1.0 };
                out[sorted_row * n + column] = value * up;
            }
        }
    }
    out
}
