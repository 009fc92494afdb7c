use super::*;
use crate::args::ModelPrecision;
use moebius::attention::CacheFormat;
use moebius_model::computation::Part;

/// A lab with made-up figures: the milliseconds of a plan with half of their range, its bytes, and how far its only part is from f32.
struct Made {
    figures: fn(Plan) -> (f64, f64, u64),
    distance: fn(Plan) -> f64,
    perplexity: f64,
    same_tokens: bool,
    verified: bool,
    /// The plans that were measured against each other.
    turns: Vec<[Plan; 2]>,
}

impl Made {
    fn new(figures: fn(Plan) -> (f64, f64, u64)) -> Self {
        Self {
            figures,
            distance: |_| 0.0,
            perplexity: 0.0,
            same_tokens: true,
            verified: true,
            turns: Vec::new(),
        }
    }

    fn search(&mut self, level: Level, goal: Goal) -> (Plan, Vec<Trial>) {
        let budget = Budget::of(level, None);
        let wanted = Wanted {
            level,
            goal,
            budget,
        };
        search(self, Plan::default(), wanted)
    }

    fn figures(&self, plan: Plan) -> Figures {
        let (ms, range, bytes) = (self.figures)(plan);
        let timing = |ms: f64| Timing {
            seconds: ms / 1e3,
            quartiles: [ms - range, ms + range].map(|ms| ms / 1e3),
            runs: 5,
        };
        Figures {
            alone: timing(ms),
            together: timing(ms / 2.0),
            bytes,
        }
    }
}

impl Lab for Made {
    type Ready = Plan;

    fn load(&mut self, plan: Plan) -> Result<Plan, CliError> {
        if plan.dtype == ModelPrecision::Bf16 {
            return Err(CliError::usage("no bf16 here", None));
        }
        Ok(plan)
    }

    fn judge(&mut self, plan: &Plan, _: Budget) -> Result<Accuracy, CliError> {
        let part = Distance {
            layer: Some(3),
            part: Part::Experts,
            judged: 1,
            relative_l2: Some((self.distance)(*plan)),
            ulps: None,
            flips: Vec::new(),
        };
        Ok(Accuracy {
            parts: vec![part],
            greedy: None,
            perplexity: Some(self.perplexity),
        })
    }

    fn measure(&mut self, best: &mut Plan, other: &mut Plan) -> Result<Turns, CliError> {
        self.turns.push([*best, *other]);
        Ok(Turns {
            best: self.figures(*best),
            other: self.figures(*other),
            same_tokens: self.same_tokens,
            verified: self.verified,
        })
    }
}

fn verdicts(trials: &[Trial]) -> Vec<(String, Verdict)> {
    let trials = trials.iter();
    trials
        .map(|trial| (trial.change.flag(), trial.verdict.clone()))
        .collect()
}

/// What became of the change with this flag.
fn of(trials: &[Trial], flag: &str) -> Verdict {
    let found = trials.iter().find(|trial| trial.change.flag() == flag);
    found.unwrap().verdict.clone()
}

#[test]
fn a_change_is_kept_from_five_percent_on_and_later_ones_are_tried_on_top() {
    // f16 takes 5 % less, n-grams 4.9 % less of that.
    let mut lab = Made::new(|plan| {
        let half = plan.dtype == ModelPrecision::F16;
        let ms = if half { 950.0 } else { 1000.0 };
        let ngrams = if plan.ngrams { 0.951 } else { 1.0 };
        (ms * ngrams, 1.0, 100)
    });
    let (plan, trials) = lab.search(Level::Balanced, Goal::Latency);
    let failed = Verdict::Failed("no bf16 here".to_owned());
    // A narrow embedding and caches in 16 bits are no change of a model in f16.
    let expected = [
        ("--dtype f16", Verdict::Kept),
        ("--dtype bf16", failed),
        ("--dtype fp8", Verdict::Small),
        ("--speculate ngram", Verdict::Small),
    ];
    let expected = expected.map(|(flag, verdict)| (flag.to_owned(), verdict));
    assert_eq!(verdicts(&trials), expected);
    let half = Plan::default()
        .with(Change::Dtype(ModelPrecision::F16))
        .unwrap();
    assert_eq!(plan, half);
    let [first, .., last] = &lab.turns[..] else {
        panic!("{:?}", lab.turns)
    };
    assert_eq!(*first, [Plan::default(), half]);
    assert_eq!(*last, [half, half.with(Change::Ngrams).unwrap()]);
}

