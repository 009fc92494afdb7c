//! What a server measures, under the names that vLLM gives to the same things, with the prefix `moebius_` in place of `vllm:`.
//!
//! Events are counted where they happen, so that the counts equal those of clients: a token of an answer is counted when it is handed to the
//! client's stream, a prompt when its first answer begins to be given.

mod text;

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub(crate) use text::Exposition;

use moebius_engine::{CacheStatistics, Counts, LayerTokens, Proposals, Queue, StepSummary, Usage};

/// Prefix of all names.
const PREFIX: &str = "moebius";

/// Upper bounds of the histograms, those of vLLM.
const STEP_TOKENS: [f64; 13] = [
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const NEXT_TOKEN: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

/// Label of answers by the reason of their end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    finished_reason: &'static str,
}

/// Label of requests by the status that tells their failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    code: u32,
}

/// Label of requests by what there were too many of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejected {
    reason: &'static str,
}

/// Label of memory by what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Memory {
    kind: &'static str,
}

/// The kind of memory that keys and values take.
const CACHE: &str = "kv_cache";

/// Labels of an expert.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Expert {
    layer: u32,
    expert: u32,
}

/// Label of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Layer {
    layer: u32,
}

/// Label of the build.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// All metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    engine: EngineMetrics,
    requests: RequestMetrics,
    answers: AnswerHistograms,
}

/// What the engine is doing, and what its cache holds.
#[derive(Debug)]
struct EngineMetrics {
    running: Gauge,
    waiting: Gauge,
    cache_usage: Gauge<f64, AtomicU64>,
    prefix_queries: Counter,
    prefix_hits: Counter,
    preemptions: Counter,
    proposed: Counter,
    accepted: Counter,
    expert_queries: Counter,
    expert_hits: Counter,
    expert_read: Counter,
    memory: Family<Memory, Gauge>,
    step_tokens: Histogram,
    expert_load: Family<Expert, Gauge>,
    expert_load_cv: Family<Layer, Gauge<f64, AtomicU64>>,
}

/// Counts of tokens and of requests by their ends.
#[derive(Debug)]
struct RequestMetrics {
    prompt_tokens: Counter,
    generation_tokens: Counter,
    finished: Family<Finished, Counter>,
    failed: Family<Failed, Counter>,
    rejected: Family<Rejected, Counter>,
}

/// Histograms of which every answer gives a value.
#[derive(Debug)]
struct AnswerHistograms {
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    first_token: Histogram,
    next_token: Histogram,
    request: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

/// How an engine is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineLoad {
    pub(crate) queue: Queue,
    pub(crate) usage: Usage,
    pub(crate) counts: Counts,
    pub(crate) proposals: Proposals,
    /// Bytes of the cache.
    pub(crate) cache_bytes: usize,
    /// The moves of experts to the device.
    pub(crate) experts: CacheStatistics,
}

/// Times of an answer, for its histograms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerTimes {
    /// Arrival of the request.
    pub(crate) arrived: Instant,
    /// Beginning of the first step that computed a part of the prompt.
    pub(crate) begun: Option<Instant>,
    /// First token.
    pub(crate) first: Option<Instant>,
    /// Last token.
    pub(crate) last: Option<Instant>,
}

