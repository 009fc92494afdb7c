//! The search: which changes are tried, how they are judged, and which are kept. What loads, judges and measures is given to it.

use moebius_benches::timing::Timing;
use moebius_model::computation::{Distance, Greedy, parting};

use super::plan::{Budget, Change, Plan, changes};
use crate::args::{Goal, Level};
use crate::error::CliError;

/// Smallest saving for which a change is kept, as a share of the figure before.
const LEAST: f64 = 0.05;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) level: Level,
    pub(super) goal: Goal,
    pub(super) budget: Budget,
}

/// Loads models by plans, judges what they compute, and measures them.
pub(super) trait Lab {
    /// A model that is ready to answer.
    type Ready;

    fn load(&mut self, plan: Plan) -> Result<Self::Ready, CliError>;

    /// How far what a model computes is from f32.
    fn judge(&mut self, model: &Self::Ready, budget: Budget) -> Result<Accuracy, CliError>;

    /// Measures two models in turns.
    fn measure(
        &mut self,
        best: &mut Self::Ready,
        other: &mut Self::Ready,
    ) -> Result<Turns, CliError>;
}

/// How far what a model computes is from f32.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accuracy {
    /// The distances of all parts.
    pub(super) parts: Vec<Distance>,
    /// The first place of the sample after which another token is the likeliest.
    pub(super) greedy: Option<Greedy>,
    /// Growth of the perplexity, as a share of f32's; `None` where a part is too far away for it to be measured.
    pub(super) perplexity: Option<f64>,
}

/// Figures of one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Time of all requests one by one.
    pub(super) alone: Timing,
    /// Time of the same requests together.
    pub(super) together: Timing,
    /// Bytes of weights and cache.
    pub(super) bytes: u64,
}

/// What was measured of two models in turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turns {
    pub(super) best: Figures,
    pub(super) other: Figures,
    /// Whether both gave each request the same tokens.
    pub(super) same_tokens: bool,
    /// Whether the tokens of the other's requests were those without company.
    pub(super) verified: bool,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Kept,
    /// It saves less than [`LEAST`].
    Small,
    /// It saves no more than the ranges of half the repetitions of both.
    Noise,
    /// The result is further from f32 than the budget allows, and in what.
    Inaccurate(String),
    /// The tokens are not what the change promises.
    Unverified(&'static str),
    /// The device couldn't load or compute it, and why.
    Failed(String),
}

/// A change that was tried, with what was found as far as it was looked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) change: Change,
    pub(super) accuracy: Option<Accuracy>,
    pub(super) turns: Option<Turns>,
    pub(super) verdict: Verdict,
}

impl Goal {
    /// The figure that becomes smaller, and the range of half of its repetitions.
    fn figure(self, of: &Figures) -> [f64; 2] {
        let timed = |timing: &Timing| {
            let [first, third] = timing.quartiles;
            [timing.seconds, third - first]
        };
        match self {
            Self::Latency => timed(&of.alone),
            Self::Throughput => timed(&of.together),
            Self::Memory => [of.bytes as f64, 0.0],
        }
    }

    fn verdict(self, best: &Figures, other: &Figures) -> Verdict {
        let [[before, range], [after, other_range]] = [best, other].map(|of| self.figure(of));
        let saved = before - after;
        // Written so that NaN is no saving.
        let enough = saved >= LEAST * before;
        match (enough, saved > range + other_range) {
            (false, _) => Verdict::Small,
            (true, false) => Verdict::Noise,
            (true, true) => Verdict::Kept,
        }
    }
}

impl Accuracy {
    /// The first thing that is further from f32 than the budget allows.
    pub(super) fn fault(&self, budget: Budget) -> Option<String> {
        if let Some(part) = parting(&self.parts, budget.limits()) {
            let far = part.relative_l2;
            let far = far.map_or("infinitely far".to_owned(), |far| format!("{far:.1e}"));
            let (place, most) = (part.place(), budget.distance);
            return Some(format!(
                "{place}: expected at most {most:.1e} from f32, got {far}"
            ));
        }
        let growth = self.perplexity.unwrap_or(f64::NAN);
        let fits = growth <= budget.perplexity;
        if !fits {
            let [most, got] = [budget.perplexity, growth].map(|share| 100.0 * share);
            return Some(format!(
                "perplexity: expected at most {most:.2} % more than f32's, got {got:.2} %"
            ));
        }
        let other = self.greedy.as_ref().filter(|_| budget.same_tokens)?;
        let Greedy {
            position,
            expected,
            got,
            ..
        } = other;
        Some(format!(
            "likeliest token after {position}: expected {expected}, got {got}"
        ))
    }

    /// The part that is the furthest away.
    pub(super) fn furthest(&self) -> Option<&Distance> {
        let far = |of: &Distance| of.relative_l2.unwrap_or(f64::INFINITY);
        self.parts.iter().max_by(|a, b| far(a).total_cmp(&far(b)))
    }
}

/// Tries the changes one after the other, each on top of those that were kept, and returns the plan of these and all trials. `best` is the
/// model by the default plan.
pub(super) fn search<L: Lab>(
    lab: &mut L,
    mut best: L::Ready,
    wanted: Wanted,
) -> (Plan, Vec<Trial>) {
    let (mut plan, mut trials) = (Plan::default(), Vec::new());
    for change in changes(wanted.level, wanted.goal) {
        let Some(changed) = plan.with(change) else {
            continue;
        };
        let mut trial = Trial {
            change,
            accuracy: None,
            turns: None,
            verdict: Verdict::Kept,
        };
        let tried = attempt(lab, &mut best, changed, wanted, &mut trial);
        match tried {
            Ok(other) if trial.verdict == Verdict::Kept => (plan, best) = (changed, other),
            Ok(_) => {}
            Err(error) => trial.verdict = Verdict::Failed(error.to_string()),
        }
        trials.push(trial);
    }
    (plan, trials)
}

/// Loads, judges and measures a model by `plan`, and adds what was found to the trial.
fn attempt<L: Lab>(
    lab: &mut L,
    best: &mut L::Ready,
    plan: Plan,
    wanted: Wanted,
    trial: &mut Trial,
) -> Result<L::Ready, CliError> {
    let mut other = lab.load(plan)?;
    let accuracy = lab.judge(&other, wanted.budget)?;
    let fault = accuracy.fault(wanted.budget);
    trial.accuracy = Some(accuracy);
    if let Some(fault) = fault {
        trial.verdict = Verdict::Inaccurate(fault);
        return Ok(other);
    }
    let turns = lab.measure(best, &mut other)?;
    trial.turns = Some(turns);
    trial.verdict = if !turns.verified {
        Verdict::Unverified("the tokens of a request depend on its company")
    } else if trial.change.is_exact() && !turns.same_tokens {
        Verdict::Unverified("expected the tokens of the best so far, got others")
    } else {
        wanted.goal.verdict(&turns.best, &turns.other)
    };
    Ok(other)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
