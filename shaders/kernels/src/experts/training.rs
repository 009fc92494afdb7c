//! The forward that keeps the operands of a backward pass, and the backward pass.
//!
//! With dy \[T,H\] the gradient of y, h = act(pre) and a row r of slot s = (t,k) of expert e:
//!
//! | step | formula | module |
//! |---|---|---|
//! | pre, unless the forward kept it | W_in · x_t + b_in | [`grouped_gemm`] |
//! | hidden gradient, unweighted | g_r = W_outᵀ · dy_t | [`grouped_gemm`], [`WeightLayout::InOut`] |
//! | activation | dpre_r = w_s · g_r ∘ act'(pre_r), dw_s = ⟨g_r, h_r⟩ + ⟨dy_t, b_out⟩ | [`expert_activation`] |
//! | dW_out | Σ_r dy_t ⊗ (w_s · h_r) | [`weight_gradient`] |
//! | dW_in | Σ_r dpre_r ⊗ x_t | [`weight_gradient`] |
//! | db_out, db_in | Σ_r w_s · dy_t, Σ_r dpre_r | [`bias_gradient`] |
//! | dx | Σ_k W_inᵀ · dpre_(t,k) | [`grouped_gemm`], [`permute::combine`] |
//!
//! In a dense network w_s is 1 and has no gradient, and dx is dpre · W_in.
//!
//! The backward pass doesn't need the experts' outputs: ⟨dy, W h⟩ = ⟨Wᵀ dy, h⟩. Sums run in a fixed order, so that
//! gradients repeat bit for bit. FLOPs: twice the forward's, and half of the forward's once more (two thirds
//! when gated) to compute pre again. Beside the gradients a pass holds rows of 2F + H elements (3F + H
//! gated), and pre where it was kept.

use super::{Buffers, Plan, Problem, Slots, Stage, launch_down, launch_product};
use crate::expert_activation::{self, output_bias};
use crate::grouped_gemm::{self, Variant, bias_gradient, weight_gradient};
use crate::permute::{self, RowsPlan, combine};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::Mismatch;
use moebius_ops::expert_activation::{self as activation, output_bias as output};
use moebius_ops::grouped_gemm::{self as product, WeightLayout};
use moebius_ops::grouped_gemm::{bias_gradient as sum, weight_gradient as outer};

/// Plans of the bias gradients and of the output bias's share of dweights.
#[derive(Clone, Debug, PartialEq)]
struct BiasPlans {
    dots: output_bias::Plan,
    b_in: bias_gradient::Plan,
    b_out: bias_gradient::Plan,
}

/// A backward pass, planned for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPlan {
    problem: Problem,
    pre: grouped_gemm::Plan,
    activation: expert_activation::Plan,
    dhidden: grouped_gemm::Plan,
    dw_in: weight_gradient::Plan,
    dw_out: weight_gradient::Plan,
    drows: grouped_gemm::Plan,
    combine: RowsPlan,
    biases: Option<BiasPlans>,
}

/// Plans a backward pass over the tiles of `variant`.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what a kernel needs and the device lacks.
pub fn plan_training(
    problem: Problem,
    variant: Variant,
    device: &Capability,
) -> Result<TrainingPlan, PlanError> {
    let p = &problem;
    let gemm = |problem| grouped_gemm::plan_over_tiles(problem, device, variant);
    let gradient = |problem| weight_gradient::plan_beside(problem, device, variant);
    let (up, down) = products(p)?;
    let biases = p.bias.then(|| bias_plans(p, device)).transpose()?;
    let activation = activation::Problem::new(up.slots, up.experts, p.inter)?
        .with_row_bound(p.row_bound)?
        .with_element(p.element)
        .with_activation(Some(p.activation), p.gated);
    Ok(TrainingPlan {
        problem,
        // Gate and up columns side by side.
        pre: gemm(product::Problem {
            rows: p.token_rows(),
            bias: p.bias,
            ..up
        })?,
        activation: expert_activation::plan(activation, device)?,
        dhidden: gemm(product::Problem {
            rows: p.token_rows(),
            layout: WeightLayout::InOut,
            ..p.product(p.inter, p.hidden)?
        })?,
        dw_in: gradient(outer::Problem {
            b: p.token_rows(),
            ..outer::Problem::of(&up)
        })?,
        dw_out: gradient(outer::Problem {
            a: p.token_rows(),
            ..outer::Problem::of(&down)
        })?,
        drows: gemm(product::Problem {
            layout: WeightLayout::InOut,
            ..p.product(p.hidden, p.columns_in())?
        })?,
        combine: permute::plan_rows(p.output_rows()?, device)?,
        biases,
    })
}

