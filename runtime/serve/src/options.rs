//! Limits of a server and what it is told about its model.

use std::time::Duration;

use crate::traces::Traces;

/// Limits on what clients may ask for at once. [`Default`] has the documented values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Largest body of a request, in bytes.
    pub body_bytes: usize,
    /// Largest depth of objects and lists in JSON.
    pub json_depth: usize,
    /// Time in which the head of a request must arrive, and for which an idle connection stays open.
    pub head_time: Duration,
    /// Time in which the body of a request must arrive.
    pub body_time: Duration,
    /// Time for which a client may take none of the bytes that are ready for it.
    pub stalled_time: Duration,
    /// Largest number of connections.
    pub connections: usize,
    /// Largest number of answers that are computed at the same time, the limit of the engine.
    pub running: usize,
    /// Largest number of answers that wait for the engine.
    pub queued: usize,
    /// Largest number of prompt tokens of the answers that wait. One request may have more if no other waits.
    pub queued_tokens: usize,
    /// Longest time for which a request may wait for the engine.
    pub queue_time: Duration,
    /// Longest time of a request from its arrival to its end.
    pub request_time: Duration,
    /// Longest time for which a stop waits for requests under way.
    pub drain_time: Duration,
}

impl ServeLimits {
    /// Largest number of answers that run or wait.
    pub(crate) fn places(&self) -> usize {
        self.running.saturating_add(self.queued)
    }
}

impl Default for ServeLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            body_bytes: 2 << 20,
            json_depth: 64,
            head_time: seconds(10),
            body_time: seconds(30),
            stalled_time: seconds(30),
            connections: 1024,
            running: 16,
            queued: 128,
            queued_tokens: 64 << 10,
            queue_time: seconds(60),
            request_time: seconds(600),
            drain_time: seconds(30),
        }
    }
}

/// What a server is told at its start, beside the model itself.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Name under which clients ask for the model.
    pub model: String,
    /// Largest number of tokens of a request, prompt and answer: the limit of the engine.
    pub context: usize,
    /// Limits on requests and connections.
    pub limits: ServeLimits,
    /// Tells, after each computation, why results since the last call are invalid, if they are: a program's knowledge of launches that its
    /// device lost. The engine then counts as failed.
    pub lost: fn() -> Option<String>,
    /// Where the spans of requests go; nowhere by default.
    pub traces: Traces,
}

impl ServeOptions {
    /// Options with the default limits.
    pub fn new(model: impl Into<String>, context: usize) -> Self {
        Self {
            model: model.into(),
            context,
            limits: ServeLimits::default(),
            lost: || None,
            traces: Traces::default(),
        }
    }
}
