//! Answers as a stream of events (SSE).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use moebius_engine::Draw;
use serde::Serialize;

use crate::answers::Answers;
use crate::error::ApiError;
use crate::service::Service;
use crate::worker::{Finish, Update};

/// Time after which a comment shows that the server is still there.
const QUIET: Duration = Duration::from_secs(15);

/// Name of the event that tells an error after the head of a response.
const ERROR: &str = "error";

/// Data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// The form of a stream's events.
pub(super) trait Shape: Send + 'static {
    /// Data of an event.
    type Chunk: Serialize;

    /// Whether a mark follows the last event.
    const MARKS_END: bool = true;

    /// The name of an event, if it has one.
    fn name(_: &Self::Chunk) -> Option<&str> {
        None
    }

    /// The events before the first token.
    fn first(&mut self) -> Vec<Self::Chunk>;

    /// The event for a token of an answer, and the text that is final with it; `None` if there is nothing to tell.
    fn token(&mut self, choice: usize, draw: &Draw, text: String) -> Option<Self::Chunk>;

    /// The events for the end of an answer, and the rest of its text.
    fn end(&mut self, choice: usize, finish: Finish, text: String) -> Vec<Self::Chunk>;

    /// The events after the end of all answers.
    fn last(&mut self) -> Vec<Self::Chunk>;
}

/// A stream under way.
struct Flow<S> {
    service: Arc<Service>,
    answers: Answers,
    shape: S,
    /// Events that have not been sent.
    pending: VecDeque<Event>,
    /// Whether nothing comes after the pending events.
    done: bool,
}

/// The response that streams answers.
pub(super) fn respond<S: Shape>(service: Arc<Service>, answers: Answers, mut shape: S) -> Response {
    let pending = shape.first().iter().map(event::<S>).collect();
    let flow = Flow {
        service,
        answers,
        shape,
        pending,
        done: false,
    };
    let events = futures_util::stream::unfold(flow, |mut flow| async move {
        let event = flow.next().await?;
        Some((Ok::<_, Infallible>(event), flow))
    });
    let alive = KeepAlive::new().interval(QUIET);
    Sse::new(events).keep_alive(alive).into_response()
}

impl<S: Shape> Flow<S> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.done {
                return None;
            }
            match self.answers.next().await {
                Ok(Some((choice, Update::Token { draw, text }))) => {
                    let chunk = self.shape.token(choice, &draw, text);
                    self.pending.extend(chunk.as_ref().map(event::<S>));
                }
                Ok(Some((choice, Update::End { finish, text }))) => {
                    let chunks = self.shape.end(choice, finish, text);
                    self.pending.extend(chunks.iter().map(event::<S>));
                }
                Ok(None) => {
                    let chunks = self.shape.last();
                    self.pending.extend(chunks.iter().map(event::<S>));
                    let mark = S::MARKS_END.then(|| Event::default().data(DONE));
                    self.pending.extend(mark);
                    self.done = true;
                }
                Err(error) => {
                    self.service.metrics.failed(error.status().as_u16());
                    self.answers.trace.failed(error.status().as_u16());
                    tracing::warn!(status = error.status().as_u16(), "a stream failed");
                    self.pending.push_back(failed(&error));
                    self.done = true;
                }
            }
        }
    }
}

fn event<S: Shape>(chunk: &S::Chunk) -> Event {
    let named = S::name(chunk).map(|name| Event::default().event(name));
    let event = named.unwrap_or_default().json_data(chunk);
    event.unwrap_or_else(|error| failed(&ApiError::internal("unwritable", error.to_string())))
}

/// The event that tells an error.
fn failed(error: &ApiError) -> Event {
    let event = Event::default().event(ERROR);
    // The body of an error is texts alone, which can always be written.
    event.json_data(error.body()).unwrap_or_default()
}
