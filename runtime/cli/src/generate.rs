//! `moebius generate`, `logits` and `perplexity`: ask a published model once. Files are read before the device is opened, since
//! that fails sooner.

use std::fmt::Display;
use std::fs;
use std::time::Instant;

use anstyle::Style;
use moebius::moe::switching::CacheStatistics;
use moebius_device::Device;
use moebius_engine::{EngineOptions, Generation, Proposals};
use moebius_model::decoder::Routes;
use moebius_model::{LayerTokens, Perplexity, Windows};
use serde_json::{Value, json};

use crate::answer::{Answer, AnswerStream, Speeds, follow_all};
use crate::answerer::Answerer;
use crate::args::{GenerateArgs, LogitsArgs, PerplexityArgs};
use crate::devices::bytes;
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::{DIM, Outcome, Screen, Table};
use crate::speculation;

/// Runs `moebius generate`.
pub(crate) fn generate(args: &GenerateArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let sampling = args.sampling.sampling()?;
    let source = Source::named(&args.prompt.model)?;
    let source = source.with_special_as_text(args.prompt.no_special);
    let prompts = prompts(args, &source)?;
    let prompt_tokens: Vec<usize> = prompts.iter().map(Vec::len).collect();
    let constraint = published::constraint(&args.form, &source.tokenizer)?;
    let requests = prompts.into_iter().map(|ids| {
        let mut generation = Generation::new(ids, args.max_tokens)
            .with_sampling(sampling.clone())
            .with_ends(source.tokenizer.eos_ids().iter().copied());
        generation.constraint = constraint.clone();
        let stream = AnswerStream::new(&source.tokenizer, &args.stop)?;
        Ok((stream, generation))
    });
    let requests = requests.collect::<Result<Vec<_>, CliError>>()?;
    let counts = published::counted(args.experts, &source.files)?.is_some();
    let tokens = prompt_tokens.iter();
    let tokens = tokens.map(|prompt| prompt.saturating_add(args.max_tokens));
    let named = |at: usize, error: CliError| match &args.prompts {
        Some(path) => error.of_prompt(place_of(path.display(), at)),
        None => error,
    };
    for (at, tokens) in tokens.clone().enumerate() {
        let longest = EngineOptions::for_one(tokens).limits.longest;
        let fits = source.files.spec().check_cached(longest);
        fits.map_err(|error| named(at, error.into()))?;
    }
    let room = EngineOptions::for_all(tokens);
    let answerer = Answerer::open(&args.engine, &source, room, screen)?;
    let mut engine = answerer.engine;
    if counts {
        engine.count_experts();
    }
    let alone = args.prompts.is_none();
    let mut show = |text: &str| if alone { screen.text(text) } else { Ok(()) };
    let answers = follow_all(requests, &mut engine, &|| false, &mut show, &named)?;
    let place = Place {
        name: answerer.name,
        source: &source,
        load_s: answerer.load_s,
        cache_bytes: engine.cache_bytes(),
        cache_format: answerer.cache_format.name(),
        proposals: answerer.speculates.then(|| engine.proposals()),
        moves: engine.model().expert_cache(),
        prompt_tokens,
        experts: counts.then(|| engine.expert_load()).transpose()?,
    };
    place.result(args, &answers, screen)?;
    Ok(Outcome::Good)
}

/// The place of a prompt in a file, whose number is counted from 0.
fn place_of(path: impl Display, at: usize) -> String {
    format!("{path}, line {}", at + 1)
}

/// Tokens of each prompt: of the one that is given, or of those in a file.
fn prompts(args: &GenerateArgs, source: &Source) -> Result<Vec<Vec<u32>>, CliError> {
    let Some(path) = &args.prompts else {
        return Ok(vec![published::prompt(&args.prompt, source)?]);
    };
    let (text, path) = (fs::read_to_string(path), path.display());
    let text = text.map_err(CliError::read(&path))?;
    let refuse = |message: String| {
        let hint = r#"each line is a prompt as JSON has texts, such as "The sea was\n""#;
        CliError::usage(message, Some(hint))
    };
    let mut prompts = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = place_of(&path, at);
        let prompt = serde_json::from_str::<String>(line);
        let prompt = prompt.map_err(|_| {
            let line = line.chars().take(40).collect::<String>();
            refuse(format!("{place}: expected a text in JSON, got {line}"))
        })?;
        let ids = published::encoded(prompt, args.prompt.chat, source)?;
        if ids.is_empty() {
            return Err(refuse(format!("{place}: the prompt is empty")));
        }
        prompts.push(ids);
    }
    if prompts.is_empty() {
        return Err(refuse(format!(
            "{path}: expected a prompt or more, got none"
        )));
    }
    Ok(prompts)
}

