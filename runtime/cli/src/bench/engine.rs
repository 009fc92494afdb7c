//! `bench engine`: measures requests together and one by one, a prompt whose beginning is in the cache, and requests with proposed tokens.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use moebius::attention::CacheFormat;
use moebius::moe::switching::CacheStatistics;
use moebius_benches::timing::middle;
use moebius_device::Device;
use moebius_engine::{Ended, Engine, EngineOptions, Event, Generation, PAGE, Proposals, RequestId};
use moebius_model::Text;
use serde_json::json;

use super::experts::ExpertRun;
use crate::answerer::Answerer;
use crate::args::BenchEngineArgs;
use crate::devices::bytes;
use crate::error::CliError;
use crate::published::{Source, loading};
use crate::screen::{Outcome, Screen};
use crate::speculation;

/// Number of runs of each way; their median is reported.
pub(crate) const RUNS: usize = 3;

/// Number of prompt tokens after the known beginning.
pub(crate) const BEHIND: usize = 8;

/// Runs `moebius bench engine`.
pub(crate) fn run(args: &BenchEngineArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let source = Source::named(&args.model)?;
    let measured = measure(args, &source, screen)?;
    let verified = measured.verified();
    let (family, place) = (source.files.family(), &args.engine.place);
    let (name, precision) = (&measured.device, place.precision());
    let title = format!("{family} on {name} in {precision} · medians of {RUNS} runs");
    screen.heading(&title)?;
    if verified {
        show(args, &measured.streams, &measured.known, screen)?;
        screen.line(&measured.memory())?;
        if let Some((pair, proposals)) = &measured.proposed {
            show_proposed(args, pair, *proposals, screen)?
        }
        if let Some(experts) = &measured.experts {
            screen.line(&experts.said())?
        }
    } else {
        screen.line("the tokens of a request depend on its company: no figures")?
    }
    let figures =
        |pair: &Pair| verified.then(|| json!({ "slow_s": pair.slow, "fast_s": pair.fast }));
    let mut object = json!({
        "benchmark": "engine",
        "device": name,
        "model": source.name(),
        "dtype": place.dtype.option(),
        "weights": place.weights_option(),
        "kv_cache_dtype": measured.format.name(),
        "weight_bytes": measured.weight_bytes,
        "cache_bytes": measured.cache_bytes,
        "streams": args.streams,
        "prompt": args.prompt,
        "tokens": args.tokens,
        "known": args.known,
        "verified": verified,
        "alone_and_together": figures(&measured.streams),
        "cold_and_known": figures(&measured.known),
    });
    if let Some((pair, proposals)) = &measured.proposed {
        object["plain_and_speculated"] = json!(figures(pair));
        object["speculation"] = speculation::figures(*proposals);
    }
    if let Some(experts) = &measured.experts {
        object["expert_cache"] = experts.figures();
    }
    screen.object(&object)?;
    Ok(Outcome::of(verified))
}

/// What was measured of a model on a device.
pub(crate) struct EngineRun {
    pub(crate) device: Device,
    /// The format of the cache.
    format: CacheFormat,
    /// Bytes of the weights, those of all devices of a divided model together; `None` where experts wait elsewhere.
    weight_bytes: Option<u64>,
    /// Bytes of the cache of keys and values, and of a draft model's.
    cache_bytes: usize,
    /// Seconds that loading the model took.
    pub(crate) load_s: f64,
    /// The requests one by one, and together.
    pub(crate) streams: Pair,
    /// The first token after a prompt that is new, and after one whose beginning the cache knows.
    pub(crate) known: Pair,
    /// The requests together without and with proposed tokens, and what became of these; `None` where none were asked for.
    proposed: Option<(Pair, Proposals)>,
    /// What the requests together cost a cache of experts; `None` where all experts are on the device.
    experts: Option<ExpertRun>,
}

impl EngineRun {
    /// Whether the tokens of each request were the same both ways; figures mean something only if they were.
    pub(crate) fn verified(&self) -> bool {
        let proposed = self.proposed.as_ref().is_none_or(|(pair, _)| pair.same);
        self.streams.same && self.known.same && proposed
    }

    /// What weights and cache take, in words.
    fn memory(&self) -> String {
        let cache = bytes(self.cache_bytes as u64);
        let weights = self
            .weight_bytes
            .map(|of| format!("weights {}, ", bytes(of)));
        format!("  {}cache {cache}", weights.unwrap_or_default())
    }
}

