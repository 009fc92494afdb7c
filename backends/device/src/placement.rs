//! Over how many devices a model is placed: the text that a user types, and the value that programs pass on.

use std::fmt;
use std::str::FromStr;

/// A placement of a model over several devices: `experts=4,data=2` is over eight, of which each has a quarter of the
/// experts of every layer, for half of the tokens. A number that is left out is 1.
///
/// The text form round-trips through [`FromStr`] and [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    experts: usize,
    data: usize,
}

/// The reason why numbers or a text are no [`Placement`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// A part of the text has no `=`.
    #[error("expected `experts=N`, `data=N`, or both with a comma between them, got `{got}`")]
    NoNumber {
        /// The part.
        got: String,
    },
    /// Something else than experts or data is to be divided.
    #[error("expected `experts` or `data` before `=`, got `{got}`")]
    UnknownName {
        /// The name before the `=`.
        got: String,
    },
    /// A number isn't a whole number from 1 on.
    #[error("expected a whole number from 1 on after `{name}=`, got `{got}`")]
    BadNumber {
        /// The name before the `=`.
        name: &'static str,
        /// What is behind it.
        got: String,
    },
    /// A number is there twice.
    #[error("expected `{name}` once, got it twice in `{got}`")]
    Twice {
        /// The name before the `=`.
        name: &'static str,
        /// The whole text.
        got: String,
    },
}

impl Placement {
    /// The form of the text, for help texts.
    pub const EXPECTED: &'static str = "experts=N,data=N";

    /// A placement over `experts` · `data` devices.
    ///
    /// # Errors
    ///
    /// [`PlacementError::BadNumber`] when a number is 0.
    pub fn new(experts: usize, data: usize) -> Result<Self, PlacementError> {
        for (name, number) in [("experts", experts), ("data", data)] {
            if number == 0 {
                let got = number.to_string();
                return Err(PlacementError::BadNumber { name, got });
            }
        }
        Ok(Self { experts, data })
    }

    /// The number of parts that the experts of a layer are divided into.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// The number of parts that tokens are divided into.
    pub fn data(&self) -> usize {
        self.data
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.experts.saturating_mul(self.data)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("experts={},data={}", self.experts, self.data))
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut experts, mut data) = (None, None);
        for part in text.split(',') {
            let unnumbered = || PlacementError::NoNumber {
                got: part.to_owned(),
            };
            let (name, digits) = part.split_once('=').ok_or_else(unnumbered)?;
            let (name, number) = match name {
                "experts" => ("experts", &mut experts),
                "data" => ("data", &mut data),
                other => {
                    let got = other.to_owned();
                    return Err(PlacementError::UnknownName { got });
                }
            };
            let got = digits.to_owned();
            // Only digits are accepted: `usize::from_str` takes a leading `+`, which would not round-trip.
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let value: usize = match digits.parse() {
                Ok(value) if plain => value,
                _ => return Err(PlacementError::BadNumber { name, got }),
            };
            if number.replace(value).is_some() {
                let got = text.to_owned();
                return Err(PlacementError::Twice { name, got });
            }
        }
        Self::new(experts.unwrap_or(1), data.unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let read = |text: &str| text.parse::<Placement>();
        let of = |experts, data| Placement::new(experts, data);
        assert_eq!(read("experts=4,data=2"), of(4, 2));
        assert_eq!(read("data=2,experts=4"), of(4, 2));
        assert_eq!(read("experts=4"), of(4, 1));
        assert_eq!(read("data=8"), of(1, 8));
        let written = of(4, 2).unwrap();
        assert_eq!(written.to_string(), "experts=4,data=2");
        assert_eq!(read(&written.to_string()), Ok(written));
        assert_eq!(written.devices(), 8);
    }

    #[test]
    fn what_is_no_placement_is_named() {
        let refused = |text: &str| text.parse::<Placement>().unwrap_err().to_string();
        assert_eq!(
            refused("4"),
            "expected `experts=N`, `data=N`, or both with a comma between them, got `4`"
        );
        assert_eq!(
            refused("experts=4,layers=2"),
            "expected `experts` or `data` before `=`, got `layers`"
        );
        for (text, got) in [
            ("experts=0", "0"),
            ("experts=", ""),
            ("experts=+4", "+4"),
            ("experts=-1", "-1"),
            ("experts=4 ", "4 "),
        ] {
            let expected =
                format!("expected a whole number from 1 on after `experts=`, got `{got}`");
            assert_eq!(refused(text), expected);
        }
        assert_eq!(
            refused("data=2,data=2"),
            "expected `data` once, got it twice in `data=2,data=2`"
        );
        assert!(refused("").starts_with("expected `experts=N`"));
    }
}