/// The model, the device and the prompts of a command, for its result.
struct Place<'a> {
    name: Device,
    source: &'a Source,
    load_s: f64,
    cache_bytes: usize,
    cache_format: &'static str,
    /// What came of proposed tokens, if any were asked for.
    proposals: Option<Proposals>,
    /// The moves of experts to the device, if they are in main memory.
    moves: Option<CacheStatistics>,
    /// Tokens of each prompt.
    prompt_tokens: Vec<usize>,
    /// Tokens of each expert, if asked for.
    experts: Option<Vec<LayerTokens>>,
}

impl Place<'_> {
    fn result(
        &self,
        args: &GenerateArgs,
        answers: &[Answer],
        screen: &mut Screen,
    ) -> Result<(), CliError> {
        if args.prompts.is_some() {
            for (at, answer) in answers.iter().enumerate() {
                screen.heading(&format!("{} of {}", at + 1, answers.len()))?;
                screen.line(&answer.text)?;
            }
        }
        let said = self.said(args, answers);
        screen.line(&format!("\n{}", screen.paint(DIM, &said)))?;
        let mut object = self.figures(args, answers);
        if let Some(proposals) = self.proposals {
            object["speculation"] = speculation::figures(proposals);
        }
        if let Some(moves) = self.moves {
            object["expert_cache"] = json!({
                "hits": moves.hits,
                "misses": moves.misses,
                "evictions": moves.evictions,
                "moved_bytes": moves.moved_bytes,
                "read_bytes": moves.read_bytes,
            });
        }
        if let Some(experts) = &self.experts {
            published::show_experts(experts, screen)?;
            object["experts"] = json!(experts);
        }
        screen.object(&object)
    }

    /// What was computed and how fast, in a line.
    fn said(&self, args: &GenerateArgs, answers: &[Answer]) -> String {
        let speeds = Speeds::of(answers);
        let tokens: usize = answers.iter().map(|answer| answer.ids.len()).sum();
        let speed = speeds.decode;
        let speed = speed.map_or("–".to_owned(), |speed| format!("{speed:.1}"));
        let proposals = self.proposals.map(speculation::said);
        let proposals = proposals.map_or(String::new(), |said| format!(" · {said}"));
        let (prompts, finish) = match (&args.prompts, answers) {
            (None, [answer]) => ("prompt".to_owned(), format!(" · {}", answer.finish)),
            _ => (format!("{} prompts,", answers.len()), String::new()),
        };
        format!(
            "{} on {} in {} · loaded in {:.1} s · {prompts} {} tokens, {:.0} tokens/s · {tokens} tokens, {speed} tokens/s{proposals} · cache {}{finish}",
            self.source.files.family(),
            self.name,
            args.engine.place.precision(),
            self.load_s,
            self.all_prompt_tokens(),
            self.all_prompt_tokens() as f64 / speeds.prefill_s,
            bytes(self.cache_bytes as u64),
        )
    }

    /// The same as JSON, with the answers: the one to a prompt, or a list of those to a file's.
    fn figures(&self, args: &GenerateArgs, answers: &[Answer]) -> Value {
        let speeds = Speeds::of(answers);
        let mut object = json!({
            "device": self.name,
            "model": self.source.name(),
            "family": self.source.files.family(),
            "dtype": args.engine.place.dtype.option(),
            "weights": args.engine.place.weights_option(),
            "prompt_tokens": self.all_prompt_tokens(),
            "load_s": self.load_s,
            "prefill_tokens_per_s": self.all_prompt_tokens() as f64 / speeds.prefill_s,
            "decode_tokens_per_s": speeds.decode,
            "cache_bytes": self.cache_bytes,
            "kv_cache_dtype": self.cache_format,
        });
        match (&args.prompts, answers) {
            (None, [answer]) => {
                object["text"] = json!(answer.text);
                object["ids"] = json!(answer.ids);
                object["finish"] = json!(answer.finish);
            }
            _ => {
                let answers = answers.iter().zip(&self.prompt_tokens);
                let answers = answers.map(|(answer, prompt_tokens)| {
                    json!({
                        "text": answer.text,
                        "ids": answer.ids,
                        "finish": answer.finish,
                        "prompt_tokens": prompt_tokens,
                    })
                });
                object["answers"] = answers.collect();
            }
        }
        object
    }

    /// Tokens of all prompts together.
    fn all_prompt_tokens(&self) -> usize {
        self.prompt_tokens.iter().sum()
    }
}

