//! `bench engine`: measures requests together and one by one, and a prompt whose beginning is in the cache.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use moebius_benches::timing::middle;
use moebius_engine::{Ended, Engine, EngineOptions, Event, Generation, PAGE, RequestId};
use moebius_model::Text;
use serde_json::json;

use crate::args::BenchEngineArgs;
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::{Outcome, Screen};

/// Number of runs of each way; their median is reported.
const RUNS: usize = 3;

/// Number of prompt tokens after the known beginning.
const BEHIND: usize = 8;

/// Runs `moebius bench engine`.
pub(crate) fn run(args: &BenchEngineArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let source = Source::open(args.model.model.as_deref())?;
    let ids = tokens(args, &source)?;
    let room = room(args);
    let ready = published::ready(&source.files, &args.place, Some(room), screen)?;
    let name = ready.name;
    let engine = Engine::new(ready.model, room, &ready.device)?;
    let mut bench = Bench {
        args,
        engine,
        ids,
        prompts: 0,
    };
    let streams = bench.streams()?;
    let known = bench.known()?;
    let verified = streams.same && known.same;
    let (family, dtype) = (source.files.family(), args.place.dtype.name());
    let title = format!("{family} on {name} in {dtype} · medians of {RUNS} runs");
    screen.heading(&title)?;
    if verified {
        show(args, &streams, &known, screen)?
    } else {
        screen.line("the tokens of a request depend on its company: no figures")?
    }
    let figures =
        |pair: &Pair| verified.then(|| json!({ "slow_s": pair.slow, "fast_s": pair.fast }));
    screen.object(&json!({
        "benchmark": "engine",
        "device": name,
        "model": source.name(),
        "dtype": dtype,
        "streams": args.streams,
        "prompt": args.prompt,
        "tokens": args.tokens,
        "known": args.known,
        "verified": verified,
        "alone_and_together": figures(&streams),
        "cold_and_known": figures(&known),
    }))?;
    Ok(Outcome::of(verified))
}

/// Tokens of the bundled text; an error if they are fewer than the prompts need.
fn tokens(args: &BenchEngineArgs, source: &Source) -> Result<Vec<u32>, CliError> {
    let text = Text::bundled();
    let text = String::from_utf8_lossy(text.bytes());
    let ids = source.tokenizer.encode(&text, false)?;
    let streams = args.streams.saturating_mul(args.prompt);
    let needed = streams.max(args.known.saturating_add(2 * BEHIND));
    if ids.len() < needed {
        let have = ids.len();
        let message = format!(
            "expected prompts of {have} tokens at most, all of the bundled text, got {needed}"
        );
        return Err(CliError::usage(message, Some("fewer or shorter prompts")));
    }
    Ok(ids)
}

/// Engine options with room for all requests at the same time, from the start.
fn room(args: &BenchEngineArgs) -> EngineOptions {
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

/// Median seconds of two ways to generate the same tokens, and whether the tokens are the same.
struct Pair {
    slow: f64,
    fast: f64,
    same: bool,
}

impl Pair {
    /// Measures both ways in turns.
    fn measure(mut run: impl FnMut() -> Result<[Run; 2], CliError>) -> Result<Self, CliError> {
        let (mut slow, mut fast, mut same) = (Vec::new(), Vec::new(), true);
        for _ in 0..RUNS {
            let [one, other] = run()?;
            same &= one.said == other.said;
            slow.push(one.seconds);
            fast.push(other.seconds);
        }
        Ok(Self {
            slow: middle(&mut slow),
            fast: middle(&mut fast),
            same,
        })
    }
}

/// Seconds and tokens of some requests, in the order in which they were added.
#[derive(Default)]
struct Run {
    seconds: f64,
    said: Vec<Vec<u32>>,
}

/// An engine, and the tokens that its prompts are made of.
struct Bench<'a> {
    args: &'a BenchEngineArgs,
    engine: Engine,
    ids: Vec<u32>,
    /// Counter that salts the prompts, so that the engine's cache knows only those with the same count.
    prompts: u64,
}

impl Bench<'_> {
    /// Times the same requests one by one, then together.
    fn streams(&mut self) -> Result<Pair, CliError> {
        let (count, prompt, tokens) = (self.args.streams, self.args.prompt, self.args.tokens);
        Pair::measure(|| {
            let mut alone = Run::default();
            self.prompts += 1;
            for at in 0..count {
                let request = self.request(at * prompt..(at + 1) * prompt, tokens);
                let one = self.answer(vec![request])?;
                alone.seconds += one.seconds;
                alone.said.extend(one.said);
            }
            self.prompts += 1;
            let requests =
                (0..count).map(|at| self.request(at * prompt..(at + 1) * prompt, tokens));
            let requests = requests.collect();
            Ok([alone, self.answer(requests)?])
        })
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

    /// A request for `tokens` tokens after a range of the text; its beginning may be in the cache only while `prompts`
    /// stays the same.
    fn request(&self, prompt: Range<usize>, tokens: usize) -> Generation {
        let mut request = Generation::new(self.ids[prompt].to_vec(), tokens);
        request.salt = self.prompts.to_le_bytes().to_vec();
        request
    }

    /// Answers all `requests` together.
    fn answer(&mut self, requests: Vec<Generation>) -> Result<Run, CliError> {
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
        Ok(Run {
            seconds: begun.elapsed().as_secs_f64(),
            said,
        })
    }
}
