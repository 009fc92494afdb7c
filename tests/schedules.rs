//! The inference engine on every device: however requests are batched, split, found in the cache or preempted, whenever the
//! cache grows, and whoever proposes tokens, each gets the same tokens and probabilities as alone, to the bit; on XLA, whose order
//! of summation depends on the shapes, to 1e-5. With `MOEBIUS_TEST_DEEP=1` there are 10,000 schedules on `flex`, and more than usual
//! on the other devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;
use moebius_device::Runtime;
use moebius_engine::{
    Draw, Engine, EngineOptions, Event, Generation, Limits, Ngrams, PAGE, RequestId, Sampling,
    SamplingOptions,
};
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_tests::target::Target;

/// The seed of the first schedule, one in which a request is preempted, as in one of ten.
const FIRST: u64 = 80;

/// The number of random schedules on a device. It is small where a schedule takes seconds: on `cpu`, whose launches are slow,
/// and on XLA, which compiles a program for each shape of a step. The scheduler is the same everywhere, so the deep tier runs
/// most on `flex`, where a schedule takes milliseconds.
fn schedules(device: &str, deep: bool) -> u64 {
    match (device, deep) {
        ("cpu", false) => 5,
        ("xla:cpu", false) => 3,
        ("flex", false) => 50,
        (_, false) => 20,
        ("flex", true) => 10_000,
        ("cpu", true) => 50,
        ("xla:cpu", true) => 10,
        (_, true) => 200,
    }
}

/// A model of two layers of experts in a published architecture.
const MODEL: &str = "decoder_olmoe";

/// A model of other weights, which as a draft is mostly wrong.
const FOREIGN: &str = "decoder_gpt_oss";

/// Models with softmax routers, with windows and sinks, with latent attention, and with convolutions.
const FILLED: [&str; 4] = [MODEL, FOREIGN, "decoder_deepseek_v3", "decoder_lfm2_moe"];

/// The vocabulary size of all cases.
const VOCABULARY: u32 = 64;

fn model(name: &str, device: &Device) -> Model {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let model = files.load(device, LoadOptions::default(), &mut |_| ());
    model.unwrap()
}

/// An engine whose cache has `reserve` pages at first.
fn engine(model: &Model, limits: Limits, reserve: usize, device: &Device) -> Engine {
    let options = EngineOptions {
        reserve,
        ..EngineOptions::new(limits)
    };
    Engine::new(model.clone(), options, device).unwrap()
}

/// A generator of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    /// A random number in `range`.
    fn of(&mut self, range: std::ops::RangeInclusive<u64>) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let (first, last) = range.into_inner();
        (first + (mixed ^ (mixed >> 31)) % (last - first + 1)) as usize
    }
}

/// Requests, some with a common prefix: prompts of 1 to 40 tokens, answers of 2 to 7.
fn requests() -> Vec<Generation> {
    let mut random = Random(17);
    let request = |n: u64| {
        let start = n % 3;
        let token = |at: u64| ((at * 7 + start * 13 + at * at) as u32) % VOCABULARY;
        // Half of the prompts end near the end of a page, so that their answers soon need another one, and may find none.
        let length = match n % 2 {
            0 => random.of(1..=40),
            _ => PAGE * random.of(1..=2) - random.of(0..=2),
        } as u64;
        let sampling = SamplingOptions {
            temperature: if n % 4 < 2 { 0.0 } else { 0.8 },
            seed: n,
            logprobs: Some(8),
            ..SamplingOptions::default()
        };
        Generation::new((0..length).map(token).collect(), random.of(2..=7))
            .with_sampling(Sampling::new(sampling).unwrap())
    };
    (0..10).map(request).collect()
}

/// The draws of each request, by its number.
type Draws = BTreeMap<RequestId, Vec<Draw>>;

fn step(engine: &mut Engine, draws: &mut Draws) {
    for (id, event) in engine.step().unwrap() {
        if let Event::Token(draw) = event {
            draws.entry(id).or_default().push(draw);
        }
    }
}

fn alone(model: &Model, request: &Generation, device: &Device) -> Vec<Draw> {
    let mut engine = engine(model, Limits::new(8, 64, 1), 8, device);
    let id = engine.add(request.clone()).unwrap();
    let mut draws = Draws::new();
    while !engine.is_idle() {
        step(&mut engine, &mut draws);
    }
    draws.remove(&id).unwrap()
}

/// The events that occurred in a schedule.
#[derive(Default)]
struct Met {
    found: bool,
    preempted: bool,
    accepted: bool,
}

/// Who proposes tokens in a schedule: nobody, n-grams, or a draft.
type Proposing<'a> = &'a dyn Fn(&mut Engine, u64);