/// Both products of sorted rows, without the activation.
fn products(p: &Problem) -> Result<(product::Problem, product::Problem), Mismatch> {
    let up = p.product(p.columns_in(), p.hidden)?;
    Ok((up, p.product(p.hidden, p.inter)?))
}

fn bias_plans(p: &Problem, device: &Capability) -> Result<BiasPlans, PlanError> {
    let (up, down) = products(p)?;
    let b_out = sum::Problem {
        rows: p.token_rows(),
        weighted: !p.dense,
        ..sum::Problem::of(&down)
    };
    let dots = output::Problem::new(up.slots, up.experts, up.top_k, p.hidden)?;
    Ok(BiasPlans {
        dots: output_bias::plan(dots.with_element(p.element), device)?,
        b_in: bias_gradient::plan(sum::Problem::of(&up), device)?,
        b_out: bias_gradient::plan(b_out, device)?,
    })
}

/// Enqueues the first product of every row, before its activation, into `out` \[R, F or 2F\].
fn launch_pre(client: &Client, plan: &TrainingPlan, buffers: &Buffers, out: &Handle) {
    let tensors = [&buffers.x, &buffers.experts.w_in, out];
    launch_product(client, &plan.pre, buffers, tensors, &buffers.experts.b_in);
}

/// Enqueues the forward like [`super::launch`] and also writes `pre` \[R, F or 2F\] for the backward pass.
pub fn launch_keeping(
    client: &Client,
    plan: &Plan,
    training: &TrainingPlan,
    buffers: Buffers,
    pre: Handle,
    done: &mut dyn FnMut(Stage),
) {
    let problem = &plan.problem;
    if problem.routing.slots() == 0 {
        return;
    }
    launch_pre(client, training, &buffers, &pre);
    let hidden = client.empty(problem.row_bound * problem.inter * problem.element.bytes());
    let activated = expert_activation::ForwardBuffers {
        pre,
        offsets: buffers.segments().map(|segments| segments.offsets),
        hidden: hidden.clone(),
    };
    expert_activation::launch(client, &training.activation, activated);
    done(Stage::Gemm1);
    launch_down(client, plan, buffers, hidden, done);
}

buffers! {
    /// Gradients of the experts' weights, all f32.
    pub struct WeightGradients {
        pub w_in: Handle = "dw_in" => "[E, F or 2F, H]" written,
        pub w_out: Handle = "dw_out" => "[E,H,F]" written,
        pub b_in: Option<Handle> = "db_in" => "[E, F or 2F]" written,
        pub b_out: Option<Handle> = "db_out" => "[E,H]" written,
    }
}

buffers! {
    /// Buffers of the gradients that a backward pass writes.
    pub struct Gradients {
        pub x: Option<Handle> = "dx" => "[T,H] of the element type" written: "where it is wanted",
        pub weights: Option<Handle> = "dweights" => "[T,K] f32" written: "of the router weights; absent in a dense network",
        /// The gradients of the experts' weights; absent when the experts are frozen.
        pub experts: Option<WeightGradients> = "dw_in",
    }
}

/// Enqueues a backward pass; `buffers.y` holds dy, and `pre` is the result of a forward that kept it.
pub fn launch_backward(
    client: &Client,
    plan: &TrainingPlan,
    buffers: Buffers,
    pre: Option<Handle>,
    gradients: Gradients,
) {
    let problem = &plan.problem;
    if problem.routing.slots() == 0 {
        return;
    }
    let rows = |width: usize| client.empty(problem.row_bound * width * problem.element.bytes());
    let pre = pre.unwrap_or_else(|| {
        let pre = rows(problem.columns_in());
        launch_pre(client, plan, &buffers, &pre);
        pre
    });
    // The gradient of the hidden rows without weights; the activation's backward pass overwrites it with w · h.
    let hidden = rows(problem.inter);
    let tensors = [&buffers.y, &buffers.experts.w_out, &hidden];
    launch_product(client, &plan.dhidden, &buffers, tensors, &None);
    let dpre = rows(problem.columns_in());
    let through = [&pre, &hidden, &dpre];
    match (&buffers.slots, gradients.weights) {
        (Some(slots), Some(dweights)) => {
            launch_weighted(client, plan, &buffers, slots, through, dweights);
        }
        _ => launch_unweighted(client, plan, through, gradients.experts.is_some()),
    }
    if let Some(dx) = gradients.x {
        launch_dx(client, plan, &buffers, dpre.clone(), dx);
    }
    if let Some(experts) = gradients.experts {
        launch_weights(client, plan, &buffers, &hidden, &dpre, experts);
    }
}

