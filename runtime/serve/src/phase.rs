//! What a server can do at a time: whether it loads, answers, drains or has failed.

use tokio::sync::watch;

/// What a server can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The weights are being loaded; nothing is answered yet.
    Loading,
    /// Requests are answered.
    Ready,
    /// Requests under way are answered, new ones are refused.
    Draining,
    /// The model could not be loaded, for this reason.
    Unloadable(String),
    /// The engine is gone, for this reason.
    Dead(String),
}

impl Phase {
    /// Whether the phase can only be followed by the end of the process.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Unloadable(_) | Self::Dead(_))
    }
}

/// The present phase, which threads and tasks share.
#[derive(Clone, Debug)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Phases {
    /// The phase of a server that has just begun.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Loading))
    }

    /// The present phase.
    pub(crate) fn now(&self) -> Phase {
        self.0.borrow().clone()
    }

    /// Goes on to a later phase. A phase that can't follow the present one is ignored: a server that drains is not ready again, and one that
    /// has failed stays so.
    pub(crate) fn enter(&self, next: Phase) {
        self.0.send_if_modified(|now| {
            let goes = match (&*now, &next) {
                (Phase::Loading, _) | (_, Phase::Dead(_)) => !now.is_final(),
                (Phase::Ready, Phase::Draining) => true,
                _ => false,
            };
            if goes {
                *now = next;
            }
            goes
        });
    }

    /// Waits until the server has failed, and returns that phase.
    pub(crate) async fn failed(&self) -> Phase {
        let mut phases = self.0.subscribe();
        // The sender lives as long as `self`, so the wait ends with a phase.
        match phases.wait_for(Phase::is_final).await {
            Ok(phase) => phase.clone(),
            Err(_) => Phase::Dead("the phases ended".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_go_forward_only() {
        let phases = Phases::new();
        phases.enter(Phase::Ready);
        phases.enter(Phase::Draining);
        phases.enter(Phase::Ready);
        assert_eq!(phases.now(), Phase::Draining);
        phases.enter(Phase::Dead("gone".to_owned()));
        phases.enter(Phase::Draining);
        phases.enter(Phase::Dead("again".to_owned()));
        assert_eq!(phases.now(), Phase::Dead("gone".to_owned()));
    }
}