impl Metrics {
    /// Metrics of a model with this name, whose requests have at most `context` tokens.
    pub(crate) fn new(model: &str, context: usize) -> Self {
        let labels = [(Cow::from("model_name"), Cow::from(model.to_owned()))];
        let mut registry = Registry::with_prefix_and_labels(PREFIX, labels.into_iter());
        describe(&mut registry, context);
        Self {
            engine: EngineMetrics::new(&mut registry),
            requests: RequestMetrics::new(&mut registry),
            answers: AnswerHistograms::new(&mut registry, context),
            registry,
        }
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// [`std::fmt::Error`] if a metric can't be written.
    pub(crate) fn exposition(&self, form: Exposition) -> Result<String, std::fmt::Error> {
        form.of(&self.registry)
    }

    /// Tells how the engine is loaded now; `before` is what was told last.
    pub(crate) fn load(&self, load: &EngineLoad, before: &EngineLoad) {
        let of = &self.engine;
        let (counts, counted) = (load.counts, before.counts);
        let (proposals, told) = (load.proposals, before.proposals);
        of.running.set(load.queue.running as i64);
        of.waiting.set(load.queue.waiting as i64);
        let all = load.usage.used + load.usage.available();
        of.cache_usage
            .set(load.usage.used as f64 / all.max(1) as f64);
        of.prefix_queries
            .inc_by(counts.looked_up - counted.looked_up);
        of.prefix_hits.inc_by(counts.found - counted.found);
        of.preemptions
            .inc_by(counts.preemptions - counted.preemptions);
        of.proposed.inc_by(proposals.proposed - told.proposed);
        of.accepted.inc_by(proposals.accepted - told.accepted);
        let (experts, seen) = (load.experts, before.experts);
        let (hits, misses) = (experts.hits - seen.hits, experts.misses - seen.misses);
        of.expert_queries.inc_by(hits + misses);
        of.expert_hits.inc_by(hits);
        of.expert_read.inc_by(experts.read_bytes - seen.read_bytes);
        let memory = of.memory.get_or_create(&Memory { kind: CACHE });
        memory.set(load.cache_bytes as i64);
    }

    /// Tells the tokens of each layer's experts since the start.
    pub(crate) fn experts(&self, layers: &[LayerTokens]) {
        for LayerTokens { layer, tokens } in layers {
            let layer = *layer as u32;
            for (expert, count) in (0..).zip(tokens) {
                let load = self
                    .engine
                    .expert_load
                    .get_or_create(&Expert { layer, expert });
                load.set(*count as i64);
            }
            let spread = self.engine.expert_load_cv.get_or_create(&Layer { layer });
            spread.set(variation(tokens));
        }
    }

    /// Counts a step.
    pub(crate) fn step(&self, step: &StepSummary) {
        self.engine.step_tokens.observe(step.tokens as f64);
    }

    /// Counts the prompt of a request whose answer begins.
    pub(crate) fn prompt(&self, tokens: usize) {
        self.requests.prompt_tokens.inc_by(tokens as u64);
    }

    /// Counts a generated token, given at `now`, after the earlier ones of `times`.
    pub(crate) fn token(&self, times: &AnswerTimes, now: Instant) {
        self.requests.generation_tokens.inc();
        match times.last {
            None => observe(&self.answers.first_token, times.arrived, now),
            Some(last) => observe(&self.answers.next_token, last, now),
        }
    }

    /// Counts an answer that ended for `reason`, with the numbers of tokens of its prompt and of itself.
    pub(crate) fn finished(
        &self,
        reason: &'static str,
        [prompt, generated]: [usize; 2],
        times: &AnswerTimes,
    ) {
        let label = Finished {
            finished_reason: reason,
        };
        self.requests.finished.get_or_create(&label).inc();
        let of = &self.answers;
        of.prompt_tokens.observe(prompt as f64);
        of.generation_tokens.observe(generated as f64);
        observe(&of.request, times.arrived, Instant::now());
        if let Some(begun) = times.begun {
            observe(&of.queue, times.arrived, begun);
            if let (Some(first), Some(last)) = (times.first, times.last) {
                observe(&of.prefill, begun, first);
                observe(&of.decode, first, last);
            }
        }
    }

    /// Counts a request that failed with `status`.
    pub(crate) fn failed(&self, status: u16) {
        let code = u32::from(status);
        self.requests.failed.get_or_create(&Failed { code }).inc();
    }

    /// Counts a request that was refused for too many of `reason`.
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.requests
            .rejected
            .get_or_create(&Rejected { reason })
            .inc();
    }
}

/// Adds what doesn't change while a server runs.
fn describe(registry: &mut Registry, context: usize) {
    let build = Family::<Build, Gauge>::default();
    let version = env!("CARGO_PKG_VERSION");
    build.get_or_create(&Build { version }).set(1);
    added(registry, "build_info", "Version of the program", build);
    let model = Gauge::<i64>::default();
    model.set(context as i64);
    let says = "Largest number of tokens of a request to the model";
    added(registry, "model_info", says, model);
}

