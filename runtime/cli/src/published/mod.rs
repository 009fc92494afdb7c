//! What is read of a published model: its weights, its tokenizer, its chat template; and the text that it answers.

mod experts;
mod prompt;
mod stream;
mod words;

use std::time::Instant;

use burn::tensor::DType;
use moebius::attention::CacheFormat;
use moebius_device::{Device, Work};
use moebius_engine::{EngineOptions, Limits, PAGE};
use moebius_model::decoder::{Model, fp8_conversion};
use moebius_model::load::{LoadOptions, ModelFiles};

use crate::args::{ModelPrecision, PlaceArgs};
use crate::error::CliError;
use crate::progress;
use crate::resolve::resolve_for;
use crate::screen::Screen;

pub(crate) use experts::{counted, show_experts};
pub(crate) use prompt::prompt;
pub(crate) use stream::{Answer, Stream};
pub(crate) use words::{template, tokenizer};

/// Tokens of a prompt that are computed at a time.
const BATCH_TOKENS: usize = 512;

/// Room for one request of `tokens`, prompt and answer.
pub(crate) fn room(tokens: usize) -> EngineOptions {
    EngineOptions {
        limits: Limits::new(tokens.div_ceil(PAGE), BATCH_TOKENS, 1),
        format: CacheFormat::F32,
    }
}

/// A model on the device that was asked for.
pub(crate) struct Ready {
    pub(crate) name: Device,
    pub(crate) device: burn::tensor::Device,
    pub(crate) model: Model,
    pub(crate) load_s: f64,
}

/// Chooses the device, opens it and loads the model.
pub(crate) fn ready(
    files: &ModelFiles,
    place: &PlaceArgs,
    screen: &mut Screen,
) -> Result<Ready, CliError> {
    let name = resolve_for(Work::Steps { flops: 0.0 }, place.device, screen)?;
    let device = moebius::open(&name)?;
    let begun = Instant::now();
    let model = load(files, place.dtype, &device, screen)?;
    Ok(Ready {
        name,
        device,
        model,
        load_s: begun.elapsed().as_secs_f64(),
    })
}

/// The model on a device, with a bar for who watches.
fn load(
    files: &ModelFiles,
    precision: ModelPrecision,
    device: &burn::tensor::Device,
    screen: &Screen,
) -> Result<Model, CliError> {
    let bar = progress::steps(screen, "weights", 100);
    let options = LoadOptions {
        dtype: match precision {
            ModelPrecision::F32 | ModelPrecision::Fp8 => DType::F32,
            ModelPrecision::F16 => DType::F16,
            ModelPrecision::Bf16 => DType::BF16,
        },
        ..LoadOptions::default()
    };
    let model = files.load(device, options, &mut |progress| {
        bar.set_position(100 * progress.read / progress.bytes.max(1));
        bar.set_message(crate::screen::one_line(progress.tensor));
    });
    bar.finish_and_clear();
    let model = model?;
    if precision != ModelPrecision::Fp8 {
        return Ok(model);
    }
    Ok(fp8_conversion().convert(model, device)?.0)
}
