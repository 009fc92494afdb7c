//! One row of the report.

use std::fmt::Display;

use anstyle::Style;
use serde::{Deserialize, Serialize};

use crate::screen::{BAD, DIM, GOOD, HEADING};

/// What a check found, and what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Check {
    /// A device's name, or what else was checked.
    pub(super) name: String,
    pub(super) state: State,
    /// What is there, or why it isn't or doesn't work.
    pub(super) found: String,
    /// What to do; `None` where nothing is to be done.
    pub(super) fix: Option<String>,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It works.
    Ok,
    /// The command works without it, or with less.
    Warning,
    /// It is installed and doesn't work.
    Failed,
    /// It isn't installed, or the machine doesn't have it.
    Missing,
}

impl Check {
    pub(super) fn new(name: impl Display, state: State, found: impl Into<String>) -> Self {
        Self {
            name: name.to_string(),
            state,
            found: found.into(),
            fix: None,
        }
    }

    /// This check with what to do about it.
    pub(super) fn with_fix(self, fix: impl Into<Option<String>>) -> Self {
        Self {
            fix: fix.into(),
            ..self
        }
    }
}

impl State {
    /// The state's name, as in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Missing => "missing",
        }
    }

    /// The style of what was found.
    pub(super) fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Warning => HEADING,
            Self::Failed => BAD,
            Self::Missing => DIM,
        }
    }
}