impl EngineMetrics {
    fn new(registry: &mut Registry) -> Self {
        let gauge = Gauge::<i64>::default;
        let says = "Answers that are being computed";
        let running = added(registry, "num_requests_running", says, gauge());
        let says = "Answers that wait for the engine";
        let waiting = added(registry, "num_requests_waiting", says, gauge());
        let says = "Share of the cache's pages in use, from 0 to 1";
        let cache_usage = added(registry, "kv_cache_usage_perc", says, Gauge::default());
        let says = "Prompt tokens looked up in the prefix cache";
        let prefix_queries = counter(registry, "prefix_cache_queries", says);
        let says = "Prompt tokens found in the prefix cache";
        let prefix_hits = counter(registry, "prefix_cache_hits", says);
        let says = "Times that an answer gave up its pages";
        let preemptions = counter(registry, "num_preemptions", says);
        let says = "Proposed tokens that were verified";
        let proposed = counter(registry, "spec_decode_num_draft_tokens", says);
        let says = "Proposed tokens that answers got";
        let accepted = counter(registry, "spec_decode_num_accepted_tokens", says);
        let says = "Times that a layer needed an expert that may be elsewhere than on the device";
        let expert_queries = counter(registry, "expert_cache_queries", says);
        let says = "Times that such an expert was on the device";
        let expert_hits = counter(registry, "expert_cache_hits", says);
        let says = "Bytes of experts read from the model's files since it was loaded";
        let expert_read = counter(registry, "expert_cache_read_bytes", says);
        let says = "Bytes on the device, by what they hold";
        let memory = added(registry, "device_memory_bytes", says, Family::default());
        let says = "Tokens computed in a step";
        let step_tokens = histogram(registry, "iteration_tokens_total", says, &STEP_TOKENS);
        let says = "Tokens that an expert got since the start, if they are counted";
        let expert_load = added(registry, "expert_load", says, Family::default());
        let says = "Standard deviation of a layer's experts' tokens over their mean";
        let expert_load_cv = added(registry, "expert_load_cv", says, Family::default());
        Self {
            running,
            waiting,
            cache_usage,
            prefix_queries,
            prefix_hits,
            preemptions,
            proposed,
            accepted,
            expert_queries,
            expert_hits,
            expert_read,
            memory,
            step_tokens,
            expert_load,
            expert_load_cv,
        }
    }
}

impl RequestMetrics {
    fn new(registry: &mut Registry) -> Self {
        let says = "Prompt tokens of requests that were answered";
        let prompt_tokens = counter(registry, "prompt_tokens", says);
        let generation_tokens = counter(registry, "generation_tokens", "Generated tokens");
        let says = "Answers that ended, by the reason";
        let finished = added(registry, "request_success", says, Family::default());
        let says = "Requests that failed, by the status; 499 are clients that left";
        let failed = added(registry, "request_failures", says, Family::default());
        let says = "Requests refused for a full queue, by what there was too much of";
        let rejected = added(registry, "admission_rejections", says, Family::default());
        Self {
            prompt_tokens,
            generation_tokens,
            finished,
            failed,
            rejected,
        }
    }
}

impl AnswerHistograms {
    fn new(registry: &mut Registry, context: usize) -> Self {
        let tokens = one_two_five(context);
        let mut add = |name, help, bounds: &[f64]| histogram(registry, name, help, bounds);
        Self {
            prompt_tokens: add(
                "request_prompt_tokens",
                "Prompt tokens of an answer",
                &tokens,
            ),
            generation_tokens: add("request_generation_tokens", "Tokens of an answer", &tokens),
            first_token: add(
                "time_to_first_token_seconds",
                "Time from a request's arrival to the first token",
                &FIRST_TOKEN,
            ),
            next_token: add(
                "inter_token_latency_seconds",
                "Time from a token to the next",
                &NEXT_TOKEN,
            ),
            request: add(
                "e2e_request_latency_seconds",
                "Time from a request's arrival to its end",
                &REQUEST,
            ),
            queue: add(
                "request_queue_time_seconds",
                "Time for which an answer waited for the engine",
                &REQUEST,
            ),
            prefill: add(
                "request_prefill_time_seconds",
                "Time from an answer's first step to its first token",
                &REQUEST,
            ),
            decode: add(
                "request_decode_time_seconds",
                "Time from an answer's first token to its last",
                &REQUEST,
            ),
        }
    }
}

/// The standard deviation of counts over their mean; 0 for counts that are all 0.
fn variation(counts: &[u64]) -> f64 {
    let number = counts.len().max(1) as f64;
    let mean = counts.iter().sum::<u64>() as f64 / number;
    let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
    let deviation = (squares.sum::<f64>() / number).sqrt();
    if mean > 0.0 { deviation / mean } else { 0.0 }
}

fn observe(histogram: &Histogram, from: Instant, to: Instant) {
    let took: Duration = to.saturating_duration_since(from);
    histogram.observe(took.as_secs_f64());
}

/// Registers a metric, and returns it.
fn added<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a counter, whose name is written with the ending `_total`.
fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    added(registry, name, help, Counter::default())
}

fn histogram(registry: &mut Registry, name: &str, help: &str, bounds: &[f64]) -> Histogram {
    let histogram = Histogram::new(bounds.iter().copied());
    added(registry, name, help, histogram)
}

