//! Got against wanted: errors, norms and the verdict on one output.

use burn::tensor::Device;
use serde::Serialize;

use crate::case_file::{CaseFile, TensorView, Tolerance, quoted};
use crate::error::{CompareError, Error};
use crate::ops::{Produced, Values, run};

/// Pass or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the tolerance.
    Pass,
    /// Outside it.
    Fail,
}

impl Verdict {
    fn of(good: bool) -> Self {
        if good { Self::Pass } else { Self::Fail }
    }
}

/// The comparison of one output. In JSON a figure that is not finite is `null`.
#[derive(Clone, Debug, Serialize)]
pub struct OutputReport {
    /// Output name.
    pub name: String,
    /// max |got − want|; infinite where a NaN or an infinity has no equal on the other side.
    pub max_abs: f64,
    /// ‖got − want‖₂ / ‖want‖₂, over the finite elements.
    pub rel_l2: f64,
    /// What the file allows.
    pub tolerance: Tolerance,
    /// Elements whose bits differ; only where the tolerance is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatches: Option<usize>,
    /// Flat index of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<usize>,
    /// Expected and computed extents; only where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<Shapes>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Two shapes that should have been one.
#[derive(Clone, Debug, Serialize)]
pub struct Shapes {
    /// In the file.
    pub expected: Vec<usize>,
    /// Computed.
    pub got: Vec<usize>,
}

/// Runs the case's operation on `device` and compares every output the file lists; those that it
/// does not list are not compared.
///
/// # Errors
/// Anything that leaves the case without a verdict; [`Error::is_file`] tells whose fault it is.
pub async fn judge(case: &CaseFile, device: &Device) -> Result<Vec<OutputReport>, Error> {
    Ok(compare_all(case, &run(case, device).await?)?)
}

fn compare_all(case: &CaseFile, produced: &[Produced]) -> Result<Vec<OutputReport>, CompareError> {
    case.outputs()
        .map(|(name, want, tolerance)| {
            let got = produced.iter().find(|p| p.name == name).ok_or_else(|| {
                CompareError::NotProduced {
                    output: quoted(name),
                    op: quoted(case.op()),
                }
            })?;
            compare(got, &want, tolerance)
        })
        .collect()
}

fn compare(
    got: &Produced,
    want: &TensorView<'_>,
    tolerance: Tolerance,
) -> Result<OutputReport, CompareError> {
    let kind = |expected| CompareError::Kind {
        output: quoted(got.name),
        expected,
        got: want.dtype,
    };
    let mut sums = Differences::default();
    match &got.values {
        Values::Float(_) if want.is_integer() => return Err(kind("F64, F32, F16 or BF16")),
        Values::Int(_) if !want.is_integer() => return Err(kind("I64, I32, U8 or BOOL")),
        Values::Float(values) => {
            let pairs = values.iter().zip(want.floats()?);
            pairs.for_each(|(&got, want)| sums.add(f64::from(got), want));
        }
        Values::Int(values) => {
            let pairs = values.iter().zip(want.ints()?);
            pairs.for_each(|(&got, want)| sums.add_int(got, want));
        }
    }
    Ok(sums.report(got, want.shape, tolerance))
}

/// Running sums over pairs of elements.
#[derive(Default)]
struct Differences {
    seen: usize,
    max_abs: f64,
    difference: f64,
    norm: f64,
    mismatches: usize,
    first_mismatch: Option<usize>,
}

impl Differences {
    fn add(&mut self, got: f64, want: f64) {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        self.tally(same);
        if same && !got.is_finite() {
            return;
        }
        let difference = (got - want).abs();
        // NaN against a number, or unequal infinities.
        let difference = if difference.is_nan() {
            f64::INFINITY
        } else {
            difference
        };
        self.max_abs = self.max_abs.max(difference);
        self.difference += difference * difference;
        if want.is_finite() {
            self.norm += want * want;
        }
    }

    /// i64 beyond 2⁵³ is compared exactly; only the figures round.
    fn add_int(&mut self, got: i64, want: i64) {
        self.tally(got == want);
        let difference = got.abs_diff(want) as f64;
        self.max_abs = self.max_abs.max(difference);
        self.difference += difference * difference;
        self.norm += (want as f64) * (want as f64);
    }

    fn tally(&mut self, same: bool) {
        if !same {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert(self.seen);
        }
        self.seen += 1;
    }

    /// 0 where nothing differs, also against a zero vector; infinite where something differs from one.
    fn rel_l2(&self) -> f64 {
        // Not `difference == 0.0`: squares below the smallest f64 vanish, and then 0/0 must fail.
        if self.max_abs == 0.0 {
            0.0
        } else {
            (self.difference / self.norm).sqrt()
        }
    }

    fn report(self, got: &Produced, want_shape: &[usize], tolerance: Tolerance) -> OutputReport {
        let shapes = (got.shape != want_shape).then(|| Shapes {
            expected: want_shape.to_vec(),
            got: got.shape.clone(),
        });
        // Of unequal shapes the pairs mean nothing.
        let (max_abs, rel_l2) = match shapes {
            Some(_) => (f64::NAN, f64::NAN),
            None => (self.max_abs, self.rel_l2()),
        };
        let good = match tolerance {
            Tolerance::Exact => self.mismatches == 0,
            // Not `>`: a quotient that overflowed to NaN must fail.
            Tolerance::RelL2(limit) => rel_l2 <= limit,
        };
        let exact = tolerance == Tolerance::Exact && shapes.is_none();
        OutputReport {
            name: got.name.to_owned(),
            max_abs,
            rel_l2,
            tolerance,
            mismatches: exact.then_some(self.mismatches),
            first_mismatch: self.first_mismatch.filter(|_| exact),
            verdict: Verdict::of(good && shapes.is_none()),
            shapes,
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
