//! Kernels of moved rows: what is gathered forward is summed backward, and the reverse.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::neighbours::Problem as Neighbours;
use moebius_shaders::Unsupported;
use moebius_shaders::permute::combine::{self, CombineBuffers};
use moebius_shaders::permute::dispatch::{self, DispatchBuffers};
use moebius_shaders::permute::neighbours::{self, NeighboursBuffers};
use moebius_shaders::permute::weights_gradient::{self, WeightsGradientBuffers};
use moebius_shaders::permute::{RowsPlan, plan_rows};

pub(super) fn gather(problem: RowsProblem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = plan_rows(problem, device)?;
    let kernels = Kernels::new(move |client, b| gathered(client, &plan, b));
    Ok(kernels.with_backward(move |client, b| combined(client, &plan, b)))
}

pub(super) fn combine(
    problem: RowsProblem,
    weighted: bool,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = plan_rows(problem, device)?;
    let kernels = Kernels::new(move |client, b| combined(client, &plan, b));
    Ok(kernels.with_backward(move |client, b| match weighted {
        true => gradients(client, &plan, b),
        false => gathered(client, &plan, b),
    }))
}

fn gathered(client: &Client, plan: &RowsPlan, b: &Buffers) {
    let buffers = DispatchBuffers {
        order: b.get("order"),
        offsets: b.get("offsets"),
        weights: None,
        x: b.get("x"),
        rows: b.get("rows"),
    };
    dispatch::launch(client, plan, buffers);
}

fn combined(client: &Client, plan: &RowsPlan, b: &Buffers) {
    let buffers = CombineBuffers {
        positions: b.get("positions"),
        weights: b.maybe("weights"),
        rows: b.get("rows"),
        y: b.get("y"),
    };
    combine::launch(client, plan, buffers);
}

fn gradients(client: &Client, plan: &RowsPlan, b: &Buffers) {
    let spread = DispatchBuffers {
        order: b.get("order"),
        offsets: b.get("offsets"),
        weights: Some(b.get("weights")),
        x: b.get("dy"),
        rows: b.get("drows"),
    };
    dispatch::launch(client, plan, spread);
    let dots = WeightsGradientBuffers {
        positions: b.get("positions"),
        dy: b.get("dy"),
        rows: b.get("rows"),
        dweights: b.get("dweights"),
    };
    weights_gradient::launch(client, plan, dots);
}

pub(super) fn neighbours(
    problem: Neighbours,
    element: Element,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = neighbours::plan(problem, element, device)?;
    let buffers = |b: &Buffers, narrow, wide| NeighboursBuffers {
        order: b.get("order"),
        offsets: b.get("offsets"),
        narrow: b.get(narrow),
        wide: b.get(wide),
    };
    let forward = move |client: &Client, b: &Buffers| {
        neighbours::launch(client, &plan, buffers(b, "x", "out"));
    };
    let backward = move |client: &Client, b: &Buffers| {
        neighbours::launch_backward(client, &plan, buffers(b, "dx", "dout"));
    };
    Ok(Kernels::new(forward).with_backward(backward))
}