/// Loads the model and measures it.
pub(crate) fn measure(
    args: &BenchEngineArgs,
    source: &Source,
    screen: &mut Screen,
) -> Result<EngineRun, CliError> {
    let text = Text::bundled();
    let text = String::from_utf8_lossy(text.bytes());
    let streams = args.streams.saturating_mul(args.prompt);
    let needed = streams.max(args.known.saturating_add(2 * BEHIND));
    let ids = tokens(source, &text, needed)?;
    let answerer = Answerer::open(&args.engine, source, room(args), screen)?;
    let whole = answerer.engine.model().expert_cache().is_none();
    let weights = || {
        let options = loading(&args.engine.place);
        source.files.weight_bytes(&answerer.device, options)
    };
    let weight_bytes = whole.then(weights);
    let mut bench = Bench::new(args, answerer.engine, ids);
    bench.engine.propose_at_most(0);
    let (streams, known) = (bench.streams()?, bench.known()?);
    let proposed = answerer.speculates.then(|| bench.proposed()).transpose()?;
    let experts = ExpertRun::of(
        &source.files,
        bench.engine.model(),
        (streams.fast, streams.moves),
    )?;
    Ok(EngineRun {
        experts,
        weight_bytes,
        cache_bytes: bench.engine.cache_bytes(),
        device: answerer.name,
        format: answerer.cache_format,
        load_s: answerer.load_s,
        streams,
        known,
        proposed: proposed.map(|pair| (pair, bench.engine.proposals())),
    })
}

/// Tokens of the sample text; an error if they are fewer than the prompts need.
pub(crate) fn tokens(source: &Source, text: &str, needed: usize) -> Result<Vec<u32>, CliError> {
    let ids = source.tokenizer.encode(text, false)?;
    if ids.len() < needed {
        let have = ids.len();
        let message = format!(
            "expected prompts of {have} tokens at most, all of the sample text, got {needed}"
        );
        return Err(CliError::usage(message, Some("fewer or shorter prompts")));
    }
    Ok(ids)
}

/// Engine options with room for all requests at the same time, from the start.
pub(crate) fn room(args: &BenchEngineArgs) -> EngineOptions {
    // A request's last page may be partly filled, and one more page is to spare.
    let whole = |tokens: usize| tokens.saturating_add(2 * PAGE);
    let of_request = whole(args.prompt.saturating_add(args.tokens));
    let streams = args.streams.saturating_mul(of_request);
    let mut options = EngineOptions::for_one(streams.max(2 * whole(args.known + BEHIND)));
    options.limits.running = args.streams;
    options.reserved()
}

fn show(
    args: &BenchEngineArgs,
    streams: &Pair,
    known: &Pair,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let tokens = (args.streams * args.tokens) as f64;
    screen.line(&format!(
        "  {} requests of {} + {} tokens: {:.1} tokens/s one by one, {:.1} together, {:.2} times",
        args.streams,
        args.prompt,
        args.tokens,
        tokens / streams.slow,
        tokens / streams.fast,
        streams.slow / streams.fast,
    ))?;
    screen.line(&format!(
        "  first token after {} + {BEHIND} tokens: {:.1} ms, with the beginning known {:.1} ms, {:.1} % of that",
        args.known,
        1e3 * known.slow,
        1e3 * known.fast,
        100.0 * known.fast / known.slow,
    ))
}

/// Shows what proposed tokens bring.
fn show_proposed(
    args: &BenchEngineArgs,
    pair: &Pair,
    proposals: Proposals,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let tokens = (args.streams * args.tokens) as f64;
    screen.line(&format!(
        "  {} requests together: {:.1} tokens/s, {:.1} with proposed tokens, {:.2} times; {}",
        args.streams,
        tokens / pair.slow,
        tokens / pair.fast,
        pair.slow / pair.fast,
        speculation::said(proposals),
    ))
}

/// Median seconds of two ways to generate the same tokens, and whether the tokens are the same.
pub(crate) struct Pair {
    pub(crate) slow: f64,
    pub(crate) fast: f64,
    same: bool,
    /// Moves of experts in the last of the second runs.
    moves: Option<CacheStatistics>,
}

