//! `moe_layer {top_k, activation, renormalize, gated, …}`: one mixture-of-experts layer, forward.
//!
//! The inputs of `layer.rs` → `y` [T,H], `indices` [T,K], `dropped_slots` [1].

use burn::tensor::Device;

use super::inputs::Inputs;
use super::layer::Described;
use super::{OpError, Produced, Values, download, download_ints};
use crate::case_file::CaseFile;

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let described = Described::read(case, Inputs::new(case))?;
    let x = described.x.on::<2>(device)?;
    let output = described.layer(device)?.forward(x)?;
    let shape = output.routing.indices.dims();
    let indices = download_ints("indices", output.routing.indices).await?;
    let dropped = download_ints("dropped_slots", output.dropped_slots).await?;
    Ok(vec![
        download("y", output.y).await?,
        Produced::new("indices", &shape, Values::Int(indices)),
        Produced::new("dropped_slots", &[dropped.len()], Values::Int(dropped)),
    ])
}