/// Enqueues the activation's backward pass, and the output bias's share of dweights.
fn launch_weighted(
    client: &Client,
    plan: &TrainingPlan,
    buffers: &Buffers,
    slots: &Slots,
    [pre, hidden, dpre]: [&Handle; 3],
    dweights: Handle,
) {
    let sorted = &slots.segments;
    let activation = expert_activation::BackwardBuffers {
        pre: pre.clone(),
        dhidden: hidden.clone(),
        order: sorted.order.clone(),
        offsets: sorted.offsets.clone(),
        weights: slots.weights.clone(),
        dpre: dpre.clone(),
        dweights: dweights.clone(),
    };
    expert_activation::launch_backward(client, &plan.activation, activation);
    if let (Some(plans), Some(bias)) = (&plan.biases, buffers.experts.b_out.clone()) {
        let dots = output_bias::Buffers {
            dy: buffers.y.clone(),
            bias,
            order: sorted.order.clone(),
            offsets: sorted.offsets.clone(),
            dweights,
        };
        output_bias::launch(client, &plans.dots, dots);
    }
}

/// Enqueues the activation's backward pass of a dense network: dpre, then h in place of its gradient if the gradient of W_out is
/// wanted.
fn launch_unweighted(
    client: &Client,
    plan: &TrainingPlan,
    [pre, hidden, dpre]: [&Handle; 3],
    of_weights: bool,
) {
    let gradient = expert_activation::GradientBuffers {
        pre: pre.clone(),
        dhidden: hidden.clone(),
        offsets: None,
        dpre: dpre.clone(),
    };
    expert_activation::launch_gradient(client, &plan.activation, gradient);
    if !of_weights {
        return;
    }
    let forward = expert_activation::ForwardBuffers {
        pre: pre.clone(),
        offsets: None,
        hidden: hidden.clone(),
    };
    expert_activation::launch(client, &plan.activation, forward);
}

/// Enqueues the gradient of x: rows of dpre · W_in, and their sum for each token unless the network is dense.
fn launch_dx(client: &Client, plan: &TrainingPlan, buffers: &Buffers, dpre: Handle, dx: Handle) {
    let problem = &plan.problem;
    let bytes = problem.row_bound * problem.hidden * problem.element.bytes();
    let rows = match buffers.slots {
        Some(_) => client.empty(bytes),
        None => dx.clone(),
    };
    let tensors = [&dpre, &buffers.experts.w_in, &rows];
    launch_product(client, &plan.drows, buffers, tensors, &None);
    let Some(slots) = &buffers.slots else {
        return;
    };
    let combined = combine::CombineBuffers {
        positions: slots.positions.clone(),
        weights: None,
        rows,
        y: dx,
    };
    combine::launch(client, &plan.combine, combined);
}

/// Enqueues the gradients of weights and biases from w · h and dpre.
fn launch_weights(
    client: &Client,
    plan: &TrainingPlan,
    buffers: &Buffers,
    hidden: &Handle,
    dpre: &Handle,
    gradients: WeightGradients,
) {
    let segments = buffers.segments();
    let outer = |plan, a: &Handle, b: &Handle, out| {
        let operands = weight_gradient::Operands {
            a: a.clone(),
            b: b.clone(),
            segments: segments.clone(),
            out,
        };
        weight_gradient::launch(client, plan, operands);
    };
    outer(&plan.dw_out, &buffers.y, hidden, gradients.w_out);
    outer(&plan.dw_in, dpre, &buffers.x, gradients.w_in);
    let sum = |plan, rows: &Handle, weights, out| {
        let operands = bias_gradient::Operands {
            rows: rows.clone(),
            segments: segments.clone(),
            weights,
            out,
        };
        bias_gradient::launch(client, plan, operands);
    };
    if let (Some(plans), Some(b_in), Some(b_out)) = (&plan.biases, gradients.b_in, gradients.b_out)
    {
        sum(&plans.b_in, dpre, None, b_in);
        let weights = buffers.slots.as_ref().map(|slots| slots.weights.clone());
        sum(&plans.b_out, &buffers.y, weights, b_out);
    }
}
