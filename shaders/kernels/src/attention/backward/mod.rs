//! The backward pass of attention: gradients of queries, keys, values and tables, summed in ascending order without atomics.
//!
//! | file | contents |
//! |---|---|
//! | `unit.rs` | the contribution of one pair; dq, dk and dv of the `unit` variant (`cpu/backward.rs` has the `cpu` variant) |
//! | `tables.rs` | gradients of tables |

mod tables;
mod unit;

use super::operands::{Backward, BackwardBuffers, Through, gather_tables};
use super::score_rule::{LaunchRule, NoRule};
use super::{Plan, Variant, cpu};
use crate::prelude::*;
use crate::segment_attention::head::{dot, load_head};
use cubecl::prelude::*;

/// Computes statistics\[row\] = (lse, Δ) of every query row: Δ = ⟨do, o⟩, or −dlse for a gradient through the log-sum-exp.
#[cube(launch_unchecked)]
fn attention_statistics<F: Float, N: Size>(
    o: ComptimeOption<&[Vector<F, N>]>,
    d_o: ComptimeOption<&[Vector<F, N>]>,
    lse: &[f32],
    d_lse: ComptimeOption<&[f32]>,
    statistics: &mut [f32],
    #[comptime] vectors: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < lse.len() {
        let at = ABSOLUTE_POS * vectors;
        let mut delta = 0.0f32;
        #[comptime]
        if let ComptimeOption::Some(d_lse) = d_lse {
            delta -= d_lse[ABSOLUTE_POS];
        }
        #[comptime]
        if let ComptimeOption::Some(o) = o {
            #[comptime]
            if let ComptimeOption::Some(d_o) = d_o {
                let head = load_head::<F, N>(o, at, 1.0f32, vectors);
                delta += dot::<F, N>(&head, d_o, at, vectors);
            }
        }
        statistics[2 * ABSOLUTE_POS] = lse[ABSOLUTE_POS];
        statistics[2 * ABSOLUTE_POS + 1] = delta;
    }
}

/// Enqueues the backward pass: at most four launches, one more per gradient of a table, and one per table if there are several.
///
/// # Panics
/// If the table of a rule is missing.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: BackwardBuffers) {
    launch_by(client, plan, &buffers, &NoRule);
}

/// Enqueues [`launch_backward`] with `rule` after the problem's rules.
///
/// # Panics
/// Like [`launch_backward`], and unless the plan is of an operation with such a rule.
pub(crate) fn launch_backward_ruled<R: LaunchRule>(
    client: &Client,
    plan: &Plan,
    buffers: BackwardBuffers,
    rule: &R,
) {
    assert!(plan.ruled, "expected a plan with a rule");
    launch_by(client, plan, &buffers, rule);
}

fn launch_by<R: LaunchRule>(client: &Client, plan: &Plan, buffers: &BackwardBuffers, rule: &R) {
    let p = &plan.problem;
    let backward = Backward {
        client,
        plan,
        buffers,
        tables: gather_tables(client, &plan.problem, plan.table_grid, &buffers.tables),
        statistics: client.empty(p.query_rows().max(1) * 8),
        rule,
    };
    if p.query_rows() > 0 {
        launch_statistics(&backward);
    }
    match plan.variant {
        Variant::Cpu if BROWSER => not_in_a_browser(),
        Variant::Cpu if p.query_rows() > 0 => cpu::launch_backward(&backward),
        _ => unit::launch(&backward),
    }
    tables::launch(&backward);
}

fn launch_statistics<R>(backward: &Backward<'_, R>) {
    let (plan, buffers) = (backward.plan, backward.buffers);
    let p = &plan.problem;
    let (o, d_o, d_lse) = match &buffers.through {
        Through::Output { o, d_o, .. } => (Some(o), Some(d_o), None),
        Through::LogSumExp { d_lse } => (None, None, Some(d_lse)),
    };
    let bound = |buffer: Option<&Handle>| buffer.cloned().map(bind);
    launched::note(|| {
        let of = launched::suffix(backward.through_lse(), "_of_lse");
        format!("attention_statistics{of}_unit_{}", p.element())
    });
    // SAFETY: the buffers are as long as they are described; units past the last query return.
    unsafe {
        attention_statistics::launch_unchecked(
            backward.client,
            plan.per_query.count(),
            plan.per_query.dim(),
            plan.lanes,
            bound(o).into(),
            bound(d_o).into(),
            bind(buffers.lse.clone()),
            bound(d_lse).into(),
            backward.statistics(),
            plan.form().value_vectors,
            p.element().elem_type(),
        );
    }
}
