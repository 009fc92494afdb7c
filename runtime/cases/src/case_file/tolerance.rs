//! How far an output may be from the expected one.

use std::collections::BTreeMap;
use std::fmt;

use moebius_weights::header::UniqueMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use super::error::CaseError;
use super::quoted;

/// The acceptance rule of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal in every bit; any NaN equals any NaN.
    Exact,
    /// ‖got − want‖₂ / ‖want‖₂ at most this.
    RelL2(f64),
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::RelL2(limit) => write!(f, "{limit:.1e}"),
        }
    }
}

impl Serialize for Tolerance {
    /// The form it has in the file.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match self {
            Self::Exact => json!({ "exact": true }),
            Self::RelL2(limit) => json!({ "rel_l2": limit }),
        };
        form.serialize(serializer)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    exact: Option<bool>,
    #[serde(default)]
    rel_l2: Option<f64>,
}

/// Reads the `tol` entry: output name → tolerance.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Tolerance>, CaseError> {
    let entries: UniqueMap<Entry> = serde_json::from_str(text)
        .map_err(|source| CaseError::BadMetadata { key: "tol", source })?;
    let mut tolerances = BTreeMap::new();
    for (output, entry) in entries.into_inner() {
        let tolerance = match (entry.exact, entry.rel_l2) {
            (Some(true), None) => Tolerance::Exact,
            (None, Some(limit)) if limit.is_finite() && limit >= 0.0 => Tolerance::RelL2(limit),
            _ => {
                return Err(CaseError::BadTolerance(quoted(&output)));
            }
        };
        tolerances.insert(output, tolerance);
    }
    Ok(tolerances)
}