#[test]
fn a_saving_within_the_noise_is_not_kept() {
    let half = |plan: Plan| plan.dtype == ModelPrecision::F16;
    // 20 % less, where the ranges of half the repetitions are 100 ms each, and then 99.
    let mut lab = Made::new(|plan| {
        let ms = if plan.dtype == ModelPrecision::F16 {
            800.0
        } else {
            1000.0
        };
        (ms, 50.0, 100)
    });
    let (plan, trials) = lab.search(Level::Balanced, Goal::Latency);
    assert_eq!(of(&trials, "--dtype f16"), Verdict::Noise);
    assert!(!half(plan));
    let mut lab = Made::new(|plan| {
        let ms = if plan.dtype == ModelPrecision::F16 {
            800.0
        } else {
            1000.0
        };
        (ms, 49.5, 100)
    });
    assert!(half(lab.search(Level::Balanced, Goal::Latency).0));
    // What has no number saves nothing.
    let mut lab = Made::new(|_| (f64::NAN, 0.0, 100));
    let (plan, _) = lab.search(Level::Balanced, Goal::Throughput);
    assert_eq!(plan, Plan::default());
}

#[test]
fn the_goal_says_which_figure_counts() {
    let mut lab = Made::new(|plan| {
        let small = plan.cache == crate::args::CachePrecision::Given(CacheFormat::F16);
        (
            if small { 2000.0 } else { 1000.0 },
            0.0,
            if small { 50 } else { 100 },
        )
    });
    let (plan, trials) = lab.search(Level::Conservative, Goal::Memory);
    assert_eq!(plan.format(), CacheFormat::F16);
    assert!(trials.iter().all(|trial| trial.change != Change::Ngrams));
    let (plan, _) = lab.search(Level::Conservative, Goal::Latency);
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_result_beyond_the_budget_is_refused_by_name_and_not_measured() {
    let faster = |plan: Plan| {
        let plain = plan == Plan::default();
        (if plain { 1000.0 } else { 10.0 }, 0.0, 100)
    };
    let mut lab = Made::new(faster);
    lab.distance = |plan| {
        if plan.dtype == ModelPrecision::Fp8 {
            0.11
        } else {
            0.09
        }
    };
    let (_, trials) = lab.search(Level::Balanced, Goal::Latency);
    let refused = "layer 3, experts: expected at most 1.0e-1 from f32, got 1.1e-1";
    let refused = Verdict::Inaccurate(refused.to_owned());
    assert_eq!(of(&trials, "--dtype fp8"), refused);
    assert_eq!(of(&trials, "--dtype f16"), Verdict::Kept);
    let measured = lab.turns.iter().flatten();
    let mut measured = measured.map(|plan| plan.dtype);
    assert!(!measured.any(|dtype| dtype == ModelPrecision::Fp8));
    // The same distance is within the larger budget.
    let mut larger = Made::new(faster);
    larger.distance = |_| 0.11;
    let (plan, _) = larger.search(Level::Aggressive, Goal::Latency);
    assert_eq!(plan.dtype, ModelPrecision::F16);
    for perplexity in [0.011, f64::NAN] {
        let mut lab = Made::new(faster);
        lab.perplexity = perplexity;
        let (plan, trials) = lab.search(Level::Balanced, Goal::Latency);
        assert_eq!(plan, Plan::default());
        let said = format!("{:?}", of(&trials, "--dtype f16"));
        assert!(
            said.contains("perplexity: expected at most 1.00 %"),
            "{said}"
        );
    }
}

#[test]
fn the_smallest_level_wants_the_same_tokens() {
    let greedy = Greedy {
        position: 7,
        expected: 3,
        got: 4,
        margin: None,
    };
    let accuracy = Accuracy {
        parts: Vec::new(),
        greedy: Some(greedy),
        perplexity: Some(0.0),
    };
    let fault = |level| accuracy.fault(Budget::of(level, None));
    let said = fault(Level::Conservative).unwrap();
    assert_eq!(said, "likeliest token after 7: expected 3, got 4");
    assert_eq!(fault(Level::Balanced), None);
}

#[test]
fn tokens_that_should_be_the_same_must_be() {
    let faster = |plan: Plan| (if plan.ngrams { 10.0 } else { 1000.0 }, 0.0, 100);
    let mut lab = Made::new(faster);
    assert!(lab.search(Level::Conservative, Goal::Latency).0.ngrams);
    lab.same_tokens = false;
    let (plan, trials) = lab.search(Level::Conservative, Goal::Latency);
    let of_ngrams = of(&trials, "--speculate ngram");
    assert!(matches!(of_ngrams, Verdict::Unverified(_)), "{of_ngrams:?}");
    assert!(!plan.ngrams);
    lab.verified = false;
    let (_, trials) = lab.search(Level::Conservative, Goal::Latency);
    let all = trials.iter();
    let mut all = all.map(|trial| &trial.verdict);
    assert!(all.all(|verdict| matches!(verdict, Verdict::Unverified(_))));
}
