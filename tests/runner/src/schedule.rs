//! When jobs ran: what kept each from starting, for how long, and which job's end let the job start.

use std::fmt;

/// Waits of fewer seconds are not shown: all tables have one decimal.
const SHOWN: f64 = 0.05;
/// So many reasons for a wait are shown, the longest first; all of them are kept.
const REASONS: usize = 2;

/// What keeps a job from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As many jobs run as may run side by side.
    Lane,
    /// Another job holds what this job will hold.
    Lock(&'static str),
    /// The job of this name, which this job runs after, has not ended.
    After(String),
    /// This job runs alone, and other jobs have not ended.
    Machine,
    /// Another job has the machine to itself, or waits for the machine and comes first.
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

/// How many seconds a job waited, for each reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waits(Vec<(Wait, f64)>);

impl Waits {
    /// Adds seconds that the job waited for this reason.
    pub(crate) fn add(&mut self, wait: &Wait, seconds: f64) {
        match self.0.iter_mut().find(|(known, _)| known == wait) {
            Some((_, sum)) => *sum += seconds,
            None => self.0.push((wait.clone(), seconds)),
        }
    }

    /// All seconds, unless they are too few to be shown.
    pub(crate) fn total(&self) -> Option<f64> {
        let total: f64 = self.0.iter().map(|(_, seconds)| seconds).sum();
        (total >= SHOWN).then_some(total)
    }

    /// The reasons and their seconds, the longest first.
    pub(crate) fn longest(&self) -> Vec<(&Wait, f64)> {
        let mut waits: Vec<_> = self.0.iter().map(|(wait, sum)| (wait, *sum)).collect();
        waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        waits
    }

    /// The longest reasons in words, with their seconds where there are several.
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

/// When a job ran, in seconds since the run began, and which job's end let the job start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) started: f64,
    pub(crate) ended: f64,
    /// The place of that other job in the list of those that have ended; `None` for jobs that started when the run
    /// began.
    pub(crate) freed_by: Option<usize>,
}

impl Span {
    pub(crate) fn seconds(&self) -> f64 {
        self.ended - self.started
    }
}

/// The critical path: the places in `spans` of the jobs on the way from the first to the one that ended last, of which
/// each let the next one start. `spans` is in the order in which jobs ended.
pub(crate) fn critical_path(spans: &[Span]) -> Vec<usize> {
    let ended = |at: &usize| spans[*at].ended;
    let last = (0..spans.len()).max_by(|one, other| ended(one).total_cmp(&ended(other)));
    let mut path: Vec<usize> = last.into_iter().collect();
    // A job is let start by one that ended before, so that places become smaller.
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
        // The first lane runs 0, 2 and 4; the second lane runs 1 and 3, which had to wait for 0 and ends last.
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
