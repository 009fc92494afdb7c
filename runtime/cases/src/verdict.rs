//! Comparison of computed and expected values: errors, norms and the verdict on each output.

use burn::tensor::Device;
use serde::Serialize;

use crate::case_file::{CaseFile, TensorView, Tolerance, quoted};
use crate::error::{CompareError, Error};
use crate::ops::{Produced, Values, run};

/// Verdict on an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The output is within the tolerance.
    Pass,
    /// The output is outside of the tolerance.
    Fail,
}

impl Verdict {
    fn of(good: bool) -> Self {
        if good { Self::Pass } else { Self::Fail }
    }
}

/// Comparison of one output. In JSON, a number that isn't finite becomes `null`.
#[derive(Clone, Debug, Serialize)]
pub struct OutputReport {
    /// Name of the output.
    pub name: String,
    /// Largest error max |got − want|; infinite where a NaN or an infinity has no equal on the other side.
    pub max_abs: f64,
    /// Relative error ‖got − want‖₂ / ‖want‖₂ over the finite elements.
    pub rel_l2: f64,
    /// Tolerance in the file.
    pub tolerance: Tolerance,
    /// Number of elements whose bits differ; only for exact tolerances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatches: Option<usize>,
    /// Flat index of the first element that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<usize>,
    /// Expected and computed shapes, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<Shapes>,
    /// Verdict on the output.
    pub verdict: Verdict,
}

/// Two shapes that should be equal.
#[derive(Clone, Debug, Serialize)]
pub struct Shapes {
    /// Shape in the file.
    pub expected: Vec<usize>,
    /// Computed shape.
    pub got: Vec<usize>,
}

/// Runs the case's operation on `device`, and compares the outputs that the file lists.
///
/// # Errors
/// Any error that leaves the case without a verdict; [`Error::is_file`] says whether the file is at fault.
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
        // One side is NaN, or the infinities differ.
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

    /// Compares i64 values exactly, also beyond 2⁵³; only the reported errors are rounded.
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

    /// The relative error: 0 where nothing differs, also from a zero vector; infinite where something differs from a zero vector.
    fn rel_l2(&self) -> f64 {
        // The sum of squares wouldn't do: squares below the smallest f64 vanish, and 0/0 must fail.
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
        // With different shapes, pairs of elements mean nothing.
        let (max_abs, rel_l2) = match shapes {
            Some(_) => (f64::NAN, f64::NAN),
            None => (self.max_abs, self.rel_l2()),
        };
        let good = match tolerance {
            Tolerance::Exact => self.mismatches == 0,
            // Written as `<=`, so that a quotient that overflowed to NaN fails.
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
