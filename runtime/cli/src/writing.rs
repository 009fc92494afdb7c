//! The end of the main job: a paragraph by the bundled model.

use moebius_device::Device;
use moebius_engine::{Engine, EngineOptions, Generation, Sampling, SamplingOptions};
use serde::Serialize;

use crate::args::{ModelPrecision, PlaceArgs};
use crate::error::CliError;
use crate::published::{self, AnswerStream, Ready, Source};
use crate::screen::{DIM, Screen};

/// How the paragraph begins.
const BEGINNING: &str = "The old captain looked at the sea, and";

/// Tokens that follow at most.
const TOKENS: usize = 128;

/// Where a paragraph ends.
const END: &str = "\n";

/// The paragraph in the JSON of the main job.
#[derive(Serialize)]
pub(crate) struct Writing {
    /// The paragraph, with its beginning.
    text: String,
    /// Tokens a second, from the second on.
    decode_tokens_per_s: Option<f64>,
}

/// Writes on `device`.
pub(crate) fn run(device: Device, screen: &mut Screen) -> Result<Writing, CliError> {
    screen.heading(&format!("A text by the bundled model on {device}"))?;
    screen.line("")?;
    let source = Source::open(None)?;
    let ids = source.tokenizer.encode(BEGINNING, true)?;
    let place = PlaceArgs {
        device,
        dtype: ModelPrecision::F32,
    };
    let Ready { device, model, .. } = published::ready(&source.files, &place, screen)?;
    let mut engine = Engine::new(model, EngineOptions::for_one(ids.len() + TOKENS), &device)?;
    let sampling = Sampling::new(SamplingOptions {
        temperature: 0.5,
        top_p: 0.9,
        ..SamplingOptions::default()
    })?;
    let generation = Generation::new(ids, TOKENS).with_sampling(sampling);
    screen.text(BEGINNING)?;
    let stream = AnswerStream::new(&source.tokenizer, &[END.to_owned()])?;
    let answer = stream.follow(&mut engine, generation, &|| false, screen)?;
    let speed = answer.decode_speed();
    let said = speed.map_or(String::new(), |speed| format!(", {speed:.0} tokens/s"));
    let said = format!("{} tokens{said}", answer.ids.len());
    screen.line(&format!("\n{}", screen.paint(DIM, &said)))?;
    Ok(Writing {
        text: format!("{BEGINNING}{}", answer.text),
        decode_tokens_per_s: speed,
    })
}
