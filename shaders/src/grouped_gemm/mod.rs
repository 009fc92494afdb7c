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
//!
//! FLOPs 2·R·n·k, twice that gated. Bytes at least (R·k + E·n·k + R·n) elements.
//!
//! The gradients of W and b are sums over the rows of an expert: [`weight_gradient`],
//! [`bias_gradient`].

pub(crate) mod activation;
pub mod bias_gradient;
mod cpu;
#[cfg(feature = "emit")]
mod entries;
mod naive;
mod plan;
mod tensor_core;
mod tile;
pub mod weight_gradient;

pub use activation::Activation;
#[cfg(feature = "emit")]
pub(crate) use entries::entries;
pub use plan::{Choice, Plan, Slab, Variant, plan};
pub use tile::TileShape;

use crate::element::Element;
use crate::error::ShapeError;
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
}

impl Problem {
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
        })
    }

    /// Weight matrices per expert: 2 when gated.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// Bytes of one expert's weights.
    pub fn expert_bytes(&self) -> usize {
        self.n * self.parts() * self.k * self.element.bytes()
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

/// Buffers of one grouped GEMM.
#[derive(Clone)]
pub struct Operands {
    /// \[T,k\] or \[R,k\], read.
    pub x: Handle,
    /// \[S\] u32, read: slots sorted by expert.
    pub order: Handle,
    /// \[E+1\] u32, read.
    pub offsets: Handle,
    /// Tiles of the sort, read.
    pub tiles: Handle,
    /// \[E, n or 2n, k\] or \[E, k, n\], read.
    pub weights: Handle,
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
        match plan.variant {
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
    /// Experts whose weights are bound: first, and one past the last.
    slab_first: usize,
    slab_last: usize,
}

fn sizes(plan: &Plan, slab: &Slab) -> SizesLaunch {
    let p = &plan.problem;
    SizesLaunch::new(p.n, p.k, p.top_k, slab.first as usize, slab.last as usize)
}

#[cfg(feature = "emit")]
fn sizes_argument() -> SizesCompilationArg {
    SizesCompilationArg {
        n: (),
        k: (),
        top_k: (),
        slab_first: (),
        slab_last: (),
    }
}

#[cfg(feature = "emit")]
fn bias_argument<B: CubePrimitive>(
    problem: &Problem,
) -> ComptimeOptionCompilationArg<&'static [B]> {
    if problem.bias {
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

/// The row of a buffer that sorted row `sorted` reads.
#[cube]
fn source_row(order: &[u32], sorted: usize, top_k: usize, #[comptime] source: Source) -> usize {
    match comptime!(source) {
        Source::Tokens => order[sorted] as usize / top_k,
        Source::Sorted => sorted,
    }
}

/// The buffer arguments every variant binds, in binding order.
struct Bindings {
    x: BufferArg,
    order: BufferArg,
    offsets: BufferArg,
    tiles: BufferArg,
    weights: BufferArg,
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
        let slab_experts = (slab.last - slab.first) as usize;
        let before = slab.first as usize * p.expert_bytes();
        let after = (p.experts - slab.last as usize) * p.expert_bytes();
        let weights = operands
            .weights
            .offset_start(before as u64)
            .offset_end(after as u64);
        // SAFETY: lengths follow from the problem's shapes, which the caller vouches for.
        unsafe {
            Self {
                x: BufferArg::from_raw_parts(operands.x, p.input_rows() * p.k / x_lanes),
                order: BufferArg::from_raw_parts(operands.order, p.slots),
                offsets: BufferArg::from_raw_parts(operands.offsets, p.experts + 1),
                tiles: BufferArg::from_raw_parts(operands.tiles, 2 * plan.max_tiles()),
                weights: BufferArg::from_raw_parts(weights, slab_experts * columns * p.k / w_lanes),
                bias: operands
                    .bias
                    .map(|bias| BufferArg::from_raw_parts(bias, p.experts * columns)),
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