/// The numbers 1, 2, 5, 10, 20, 50 and so on, up to `most`.
fn one_two_five(most: usize) -> Vec<f64> {
    let decades = (0..usize::MAX.ilog10()).map(|power| 10_usize.pow(power));
    let numbers = decades.flat_map(|ten| [1, 2, 5].map(|of| ten * of));
    let numbers = numbers.take_while(|number| *number <= most.max(1));
    numbers.map(|number| number as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_under_the_documented_names() {
        let metrics = Metrics::new("a \"model\"", 1000);
        let arrived = Instant::now();
        let mut times = AnswerTimes {
            arrived,
            begun: Some(arrived),
            first: None,
            last: None,
        };
        for _ in 0..3 {
            metrics.token(&times, arrived);
            times.first.get_or_insert(arrived);
            times.last = Some(arrived);
        }
        metrics.prompt(7);
        metrics.finished("stop", [7, 3], &times);
        metrics.failed(429);
        metrics.rejected("requests");
        let text = metrics.exposition(Exposition::Classic).unwrap();
        let label = r#"model_name="a \"model\"""#;
        for line in [
            format!("moebius_generation_tokens_total{{{label}}} 3"),
            format!("moebius_prompt_tokens_total{{{label}}} 7"),
            format!("moebius_inter_token_latency_seconds_count{{{label}}} 2"),
            format!("moebius_time_to_first_token_seconds_count{{{label}}} 1"),
            "# TYPE moebius_prompt_tokens_total counter".to_owned(),
            "# TYPE moebius_num_requests_running gauge".to_owned(),
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        for part in [
            r#"finished_reason="stop""#,
            r#"code="429""#,
            r#"reason="requests""#,
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("# EOF"));
        let open = metrics.exposition(Exposition::Open).unwrap();
        assert!(open.ends_with("# EOF\n"));
    }

    /// Metrics, types and labels of `docs/deploy/metrics.tsv`, against which board and alerts are checked.
    #[test]
    fn the_committed_list_is_what_is_told() {
        let metrics = Metrics::new("model", 1000);
        let now = Instant::now();
        let times = AnswerTimes {
            arrived: now,
            begun: Some(now),
            first: Some(now),
            last: Some(now),
        };
        metrics.finished("stop", [7, 3], &times);
        metrics.failed(429);
        metrics.rejected("requests");
        metrics.experts(&[LayerTokens {
            layer: 0,
            tokens: vec![1, 2],
        }]);
        let before = EngineLoad {
            queue: Queue::default(),
            usage: Usage {
                free: 1,
                cached: 0,
                used: 0,
            },
            counts: Counts::default(),
            proposals: Proposals::default(),
            cache_bytes: 1,
            experts: CacheStatistics::default(),
        };
        let experts = CacheStatistics {
            hits: 5,
            misses: 3,
            read_bytes: 7,
            ..CacheStatistics::default()
        };
        let proposals = Proposals {
            proposed: 5,
            accepted: 3,
        };
        let load = EngineLoad {
            proposals,
            experts,
            ..before
        };
        metrics.load(&load, &before);
        let text = metrics.exposition(Exposition::Classic).unwrap();
        for (what, count) in [
            ("spec_decode_num_draft_tokens", 5),
            ("spec_decode_num_accepted_tokens", 3),
            ("expert_cache_queries", 8),
            ("expert_cache_hits", 5),
            ("expert_cache_read_bytes", 7),
        ] {
            let sample = format!("moebius_{what}_total{{");
            let line = text.lines().find(|line| line.starts_with(&sample));
            assert!(line.unwrap().ends_with(&format!(" {count}")), "{line:?}");
        }
        let types = text.lines();
        let types = types.filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let row = |(name, kind): (&str, &str)| {
            let ending = if kind == "histogram" { "_count" } else { "" };
            let sample = format!("{name}{ending}{{");
            let labels = text.lines().find_map(|line| {
                let (labels, _) = line.strip_prefix(&sample)?.split_once('}')?;
                Some(labels)
            });
            let names = labels.unwrap().split(',');
            let names = names.filter_map(|label| label.split('=').next());
            let names: Vec<&str> = names.filter(|name| *name != "model_name").collect();
            format!("{name}\t{kind}\t{}", names.join(","))
        };
        let mut rows: Vec<String> = types.map(row).collect();
        rows.sort();
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deploy/metrics.tsv");
        let list = std::fs::read_to_string(list).unwrap();
        let listed: Vec<&str> = list.lines().filter(|row| !row.starts_with('#')).collect();
        assert_eq!(rows, listed);
    }

    #[test]
    fn spread_is_none_for_equal_counts() {
        assert_eq!(variation(&[3, 3, 3]), 0.0);
        assert_eq!(variation(&[0, 0]), 0.0);
        assert_eq!(variation(&[]), 0.0);
        assert_eq!(variation(&[0, 4]), 1.0);
    }

    #[test]
    fn bounds_of_tokens_follow_the_context() {
        assert_eq!(one_two_five(0), [1.0]);
        assert_eq!(one_two_five(60), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert!(one_two_five(usize::MAX).len() < 60);
    }
}
