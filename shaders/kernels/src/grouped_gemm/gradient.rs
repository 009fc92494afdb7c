//! The gradients of a product per expert: dx_r = W_eᵀ · dy_r, dW_e = Σ_r dy_r ⊗ x_r, db_e = Σ_r dy_r. Codes of W are decoded while they are
//! loaded, as the forward does.
//!
//! The shapes are dy \[R,n\], x \[R,k\], W \[E,n,k\] and b \[E,n\]. [`crate::grouped_gemm`] describes shapes, sums and
//! guarantees; a dense problem is an ordinary linear layer without a sort.

use crate::grouped_gemm::{self, Operands, Segments, Variant, bias_gradient, weight_gradient};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::grouped_gemm::{bias_gradient as sum, weight_gradient as outer};

/// The gradients of a product, planned for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    rows: grouped_gemm::Plan,
    /// Absent if W has no gradient, because its values aren't stored, or not all of them.
    w: Option<weight_gradient::Plan>,
    bias: bias_gradient::Plan,
}

/// Plans the gradients of `problem` over the tiles of `variant`.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what a kernel needs and the device lacks.
pub fn plan(problem: Problem, variant: Variant, device: &Capability) -> Result<Plan, PlanError> {
    let has_gradient = problem.stored == Stored::Values;
    let of_w = || weight_gradient::plan_beside(outer::Problem::of(&problem), device, variant);
    Ok(Plan {
        rows: grouped_gemm::plan_over_tiles(problem.turned(), device, variant)?,
        w: has_gradient.then(of_w).transpose()?,
        bias: bias_gradient::plan(sum::Problem::of(&problem), device)?,
    })
}

buffers! {
    /// Buffers of the gradients; an unwanted gradient has none.
    pub struct GradientBuffers {
        pub dy: Handle => "[R,n]" read,
        /// x \[R,k\], read for the gradient of W; absent if W has none.
        pub rows: Option<Handle>,
        pub w: Handle = "W" | "codes" => "[E,n,k]" read: "those of it that are kept, or panels of codes",
        /// The places of kept weights or the scales of codes, read; absent if all weights are stored as values.
        pub places: Option<Handle> = "places" | "scales",
        /// The segments of the experts, read; absent in a dense layer.
        pub segments: Option<Segments> = "offsets",
        pub drows: Option<Handle> = "drows" | "dx" => "[R,k]" written,
        pub dw: Option<Handle> = "dW" => "[E,n,k] f32" written,
        pub dbias: Option<Handle> = "db" => "[E,n] f32" written,
    }
}

/// Enqueues the gradients that have a buffer.
pub fn launch(client: &Client, plan: &Plan, buffers: GradientBuffers) {
    let segments = buffers.segments;
    if let Some(out) = buffers.drows {
        let operands = Operands {
            x: buffers.dy.clone(),
            segments: segments.clone(),
            weights: buffers.w,
            scales_or_places: buffers.places,
            bias: None,
            out,
        };
        grouped_gemm::launch(client, &plan.rows, operands);
    }
    if let (Some(out), Some(w), Some(rows)) = (buffers.dw, &plan.w, buffers.rows) {
        let operands = weight_gradient::Operands {
            a: buffers.dy.clone(),
            b: rows,
            segments: segments.clone(),
            out,
        };
        weight_gradient::launch(client, w, operands);
    }
    if let Some(out) = buffers.dbias {
        let operands = bias_gradient::Operands {
            rows: buffers.dy,
            segments,
            weights: None,
            out,
        };
        bias_gradient::launch(client, &plan.bias, operands);
    }
}