/// Runs a schedule with random limits, in which requests come and go between steps.
fn schedule(
    seed: u64,
    (model, proposing): (&Model, Proposing<'_>),
    want: &[(Generation, Vec<Draw>)],
    target: &Target,
) -> Met {
    let device = target.burn();
    let mut random = Random(seed);
    let running = random.of(2..=5);
    let pages = random.of(3..=4);
    let limits = Limits::new(pages, random.of(running as u64..=48), running);
    // XLA would compile the programs of each size of the cache.
    let reserve = if target.name.starts_with("xla") {
        pages
    } else {
        1 + seed as usize % pages
    };
    let mut engine = engine(model, limits, reserve, &device);
    proposing(&mut engine, seed);
    let (mut draws, mut asked) = (Draws::new(), BTreeMap::new());
    let mut waiting = random.of(3..=5);
    while waiting > 0 || !engine.is_idle() {
        if waiting > 0 && (engine.is_idle() || random.of(0..=1) == 0) {
            let which = random.of(0..=want.len() as u64 - 1);
            asked.insert(engine.add(want[which].0.clone()).unwrap(), which);
            waiting -= 1;
        }
        if random.of(0..=19) == 0
            && let Some((&id, _)) = asked.last_key_value()
            && engine.cancel(id)
        {
            asked.remove(&id);
        }
        step(&mut engine, &mut draws);
    }
    for (id, which) in asked {
        let what = format!("{}: request {which} of schedule {seed}", target.name);
        assert_same(&draws[&id], &want[which].1, &what);
    }
    let counts = engine.counts();
    Met {
        found: counts.found > 0,
        preempted: counts.preemptions > 0,
        accepted: engine.proposals().accepted > 0,
    }
}

fn assert_same(got: &[Draw], want: &[Draw], what: &str) {
    if !what.starts_with("xla") {
        assert_eq!(got, want, "{what}");
        return;
    }
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.id, want.id, "{what}");
        let chosen = |draw: &Draw| draw.logprobs.as_ref().unwrap().chosen;
        let apart = (chosen(got) - chosen(want)).abs();
        assert!(apart <= 1e-5, "{what}: {apart}");
    }
}

#[test]
fn no_schedule_changes_a_bit() {
    let deep = std::env::var("MOEBIUS_TEST_DEEP").is_ok_and(|value| value == "1");
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let model = model(MODEL, &device);
        let with_draws = |request: Generation| {
            let draws = alone(&model, &request, &device);
            (request, draws)
        };
        let want: Vec<_> = requests().into_iter().map(with_draws).collect();
        let seeds = FIRST..FIRST + schedules(name, deep);
        let runs = seeds.map(|seed| schedule(seed, (&model, &|_, _| ()), &want, target));
        let met: Vec<Met> = runs.collect();
        let found = met.iter().filter(|met| met.found).count();
        let preempted = met.iter().filter(|met| met.preempted).count();
        assert!(found >= 1, "{name}: no schedule found a prompt again");
        assert!(preempted >= 1, "{name}: no schedule preempted a request");
    }
}

/// One in three schedules again, in which tokens are proposed: by the model itself, by n-grams, and by a model that is mostly wrong.
#[test]
fn no_proposal_changes_a_bit() {
    let deep = std::env::var("MOEBIUS_TEST_DEEP").is_ok_and(|value| value == "1");
    for target in Target::all() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let [model, foreign] = [MODEL, FOREIGN].map(|name| model(name, &device));
        let with_draws = |request: Generation| {
            let draws = alone(&model, &request, &device);
            (request, draws)
        };
        let want: Vec<_> = requests().into_iter().map(with_draws).collect();
        let propose = |engine: &mut Engine, seed: u64| {
            let most = 1 + (seed % 4) as usize;
            let proposing = match (seed - FIRST) % 3 {
                0 => engine.speculate_by_draft(model.clone(), most),
                1 => engine.speculate_by_ngrams(Ngrams::new(3, most).unwrap()),
                _ => engine.speculate_by_draft(foreign.clone(), most),
            };
            proposing.unwrap();
        };
        let seeds = FIRST..FIRST + schedules(name, deep).div_ceil(3);
        let runs = seeds.map(|seed| schedule(seed, (&model, &propose), &want, target));
        let accepted = runs.filter(|met| met.accepted).count();
        assert!(accepted >= 1, "{name}: no proposed token was right");
    }
}

/// Calls that are filled up to few shapes give the same draws, probabilities and routes, and neither steps nor experts count what fills up. On
/// XLA all calls are, which `padding` is about.
#[test]
fn filled_up_calls_change_no_bit() {
    let targets = Target::all().iter();
    for target in targets.filter(|target| target.capability().runtime != Runtime::Xla) {
        let _alone = target.alone();
        let device = target.burn();
        for name in FILLED {
            let model = model(name, &device);
            let run = |fills: bool| {
                let mut engine = engine(&model, Limits::new(64, 24, 5), 8, &device);
                if fills {
                    engine.fill_up().unwrap();
                }
                engine.record_routes().unwrap();
                assert!(engine.count_experts());
                let asked = requests().into_iter().take(5);
                let ids = asked.map(|request| engine.add(request).unwrap());
                let ids: Vec<RequestId> = ids.collect();
                let (mut draws, mut steps, mut filled) = (Draws::new(), Vec::new(), 0);
                while !engine.is_idle() {
                    step(&mut engine, &mut draws);
                    steps.push(engine.last_step().tokens);
                    filled += engine.last_step().filled;
                }
                assert_eq!(filled > 0, fills, "{name}[{}]", target.name);
                let routes = ids.into_iter().map(|id| engine.take_routes(id).unwrap());
                let routes: Vec<_> = routes.map(Option::unwrap).collect();
                (draws, steps, routes, engine.expert_load().unwrap())
            };
            assert_eq!(run(true), run(false), "{name}[{}]", target.name);
        }
    }
}
