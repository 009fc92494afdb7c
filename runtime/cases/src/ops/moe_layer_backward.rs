//! `moe_layer_backward`: the gradients of Σ y ∘ dy, with the parameters of `moe_layer`.
//!
//! The inputs of `layer.rs` and `dy` [T,H] → `d_<input>` for every input of the layer, each
//! of its input's shape.

use burn::tensor::{Device, Gradients, Tensor};
use moebius::moe::MoeWeights;

use super::inputs::Inputs;
use super::layer::{Described, Experts};
use super::{OpError, Produced, download, upload};
use crate::case_file::CaseFile;

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let dy = inputs.required("dy")?;
    let described = Described::read(case, inputs)?;
    let extents = described.extents();
    dy.expect("[T,H]", &extents)?;
    let device = device.clone().autodiff();
    let layer = described.layer(&device)?;
    let x = described.x(&device)?.require_grad();
    let y = layer.forward(x.clone())?.y;
    // No graph leads from a sum over no tokens back to the weights.
    let tape = (extents[0] > 0)
        .then(|| dy.floats())
        .transpose()?
        .map(|dy| (y * upload(dy, extents, &device)).sum().backward());
    let name = "d_router";
    let leaves = layer.weights().ok_or(OpError::NoGradient { name })?;
    gradients(&described.experts, &x, &leaves, &Tape(tape)).await
}

/// What a backward pass left; nothing for an empty batch, whose gradients are zeros.
struct Tape(Option<Gradients>);

impl Tape {
    fn of<const D: usize>(
        &self,
        name: &'static str,
        leaf: &Tensor<D>,
    ) -> Result<Tensor<D>, OpError> {
        match &self.0 {
            None => Ok(Tensor::zeros(leaf.dims(), &leaf.device().inner())),
            Some(gradients) => leaf.grad(gradients).ok_or(OpError::NoGradient { name }),
        }
    }

    async fn read<const D: usize>(
        &self,
        name: &'static str,
        leaf: &Tensor<D>,
    ) -> Result<Produced, OpError> {
        download(name, self.of(name, leaf)?).await
    }
}

async fn gradients(
    experts: &Experts<'_>,
    x: &Tensor<2>,
    leaves: &MoeWeights,
    tape: &Tape,
) -> Result<Vec<Produced>, OpError> {
    let (w_in, w_out) = (&leaves.w_in, &leaves.w_out);
    let mut produced = vec![
        tape.read("d_x", x).await?,
        tape.read("d_router", &leaves.router).await?,
    ];
    match experts {
        Experts::Gated { .. } => {
            let stacked = tape.of("d_w_gate", w_in)?;
            let inter = w_out.dims()[2];
            produced.push(download("d_w_gate", stacked.clone().narrow(1, 0, inter)).await?);
            produced.push(download("d_w_up", stacked.narrow(1, inter, inter)).await?);
            produced.push(tape.read("d_w_down", w_out).await?);
        }
        Experts::Plain { b_in, b_out, .. } => {
            produced.push(tape.read("d_w_in", w_in).await?);
            produced.push(tape.read("d_w_out", w_out).await?);
            // A bias the layer has and the file hasn't is not an input.
            let biases = [
                ("d_b_in", b_in, &leaves.b_in),
                ("d_b_out", b_out, &leaves.b_out),
            ];
            for (name, input, bias) in biases {
                if let (Some(_), Some(bias)) = (input, bias) {
                    produced.push(tape.read(name, bias).await?);
                }
            }
        }
    }
    Ok(produced)
}
