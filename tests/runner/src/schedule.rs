//! The times of jobs: what kept each from starting, for how long, and which job's end let it start.

use std::fmt;

/// Seconds below which a wait isn't shown: tables have one decimal.
const SHOWN: f64 = 0.05;
/// The number of longest reasons shown for a wait; all of them are kept.
const REASONS: usize = 2;

/// A reason why a job can't start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// All lanes are busy.
    Lane,
    /// Another job holds this job's lock.
    Lock(&'static str),
    /// The job of this name, which must come first, has not ended.
    After(String),
    /// This job runs alone, and other jobs are running.
    Machine,
    /// Another job runs alone, or waits to and comes first.
    Alone,
}

impl fmt::Display for Wait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane => out.write_str("a lane"),
            Self::Lock(what) => write!(out, "lock {what}"),
            Self::After(name) => out.write_str(name),
            Self::Machine => out.write_str("the machine to itself"),
            Self::Alone => out.write_str("a job that runs alone"),
        }
    }
}

/// The seconds that a job waited, by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waits(Vec<(Wait, f64)>);

impl Waits {
    /// Adds seconds of waiting for a reason.
    pub(crate) fn add(&mut self, wait: &Wait, seconds: f64) {
        match self.0.iter_mut().find(|(known, _)| known == wait) {
            Some((_, sum)) => *sum += seconds,
            None => self.0.push((wait.clone(), seconds)),
        }
    }

    /// All seconds together; `None` if too few to show.
    pub(crate) fn total(&self) -> Option<f64> {
        let total: f64 = self.0.iter().map(|(_, seconds)| seconds).sum();
        (total >= SHOWN).then_some(total)
    }

    /// The reasons with their seconds, the longest first.
    pub(crate) fn longest(&self) -> Vec<(&Wait, f64)> {
        let mut waits: Vec<_> = self.0.iter().map(|(wait, sum)| (wait, *sum)).collect();
        waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        waits
    }

    /// The longest reasons as text, with seconds if there are several.
    pub(crate) fn text(&self) -> String {
        let mut waits = self.longest();
        waits.retain(|(_, seconds)| *seconds >= SHOWN);
        waits.truncate(REASONS);
        match &waits[..] {
            [(wait, _)] => wait.to_string(),
            waits => {
                let words = waits.iter().map(|(wait, sum)| format!("{wait} {sum:.1}"));
                words.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The start and end of a job in seconds since the run began, and the job whose end let it start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) started: f64,
    pub(crate) ended: f64,
    /// The index of that other job in the list of finished jobs; `None` for jobs that started when the run began.
    pub(crate) freed_by: Option<usize>,
}

impl Span {
    pub(crate) fn seconds(&self) -> f64 {
        self.ended - self.started
    }
}

/// The critical path, as indices in `spans`: the chain of jobs, each of which let the next one start, that leads to the job
/// that ended last. `spans` is ordered by end.
pub(crate) fn critical_path(spans: &[Span]) -> Vec<usize> {
    let ended = |at: &usize| spans[*at].ended;
    let last = (0..spans.len()).max_by(|one, other| ended(one).total_cmp(&ended(other)));
    let mut path: Vec<usize> = last.into_iter().collect();
    // A job is always let start by an earlier one, so that indices decrease.
    while let Some(&at) = path.last()
        && let Some(before) = spans[at].freed_by.filter(|before| *before < at)
    {
        path.push(before);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(started: f64, ended: f64, freed_by: Option<usize>) -> Span {
        Span {
            started,
            ended,
            freed_by,
        }
    }

    #[test]
    fn the_critical_path_goes_back_from_the_last_to_end() {
        // The first lane runs jobs 0, 2 and 4, the second lane jobs 1 and 3. Job 3 had to wait for job 0, and ends last.
        let spans = [
            span(0.0, 5.0, None),
            span(0.0, 3.0, None),
            span(5.0, 6.0, Some(0)),
            span(5.1, 9.5, Some(0)),
            span(6.0, 9.0, Some(2)),
        ];
        assert_eq!(critical_path(&spans), [0, 3]);
        assert_eq!(critical_path(&spans[..3]), [0, 2]);
        assert_eq!(critical_path(&[]), [0; 0]);
        // A job can't have been let start by itself or by a later one.
        assert_eq!(critical_path(&[span(0.0, 1.0, Some(0))]), [0]);
    }

    #[test]
    fn waits_are_added_up_and_the_longest_come_first() {
        let mut waits = Waits::default();
        assert_eq!((waits.total(), waits.text()), (None, String::new()));
        waits.add(&Wait::Lane, 0.02);
        assert_eq!(waits.total(), None);
        waits.add(&Wait::Lane, 1.0);
        assert_eq!(waits.text(), "a lane");
        waits.add(&Wait::After("build".to_owned()), 0.25);
        waits.add(&Wait::Lock("xla"), 2.0);
        waits.add(&Wait::Lane, 1.0);
        assert_eq!(waits.text(), "a lane 2.0, lock xla 2.0");
        assert!((waits.total().unwrap() - 4.27).abs() < 1e-9);
    }
}
