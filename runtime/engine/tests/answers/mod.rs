//! What the requests of an engine got.

use std::collections::BTreeMap;

use moebius_engine::{Draw, Ended, Event, RequestId};

/// For each request its draws, and why they ended.
pub(crate) type Answers = BTreeMap<RequestId, (Vec<Draw>, Option<Ended>)>;

/// Notes the events of a step.
pub(crate) fn note(answers: &mut Answers, events: Vec<(RequestId, Event)>) {
    for (id, event) in events {
        let (draws, ended) = answers.entry(id).or_default();
        assert_eq!(*ended, None, "nothing comes after the end");
        match event {
            Event::Token(draw) => draws.push(draw),
            Event::End(reason) => *ended = Some(reason),
        }
    }
}
