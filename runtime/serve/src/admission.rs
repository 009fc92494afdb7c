//! Admission of requests: a bounded number of answers, and of the prompt tokens of those that wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::options::ServeLimits;

/// Longest time that a client is told to wait, in seconds.
const LONGEST_WAIT: u64 = 60;

/// Places for answers. Clones share the places.
#[derive(Clone, Debug)]
pub(crate) struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Number of places: answers that run or wait.
    places: usize,
    /// Largest number of prompt tokens that wait.
    tokens: usize,
    counts: Mutex<Counts>,
    /// Wakes tasks that wait until no place is taken.
    freed: Notify,
}

#[derive(Debug)]
struct Counts {
    /// Places that are taken.
    taken: usize,
    /// Prompt tokens of answers that have not begun.
    waiting: usize,
    /// Rate at which answers end.
    ended: Rate,
    /// Rate at which prompt tokens begin to be computed.
    begun: Rate,
}

/// A place for one answer, from its admission to its end.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Admission,
    /// Prompt tokens that this answer has waiting.
    waiting: usize,
    /// Whether the engine has begun the answer.
    begun: bool,
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// What there are too many of: `requests` or `tokens`.
    pub(crate) what: &'static str,
    /// Seconds after which there may be room, by the rates of the last half minute.
    pub(crate) retry_after: u64,
}

impl Admission {
    pub(crate) fn new(limits: &ServeLimits) -> Self {
        let now = Instant::now();
        Self(Arc::new(Shared {
            places: limits.running.saturating_add(limits.queued),
            tokens: limits.queued_tokens,
            counts: Mutex::new(Counts {
                taken: 0,
                waiting: 0,
                ended: Rate::new(now),
                begun: Rate::new(now),
            }),
            freed: Notify::new(),
        }))
    }

    /// Checks whether a request with one answer would be admitted now, before anything of it is read.
    pub(crate) fn check(&self) -> Result<(), Full> {
        let counts = self.counts();
        self.fits(&counts, 1)
    }

    /// Takes places for `count` answers, all or none.
    pub(crate) fn take(&self, count: usize) -> Result<Vec<Place>, Full> {
        let mut counts = self.counts();
        self.fits(&counts, count)?;
        counts.taken += count;
        let place = |_| Place {
            admission: self.clone(),
            waiting: 0,
            begun: false,
        };
        Ok((0..count).map(place).collect())
    }

    /// Counts the prompts of a request's answers as waiting, all or none: so many tokens for each of `places`.
    pub(crate) fn queue(
        &self,
        places: &mut [Place],
        tokens: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<(), Full> {
        let all: usize = tokens.clone().into_iter().sum();
        let mut counts = self.counts();
        let after = counts.waiting + all;
        if counts.waiting > 0 && after > self.0.tokens {
            let excess = (after - self.0.tokens) as f64;
            return Err(Full {
                what: "tokens",
                retry_after: counts.begun.wait(excess, Instant::now()),
            });
        }
        counts.waiting = after;
        for (place, tokens) in places.iter_mut().zip(tokens) {
            place.waiting = tokens;
        }
        Ok(())
    }

    /// Seconds until a place may be free.
    pub(crate) fn wait(&self) -> u64 {
        self.counts().ended.wait(1.0, Instant::now())
    }

    /// Number of places that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.counts().taken
    }

    /// Waits until no place is taken.
    pub(crate) async fn idle(&self) {
        loop {
            let freed = self.0.freed.notified();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }

    fn fits(&self, counts: &Counts, count: usize) -> Result<(), Full> {
        let after = counts.taken + count;
        if after <= self.0.places {
            return Ok(());
        }
        let excess = (after - self.0.places) as f64;
        Err(Full {
            what: "requests",
            retry_after: counts.ended.wait(excess, Instant::now()),
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Tells that the engine begins the answer, so that its prompt no longer waits.
    pub(crate) fn begin(&mut self) {
        let mut counts = self.admission.counts();
        counts.waiting -= self.waiting;
        counts.begun.add(self.waiting as f64, Instant::now());
        self.waiting = 0;
        self.begun = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.taken -= 1;
        counts.waiting -= self.waiting;
        if self.begun {
            counts.ended.add(1.0, Instant::now());
        }
        drop(counts);
        self.admission.0.freed.notify_waiters();
    }
}

/// A rate of events in the recent past, in which an event counts e times less after each [`Rate::MEMORY`].
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    at: Instant,
}

impl Rate {
    const MEMORY: Duration = Duration::from_secs(30);

    fn new(at: Instant) -> Self {
        Self {
            per_second: 0.0,
            at,
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        self.per_second = self.now(now) + amount / Self::MEMORY.as_secs_f64();
        self.at = now;
    }

    fn now(&self, now: Instant) -> f64 {
        let past = now.saturating_duration_since(self.at).as_secs_f64();
        self.per_second * (-past / Self::MEMORY.as_secs_f64()).exp()
    }

    /// Seconds that `amount` takes at this rate, at least 1 and at most [`LONGEST_WAIT`]; 1 where nothing was measured yet.
    fn wait(&self, amount: f64, now: Instant) -> u64 {
        let rate = self.now(now);
        if rate == 0.0 {
            return 1;
        }
        ((amount / rate).ceil() as u64).clamp(1, LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(running: usize, queued: usize, queued_tokens: usize) -> Admission {
        Admission::new(&ServeLimits {
            running,
            queued,
            queued_tokens,
            ..ServeLimits::default()
        })
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let admission = admission(1, 2, 100);
        let first = admission.take(2).unwrap();
        assert_eq!(admission.take(2).unwrap_err().what, "requests");
        let last = admission.take(1).unwrap();
        assert!(admission.check().is_err());
        drop(first);
        assert!(admission.check().is_ok());
        assert_eq!(admission.taken(), 1);
        drop(last);
        assert_eq!(admission.taken(), 0);
    }

    #[test]
    fn waiting_tokens_are_bounded_unless_a_request_waits_alone() {
        let admission = admission(4, 4, 100);
        let mut long = admission.take(1).unwrap();
        admission.queue(&mut long, [500]).unwrap();
        let mut next = admission.take(2).unwrap();
        let refused = admission.queue(&mut next, [1, 1]).unwrap_err();
        assert_eq!(refused.what, "tokens");
        long[0].begin();
        // Several prompts of a request are one that waits alone.
        admission.queue(&mut next, [40, 70]).unwrap();
        next[1].begin();
        let mut more = admission.take(1).unwrap();
        assert!(admission.queue(&mut more, [61]).is_err());
        drop(next);
        admission.queue(&mut more, [61]).unwrap();
        drop((long, more));
        assert_eq!((admission.taken(), admission.counts().waiting), (0, 0));
    }

    #[test]
    fn a_wait_follows_from_the_measured_rate() {
        let begin = Instant::now();
        let mut rate = Rate::new(begin);
        assert_eq!(rate.wait(5.0, begin), 1);
        // Two events a second for five minutes.
        for event in 1..=600 {
            rate.add(1.0, begin + Duration::from_millis(500 * event));
        }
        let now = begin + Duration::from_secs(300);
        assert!((rate.now(now) - 2.0).abs() < 0.05, "{}", rate.now(now));
        assert_eq!(rate.wait(1.0, now), 1);
        assert_eq!(rate.wait(19.0, now), 10);
        assert_eq!(rate.wait(1e6, now), LONGEST_WAIT);
    }
}
