//! Names of a text model's tensors in checkpoints that hold other models, too.

use crate::families::{Extra, Family};

/// Way in which a checkpoint names the tensors of a text model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nesting {
    /// The names that the text model has alone.
    Alone,
    /// `language_model.` before all names.
    Outer,
    /// `model.language_model.` in place of `model.`, as transformers holds the models in memory.
    Inner,
}

impl Nesting {
    /// The ways that checkpoints of a family may take.
    pub(super) fn of(family: &Family) -> &'static [Self] {
        if family.extra == Extra::Nested {
            &[Self::Alone, Self::Outer, Self::Inner]
        } else {
            &[Self::Alone]
        }
    }

    /// The name in the checkpoint of the tensor that is called `own` in the text model.
    pub(super) fn name(self, own: &str) -> String {
        match (self, own.strip_prefix("model.")) {
            (Self::Outer, _) => format!("language_model.{own}"),
            (Self::Inner, Some(rest)) => format!("model.language_model.{rest}"),
            _ => own.to_owned(),
        }
    }

    /// The inverse of [`Self::name`]; names of other models stay as they are.
    pub(super) fn own(self, name: &str) -> String {
        let own = match self {
            Self::Alone => None,
            Self::Outer => name.strip_prefix("language_model.").map(str::to_owned),
            Self::Inner => {
                let rest = name.strip_prefix("model.language_model.");
                rest.map(|rest| format!("model.{rest}"))
            }
        };
        own.unwrap_or_else(|| name.to_owned())
    }
}