impl Pair {
    /// Measures both ways in turns.
    fn measure(mut run: impl FnMut() -> Result<[Run; 2], CliError>) -> Result<Self, CliError> {
        let (mut slow, mut fast, mut same) = (Vec::new(), Vec::new(), true);
        let mut moves = None;
        for _ in 0..RUNS {
            let [one, other] = run()?;
            same &= one.said == other.said;
            slow.push(one.seconds);
            fast.push(other.seconds);
            moves = other.moves;
        }
        Ok(Self {
            slow: middle(&mut slow),
            fast: middle(&mut fast),
            same,
            moves,
        })
    }
}

/// Seconds and tokens of some requests, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) seconds: f64,
    pub(crate) said: Vec<Vec<u32>>,
    /// Moves of experts to the device; `None` where all of them are there.
    moves: Option<CacheStatistics>,
}

/// An engine, and the tokens that its prompts are made of.
pub(crate) struct Bench<'a> {
    args: &'a BenchEngineArgs,
    pub(crate) engine: Engine,
    ids: Vec<u32>,
    /// Counter that salts the prompts, so that the engine's cache knows only those with the same count.
    prompts: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(args: &'a BenchEngineArgs, engine: Engine, ids: Vec<u32>) -> Self {
        Self {
            args,
            engine,
            ids,
            prompts: 0,
        }
    }

    /// Times the same requests one by one, then together.
    pub(crate) fn streams_once(&mut self) -> Result<[Run; 2], CliError> {
        let (count, prompt, tokens) = (self.args.streams, self.args.prompt, self.args.tokens);
        let mut alone = Run::default();
        self.prompts += 1;
        for at in 0..count {
            let request = self.request(at * prompt..(at + 1) * prompt, tokens);
            let one = self.answer(vec![request])?;
            alone.seconds += one.seconds;
            alone.said.extend(one.said);
        }
        self.prompts += 1;
        let requests = (0..count).map(|at| self.request(at * prompt..(at + 1) * prompt, tokens));
        let requests = requests.collect();
        Ok([alone, self.answer(requests)?])
    }

    fn streams(&mut self) -> Result<Pair, CliError> {
        Pair::measure(|| self.streams_once())
    }

    /// Times the first token of a new prompt, then of a prompt whose beginning the cache knows.
    fn known(&mut self) -> Result<Pair, CliError> {
        let known = self.args.known;
        Pair::measure(|| {
            self.prompts += 1;
            let cold = self.answer(vec![self.request(0..known + BEHIND, 1)])?;
            self.prompts += 1;
            let other = self.request(0..known, 1);
            self.answer(vec![other])?;
            Ok([cold, self.answer(vec![self.request(0..known + BEHIND, 1)])?])
        })
    }

    /// Times the same requests together without proposed tokens, then with them.
    fn proposed(&mut self) -> Result<Pair, CliError> {
        let (count, prompt, tokens) = (self.args.streams, self.args.prompt, self.args.tokens);
        Pair::measure(|| {
            let mut run = |most: usize| {
                self.engine.propose_at_most(most);
                self.prompts += 1;
                let range = |at: usize| at * prompt..(at + 1) * prompt;
                let requests = (0..count).map(|at| self.request(range(at), tokens));
                let requests = requests.collect();
                self.answer(requests)
            };
            Ok([run(0)?, run(usize::MAX)?])
        })
    }

    /// A request for `tokens` tokens after a range of the text; its beginning may be in the cache only while `prompts`
    /// stays the same.
    fn request(&self, prompt: Range<usize>, tokens: usize) -> Generation {
        let mut request = Generation::new(self.ids[prompt].to_vec(), tokens);
        request.salt = self.prompts.to_le_bytes().to_vec();
        request
    }

    /// Answers all `requests` together.
    fn answer(&mut self, requests: Vec<Generation>) -> Result<Run, CliError> {
        let before = self.engine.model().expert_cache();
        let begun = Instant::now();
        let mut said = vec![Vec::new(); requests.len()];
        let mut places: HashMap<RequestId, usize> = HashMap::new();
        for (place, request) in requests.into_iter().enumerate() {
            places.insert(self.engine.add(request)?, place);
        }
        while !self.engine.is_idle() {
            for (id, event) in self.engine.step()? {
                match event {
                    Event::Token(draw) => said[places[&id]].push(draw.id),
                    Event::End(Ended::Failed(error)) => return Err(error.into()),
                    Event::End(Ended::NoRoom(error)) => return Err(error.into()),
                    Event::End(Ended::Stop | Ended::Length) => {}
                }
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.engine.model().expert_cache();
        Ok(Run {
            seconds,
            said,
            moves: after.zip(before).map(|(after, before)| after.since(before)),
        })
    }
}
