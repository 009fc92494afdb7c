//! `decoder_logits {adapter?}`: the logits of every next token, by the model in the case's folder (`config.json` and weights, stored like those
//! of published models), with the LoRA adapter in a folder beside the case, if one is named: `tokens` [S] → `logits` [S,V].

use std::path::{Component, Path};

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius_model::Adapter;
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};
use serde::Deserialize;

use super::{Inputs, Produced, download};
use crate::case_file::CaseFile;
use crate::error::OpError;

/// Parameters of the operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// Name of the adapter's folder.
    adapter: Option<String>,
}

/// Computes the logits for the case's tokens.
pub(super) async fn logits(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Params { adapter } = case.params()?;
    let mut inputs = Inputs::new(case);
    let tokens = inputs.required("tokens")?;
    inputs.finish()?;
    let [count] = tokens.dims("[S]")?;
    let folder = case.folder().ok_or_else(|| {
        let message = "a case of a decoder is read from the folder of its model";
        OpError::Misfit(message.to_owned())
    })?;
    let files = ModelFiles::open(folder).map_err(of_model)?;
    let files = match &adapter {
        Some(name) => adapted(files, folder, name)?,
        None => files,
    };
    let vocabulary = files.spec().vocabulary as i64;
    let tokens: Vec<i64> = tokens.view.ints()?.collect();
    if let Some(token) = tokens.iter().find(|token| !(0..vocabulary).contains(token)) {
        let message = format!("input tokens: expected less than {vocabulary}, got {token}");
        return Err(OpError::Misfit(message));
    }
    let model = files.load(device, LoadOptions::default(), &mut |_| ());
    let logits = forward(&model.map_err(of_model)?, tokens, device)?;
    let [_, _, width] = logits.dims();
    Ok(vec![
        download("logits", logits.reshape([count, width])).await?,
    ])
}

/// The model with the adapter in a folder beside it.
fn adapted(files: ModelFiles, folder: &Path, name: &str) -> Result<ModelFiles, OpError> {
    let mut parts = Path::new(name).components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        let message = format!("adapter: expected the name of a folder, got `{name}`");
        return Err(OpError::Misfit(message));
    };
    let adapter = Adapter::read(&folder.join(name)).map_err(of_model)?;
    files.with_adapter(&adapter).map_err(of_model)
}

fn forward(model: &Model, tokens: Vec<i64>, device: &Device) -> Result<Tensor<3>, OpError> {
    let shape = [1, tokens.len()];
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, shape), device);
    Ok(model.forward(tokens).map_err(of_model)?.logits)
}

/// Maps an error of the model: when the device refuses a model, the device is at fault, else the file.
fn of_model(error: moebius_model::Error) -> OpError {
    match error {
        moebius_model::Error::Moebius(error) => OpError::Device(error),
        other => OpError::Misfit(other.to_string()),
    }
}
