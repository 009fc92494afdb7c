//! `bench engine`: requests together and one by one, and a prompt whose beginning is known.

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

/// Runs of each, of which the median counts.
const RUNS: usize = 3;

/// Tokens of a prompt behind the beginning that is known.
const BEHIND: usize = 8;

/// Runs `moebius bench engine`.
pub(crate) fn run(args: &BenchEngineArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let source = Source::open(args.model.model.as_deref())?;
    let ids = tokens(args, &source)?;
    let ready = published::ready(&source.files, &args.place, screen)?;
    let name = ready.name;
    let engine = Engine::new(ready.model, room(args), &ready.device)?;
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

/// The bundled text's tokens, as many as the prompts take.
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

/// Room for all requests at the same time.
fn room(args: &BenchEngineArgs) -> EngineOptions {
    // The last page may be part of one, and one is to spare.
    let whole = |tokens: usize| tokens.saturating_add(2 * PAGE);
    let of_request = whole(args.prompt.saturating_add(args.tokens));
    let streams = args.streams.saturating_mul(of_request);
    let mut options = EngineOptions::for_one(streams.max(2 * whole(args.known + BEHIND)));
    options.limits.running = args.streams;
    options
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

/// Medians of two ways to the same tokens.
struct Pair {
    slow: f64,
    fast: f64,
    same: bool,
}

impl Pair {
    /// Of both ways in turns.
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

/// What some requests got, in the order in which they were added.
#[derive(Default)]
struct Run {
    seconds: f64,
    said: Vec<Vec<u32>>,
}

/// An engine, and the prompts that it is given.
struct Bench<'a> {
    args: &'a BenchEngineArgs,
    engine: Engine,
    ids: Vec<u32>,
    /// How often prompts were made that the engine must not know.
    prompts: u64,
}

impl Bench<'_> {
    /// The same requests one by one, and together.
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

    /// The first token of a prompt that is new, and of one whose beginning was in another.
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

    /// A request with a part of the text; what it begins with is known where `prompts` is the same.
    fn request(&self, prompt: Range<usize>, tokens: usize) -> Generation {
        let mut request = Generation::new(self.ids[prompt].to_vec(), tokens);
        request.salt = self.prompts.to_le_bytes().to_vec();
        request
    }

    /// Answers requests at the same time.
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
