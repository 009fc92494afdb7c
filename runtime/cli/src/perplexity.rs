//! `moebius perplexity`.

use std::time::Instant;

use moebius_model::{Perplexity, Windows};
use serde_json::json;

use crate::args::PerplexityArgs;
use crate::error::CliError;
use crate::progress;
use crate::published::{self, Ready, Source};
use crate::screen::{Outcome, Screen};

/// Runs `moebius perplexity`.
pub(crate) fn run(args: &PerplexityArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // What reads files comes first: it fails sooner than a device opens.
    let stride = args.stride.unwrap_or(args.context / 2);
    let windows = Windows::new(args.context, stride)?;
    let (source, ids) = read(args)?;
    let mut experts = published::counted(args.experts, &source.files)?;
    let Ready {
        name,
        device,
        model,
        ..
    } = published::ready(&source.files, &args.place, screen)?;
    let bar = progress::steps(screen, "tokens", ids.len().saturating_sub(1));
    let begun = Instant::now();
    let mut judged = |tokens: usize| bar.set_position(tokens as u64);
    let (model, ids) = (&model, ids.as_slice());
    let found = match &mut experts {
        None => Perplexity::of(model, ids, windows, &device, &mut judged),
        Some(experts) => {
            Perplexity::with_experts(model, ids, windows, &device, experts, &mut judged)
        }
    };
    bar.finish_and_clear();
    let (found, took) = (found?, begun.elapsed().as_secs_f64());
    let speed = found.tokens as f64 / took;
    screen.line(&format!(
        "perplexity {:.4} ({:.4} nats a token) over {} tokens, {} seen at most, a window each {stride} · {} on {name} in {} · {speed:.0} tokens/s",
        found.perplexity(),
        found.nats,
        found.tokens,
        args.context - 1,
        source.files.family(),
        args.place.dtype.name(),
    ))?;
    let mut object = json!({
        "device": name,
        "model": source.name(),
        "text": args.text.display().to_string(),
        "family": source.files.family(),
        "dtype": args.place.dtype.name(),
        "perplexity": found.perplexity(),
        "nats_per_token": found.nats,
        "tokens": found.tokens,
        "context": args.context,
        "stride": stride,
        "tokens_per_s": speed,
    });
    if let Some(experts) = experts {
        let experts = experts.read()?;
        published::show_experts(&experts, screen)?;
        object["experts"] = json!(experts);
    }
    screen.object(&object)?;
    Ok(Outcome::Good)
}

/// The model's files, and the tokens of the text.
fn read(args: &PerplexityArgs) -> Result<(Source, Vec<u32>), CliError> {
    let read = std::fs::read_to_string(&args.text);
    let text = read.map_err(|source| CliError::ReadFile {
        path: args.text.display().to_string(),
        source,
    })?;
    let source = Source::open(args.model.model.as_deref())?;
    let mut ids = source.tokenizer.encode(&text, true)?;
    ids.truncate(args.tokens.unwrap_or(usize::MAX));
    Ok((source, ids))
}