/// Runs `moebius logits`.
pub(crate) fn logits(args: &LogitsArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let source = Source::named(&args.prompt.model)?;
    let source = source.with_special_as_text(args.prompt.no_special);
    let ids = published::prompt(&args.prompt, &source)?;
    if args.record_routes.is_some() {
        published::check_experts("--record-routes", &source.files)?;
    }
    let routes = args.replay_routes.as_deref();
    let routes = routes.map(|path| Routes::load(path, source.files.spec()));
    let routes = routes.transpose()?;
    let ready = published::ready(&source.files, &args.place, None, screen)?;
    let (name, model) = (ready.name, &ready.model);
    let tokens = model.tokens(&ids, &ready.device)?;
    let found = match &routes {
        Some(routes) => model.forward_along(tokens, routes)?,
        None => model.forward(tokens)?,
    };
    if let Some(path) = &args.record_routes {
        Routes::read(model.spec(), &found.routing)?.save(path)?;
    }
    let shown = likeliest(&found.read_last()?, args.top)?;
    screen.heading(&format!(
        "After {} tokens: {} on {name} in {}",
        ids.len(),
        source.files.family(),
        args.place.precision()
    ))?;
    let mut table = Table::new("id | logit | probability | token").right(&[0, 1, 2]);
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
        "dtype": args.place.dtype.option(),
        "weights": args.place.weights_option(),
        "prompt_ids": ids,
        "tokens": tokens,
    }))?;
    Ok(Outcome::Good)
}

/// A token that may come next, with its probability.
struct Likely {
    id: u32,
    logit: f32,
    /// Natural logarithm of the token's probability.
    log: f64,
}

/// The `most` likeliest tokens; among equally likely ones, lower ids come first.
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

/// Runs `moebius perplexity`.
pub(crate) fn perplexity(args: &PerplexityArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let stride = args.stride.unwrap_or(args.context / 2);
    let windows = Windows::new(args.context, stride)?;
    let (source, ids) = read(args)?;
    let mut experts = published::counted(args.experts, &source.files)?;
    let ready = published::ready(&source.files, &args.place, None, screen)?;
    let name = ready.name;
    let bar = screen.steps("tokens", ids.len().saturating_sub(1));
    let begun = Instant::now();
    let mut judged = |tokens: usize| bar.set_position(tokens as u64);
    let (model, device, ids) = (&ready.model, &ready.device, ids.as_slice());
    let found = match &mut experts {
        None => Perplexity::of(model, ids, windows, device, &mut judged),
        Some(experts) => {
            Perplexity::with_experts(model, ids, windows, device, experts, &mut judged)
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
        args.place.precision(),
    ))?;
    let mut object = json!({
        "device": name,
        "model": source.name(),
        "text": args.text.display().to_string(),
        "family": source.files.family(),
        "dtype": args.place.dtype.option(),
        "weights": args.place.weights_option(),
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

/// Reads the model's files and the tokens of the text.
fn read(args: &PerplexityArgs) -> Result<(Source, Vec<u32>), CliError> {
    let text = std::fs::read_to_string(&args.text);
    let text = text.map_err(CliError::read(args.text.display()))?;
    let source = Source::named(&args.model)?;
    let source = source.with_special_as_text(args.no_special);
    let mut ids = source.tokenizer.encode(&text, true)?;
    ids.truncate(args.tokens.unwrap_or(usize::MAX));
    Ok((source, ids))
}
