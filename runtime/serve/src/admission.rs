//! Admission of requests: a bounded number of answers, and of the prompt tokens of those that wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// Seconds after which there may be room, by the rates of the last half minute in which there was work.
    pub(crate) retry_after: u64,
}

impl Admission {
    pub(crate) fn new(limits: &ServeLimits) -> Self {
        let now = Instant::now();
        Self(Arc::new(Shared {
            places: limits.places(),
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
        if counts.taken == 0 {
            let now = Instant::now();
            counts.ended.resume(now);
            counts.begun.resume(now);
        }
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
        let (mut counts, now) = (self.admission.counts(), Instant::now());
        counts.taken -= 1;
        counts.waiting -= self.waiting;
        counts.ended.add(if self.begun { 1.0 } else { 0.0 }, now);
        // The last one ends the time in which there was work.
        counts.begun.add(0.0, now);
        drop(counts);
        self.admission.0.freed.notify_waiters();
    }
}

/// A rate of events in the recent past, without the time in which there was no work: events over time, both of which fade alike.
#[derive(Clone, Copy, Debug)]
struct Rate {
    events: f64,
    /// Seconds in which the events were.
    time: f64,
    at: Instant,
}

impl Rate {
    /// Seconds after which events count e times less.
    const MEMORY: f64 = 30.0;

    fn new(at: Instant) -> Self {
        Self {
            events: 0.0,
            time: 0.0,
            at,
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        let past = now.saturating_duration_since(self.at).as_secs_f64();
        let kept = (-past / Self::MEMORY).exp();
        self.events = self.events * kept + amount;
        self.time = self.time * kept + Self::MEMORY * (1.0 - kept);
        self.at = now;
    }

    /// Leaves out the time up to now, in which there was no work.
    fn resume(&mut self, now: Instant) {
        self.at = now;
    }

    /// Seconds that `amount` takes at this rate, at least 1 and at most [`LONGEST_WAIT`]; 1 where nothing was measured yet.
    fn wait(mut self, amount: f64, now: Instant) -> u64 {
        self.add(0.0, now);
        if self.events == 0.0 {
            return 1;
        }
        let seconds = amount * self.time / self.events;
        (seconds.ceil() as u64).clamp(1, LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let per_second = rate.events / rate.time;
        assert!((per_second - 2.0).abs() < 0.05, "{per_second}");
        assert_eq!(rate.wait(1.0, now), 1);
        assert_eq!(rate.wait(19.0, now), 10);
        assert_eq!(rate.wait(1e6, now), LONGEST_WAIT);
        // An hour without work says nothing of how long it takes.
        let later = now + Duration::from_secs(3600);
        rate.resume(later);
        assert_eq!(rate.wait(19.0, later), 10);
        // The first second of work is measured as such.
        let mut rate = Rate::new(begin);
        rate.add(4.0, begin + Duration::from_secs(1));
        assert_eq!(rate.wait(8.0, begin + Duration::from_secs(1)), 2);
    }
}
