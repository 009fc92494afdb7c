//! Kernels of feed-forward experts.

use super::StageClock;
use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::moe::Problem;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{Choice, Segments, Variant};
use moebius_shaders::moe::{self, training};
use std::sync::Arc;

/// Over the tiles of `variant`; `records` asks for the gradients, too.
pub(super) fn experts(
    problem: Problem,
    variant: Variant,
    (records, clock): (bool, Option<StageClock>),
    device: &Capability,
) -> Result<Kernels, PlanError> {
    let choice = Choice {
        variant: Some(variant),
        allow_unproven: true,
    };
    let plan = moe::plan(problem, device, choice)?;
    let training = || moe::plan_training(problem, variant, device).map(Arc::new);
    let training = records.then(training).transpose()?;
    let gradients = training.clone();
    let kernels = Kernels::new(move |client, b| {
        let done = &mut marker(&clock, client);
        let buffers = buffers(b, "y");
        match training.as_ref().zip(b.maybe("pre")) {
            Some((training, pre)) => {
                training::launch_keeping(client, (&plan, training), buffers, pre, done);
            }
            None => moe::launch(client, &plan, buffers, done),
        }
    });
    Ok(match gradients {
        None => kernels,
        Some(plan) => kernels.with_backward(move |client, b| {
            let weights = b.maybe("dw_in").map(|w_in| training::WeightGradients {
                w_in,
                w_out: b.get("dw_out"),
                b_in: b.maybe("db_in"),
                b_out: b.maybe("db_out"),
            });
            let out = training::Gradients {
                x: b.maybe("dx"),
                weights: b.get("dweights"),
                experts: weights,
            };
            training::launch_backward(client, &plan, buffers(b, "dy"), b.maybe("pre"), out);
        }),
    })
}

/// What both directions read; `y` is written or, as its gradient, read.
fn buffers(b: &Buffers, y: &str) -> moe::Buffers {
    moe::Buffers {
        x: b.get("x"),
        weights: b.get("weights"),
        segments: Segments {
            order: b.get("order"),
            offsets: b.get("offsets"),
            tiles: b.get("tiles"),
        },
        positions: b.get("positions"),
        experts: moe::Weights {
            w_in: b.get("w_in"),
            b_in: b.maybe("b_in"),
            w_out: b.get("w_out"),
            b_out: b.maybe("b_out"),
        },
        y: b.get(y),
    }
}

/// Notes the end of every stage; the device is waited for.
fn marker<'a>(clock: &'a Option<StageClock>, client: &'a Client) -> impl FnMut(moe::Stage) + 'a {
    move |stage| {
        if let Some(clock) = clock {
            // A device error shows at the caller's next read; the clock only needs the wait.
            let _ = cubecl::future::block_on(client.sync());
            clock.mark(stage);
        }
    }
}
