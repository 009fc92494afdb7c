//! `moebius generate`.

use moebius_device::Device;
use moebius_engine::{Engine, EngineOptions, Generation};
use moebius_model::LayerTokens;
use serde_json::json;

use crate::args::GenerateArgs;
use crate::devices::bytes;
use crate::error::CliError;
use crate::published::{self, Answer, AnswerStream, Ready, Source};
use crate::screen::{DIM, Outcome, Screen};

/// Runs `moebius generate`.
pub(crate) fn run(args: &GenerateArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // What reads files comes first: it fails sooner than a device opens.
    let sampling = args.sampling.sampling()?;
    let source = Source::open(args.prompt.model.model.as_deref())?;
    let ids = published::prompt(&args.prompt, &source)?;
    let stream = AnswerStream::new(&source.tokenizer, &args.stop)?;
    let counts = published::counted(args.experts, &source.files)?.is_some();
    let Ready {
        name,
        device,
        model,
        load_s,
    } = published::ready(&source.files, &args.place, screen)?;
    let mut engine = Engine::new(
        model,
        EngineOptions::for_one(ids.len().saturating_add(args.max_tokens)),
        &device,
    )?;
    if counts {
        engine.count_experts();
    }
    let prompt_tokens = ids.len();
    let generation = Generation::new(ids, args.max_tokens)
        .with_sampling(sampling)
        .with_ends(source.tokenizer.eos_ids().iter().copied());
    let answer = stream.follow(&mut engine, generation, &|| false, screen)?;
    let place = Place {
        name,
        source: &source,
        load_s,
        cache_bytes: engine.cache_bytes(),
        prompt_tokens,
        experts: counts.then(|| engine.expert_load()).transpose()?,
    };
    place.result(args, &answer, screen)?;
    Ok(Outcome::Good)
}

/// What was asked, and where it ran.
struct Place<'a> {
    name: Device,
    source: &'a Source,
    load_s: f64,
    cache_bytes: usize,
    prompt_tokens: usize,
    /// Where it was asked for.
    experts: Option<Vec<LayerTokens>>,
}

impl Place<'_> {
    fn result(
        &self,
        args: &GenerateArgs,
        answer: &Answer,
        screen: &mut Screen,
    ) -> Result<(), CliError> {
        let prefill = self.prompt_tokens as f64 / answer.prefill_s;
        let decode = answer.decode_speed();
        let speed = decode.map_or("–".to_owned(), |speed| format!("{speed:.1}"));
        let said = format!(
            "{} on {} in {} · loaded in {:.1} s · prompt {} tokens, {prefill:.0} tokens/s · {} tokens, {speed} tokens/s · cache {} · {}",
            self.source.files.family(),
            self.name,
            args.place.dtype.name(),
            self.load_s,
            self.prompt_tokens,
            answer.ids.len(),
            bytes(self.cache_bytes as u64),
            answer.finish,
        );
        screen.line(&format!("\n{}", screen.paint(DIM, &said)))?;
        let mut object = json!({
            "device": self.name,
            "model": self.source.name(),
            "family": self.source.files.family(),
            "dtype": args.place.dtype.name(),
            "text": answer.text,
            "ids": answer.ids,
            "finish": answer.finish,
            "prompt_tokens": self.prompt_tokens,
            "load_s": self.load_s,
            "prefill_tokens_per_s": prefill,
            "decode_tokens_per_s": decode,
            "cache_bytes": self.cache_bytes,
        });
        if let Some(experts) = &self.experts {
            published::show_experts(experts, screen)?;
            object["experts"] = json!(experts);
        }
        screen.object(&object)
    }
}
