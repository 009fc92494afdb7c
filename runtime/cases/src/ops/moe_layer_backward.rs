//! `moe_layer_backward`: the gradients of Σ y ∘ dy, with the parameters of `moe_layer`.
//!
//! The inputs of `layer.rs` and `dy` [T,H] → `d_<input>` for every input of the layer, each
//! of its input's shape.

use burn::tensor::{Device, Gradients, Tensor};

use super::inputs::Inputs;
use super::layer::Described;
use super::{OpError, Produced, download};
use crate::case_file::CaseFile;

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let dy = inputs.required("dy")?;
    let described = Described::read(case, inputs)?;
    let extents = described.x.shape();
    dy.expect("[T,H]", extents)?;
    let device = device.clone().autodiff();
    let layer = described.layer(&device)?;
    let x = described.x.on::<2>(&device)?.require_grad();
    let y = layer.forward(x.clone())?.y;
    // No graph leads from a sum over no tokens back to the weights, whose gradients are zeros.
    let tape = match extents[0] {
        0 => None,
        _ => Some((y * dy.on(&device)?).sum().backward()),
    };
    let name = "d_router";
    let leaves = layer.weights().ok_or(OpError::NoGradient(name))?;
    let tape = tape.as_ref();
    let mut produced = vec![
        download("d_x", gradient(tape, "d_x", &x)?).await?,
        download(name, gradient(tape, name, &leaves.router)?).await?,
    ];
    let (first, second): (&[_], _) = match described.config.gated {
        true => (&["d_w_gate", "d_w_up"], "d_w_down"),
        false => (&["d_w_in"], "d_w_out"),
    };
    let (stacked, inter) = (
        gradient(tape, first[0], &leaves.w_in)?,
        described.config.inter,
    );
    for (at, name) in first.iter().enumerate() {
        let part = stacked.clone().narrow(1, at * inter, inter);
        produced.push(download(name, part).await?);
    }
    produced.push(download(second, gradient(tape, second, &leaves.w_out)?).await?);
    // A bias the layer has and the file hasn't is not an input.
    let biases = [("d_b_in", &leaves.b_in), ("d_b_out", &leaves.b_out)];
    for ((name, bias), input) in biases.into_iter().zip(described.biases) {
        if let (Some(_), Some(bias)) = (input, bias) {
            produced.push(download(name, gradient(tape, name, bias)?).await?);
        }
    }
    Ok(produced)
}

fn gradient<const D: usize>(
    tape: Option<&Gradients>,
    name: &'static str,
    leaf: &Tensor<D>,
) -> Result<Tensor<D>, OpError> {
    match tape {
        None => Ok(Tensor::zeros(leaf.dims(), &leaf.device().inner())),
        Some(gradients) => leaf.grad(gradients).ok_or(OpError::NoGradient(name)),
    }
}
