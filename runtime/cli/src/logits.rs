//! `moebius logits`.

use anstyle::Style;
use serde_json::json;

use crate::args::LogitsArgs;
use crate::error::CliError;
use crate::published::{self, Ready, Source};
use crate::screen::{Outcome, Screen};
use crate::table::Table;

/// Runs `moebius logits`.
pub(crate) fn run(args: &LogitsArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // What reads files comes first: it fails sooner than a device opens.
    let source = Source::open(args.prompt.model.model.as_deref())?;
    let ids = published::prompt(&args.prompt, &source)?;
    let Ready {
        name,
        device,
        model,
        ..
    } = published::ready(&source.files, &args.place, screen)?;
    let logits = model.last_logits(&ids, &device)?;
    let shown = likeliest(&logits, args.top)?;
    screen.heading(&format!(
        "After {} tokens: {} on {name} in {}",
        ids.len(),
        source.files.family(),
        args.place.dtype.name()
    ))?;
    let mut table = Table::new(&["id", "logit", "probability", "token"]).right(&[0, 1, 2]);
    let mut tokens = Vec::new();
    for Likely { id, logit, log } in shown {
        let text = source.tokenizer.decode(&[id], false)?;
        let percent = format!("{:.3} %", 100.0 * log.exp());
        let figures = format!("{logit:.4}");
        let cells = [id.to_string(), figures, percent, format!("{text:?}")];
        table.row(cells, Style::new());
        tokens.push(json!({ "id": id, "text": text, "logit": logit, "log_probability": log }));
    }
    table.print(screen)?;
    screen.object(&json!({
        "device": name,
        "model": source.name(),
        "family": source.files.family(),
        "dtype": args.place.dtype.name(),
        "prompt_ids": ids,
        "tokens": tokens,
    }))?;
    Ok(Outcome::Good)
}

/// A token that may come next.
struct Likely {
    id: u32,
    logit: f32,
    /// The natural logarithm of its probability.
    log: f64,
}

/// The `most` likeliest tokens, and of equally likely ones those with lower ids.
fn likeliest(logits: &[f32], most: usize) -> Result<Vec<Likely>, CliError> {
    if let Some(id) = logits.iter().position(|logit| !logit.is_finite()) {
        let message = format!("logit of token {id}: expected a number, got {}", logits[id]);
        return Err(CliError::usage(
            message,
            Some("--dtype f32 reaches further than f16"),
        ));
    }
    let highest = f64::from(logits.iter().copied().fold(f32::MIN, f32::max));
    let parts = logits
        .iter()
        .map(|&logit| (f64::from(logit) - highest).exp());
    let all = highest + parts.sum::<f64>().ln();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    order.truncate(most);
    let shown = order.into_iter().map(|id| Likely {
        id: id as u32,
        logit: logits[id],
        log: f64::from(logits[id]) - all,
    });
    Ok(shown.collect())
}
