//! Runs described operations on a device, by kernels where it has them and through Burn elsewhere, and compares them with their
//! references.

use crate::Outcome;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_device::{Capability, Runtime};
use moebius_ops::{GroupedGemm, HostTensor, Operation, Scalar, TensorInfo};
use moebius_shaders::{Family, Lookup};
use moebius_tests::elements::{download, unwritten, upload};
use moebius_tests::target::{Target, download_u32, poisoned, upload_u32};
use moebius_tests::tolerance::assert_close;

/// Runs an operation; returns its results in the order of its signature, or the device's refusal as text.
pub(crate) fn run<F: Family>(
    target: &Target,
    operation: &F,
    operands: &[HostTensor],
) -> Result<Vec<HostTensor>, String> {
    run_by(target, operation, &F::How::default(), operands)
}

/// As [`run`], with the choice of kernels given.
pub(crate) fn run_by<F: Family>(
    target: &Target,
    operation: &F,
    how: &F::How,
    operands: &[HostTensor],
) -> Result<Vec<HostTensor>, String> {
    match target.client() {
        Some(client) => by_kernels(&client, target.capability(), operation, how, operands),
        None => moebius::operation::run(operation, operands, &target.burn(), how)
            .map_err(|error| error.to_string()),
    }
}

/// Compares an operation with its reference: words exactly, floats within a relative L2 error.
pub(crate) fn check<F: Family>(
    target: &Target,
    operation: F,
    operands: &[HostTensor],
    tolerance: impl Fn(&str) -> f64,
) -> Outcome {
    check_by(target, operation, &F::How::default(), operands, tolerance)
}

/// As [`check`], with the choice of kernels given.
pub(crate) fn check_by<F: Family>(
    target: &Target,
    operation: F,
    how: &F::How,
    operands: &[HostTensor],
    tolerance: impl Fn(&str) -> f64,
) -> Outcome {
    let got = run_by(target, &operation, how, operands);
    compare(target, &operation.into(), operands, got, tolerance)
}

/// As [`check`], with kernels planned for a device that ends loops after the fewest rounds with which they can be planned, so that they
/// are cut as often as they can be. Fewer rounds must be refused.
pub(crate) fn check_in_parts<F: Family>(
    target: &Target,
    operation: F,
    operands: &[HostTensor],
    tolerance: impl Fn(&str) -> f64,
) -> Outcome {
    let Some(client) = target.client() else {
        return check(target, operation, operands, tolerance);
    };
    let how = F::How::default();
    let ending = |rounds: u32| Capability {
        loop_rounds: Some(rounds),
        ..target.capability().clone()
    };
    let fits = |rounds: &u32| operation.kernels(&how, &ending(*rounds)).is_ok();
    let least = (1..1 << 20).find(fits).unwrap();
    if let Err(error) = operation.kernels(&how, &ending(least - 1)) {
        let error = error.to_string();
        assert!(error.contains("rounds of loops"), "{error}");
    }
    let got = by_kernels(&client, &ending(least), &operation, &how, operands);
    compare(target, &operation.into(), operands, got, tolerance)
}

/// Compares results with the reference.
fn compare(
    target: &Target,
    described: &Operation,
    operands: &[HostTensor],
    got: Result<Vec<HostTensor>, String>,
    tolerance: impl Fn(&str) -> f64,
) -> Outcome {
    let signature = described.signature();
    described.check_operands(operands).unwrap();
    let got = match got {
        Ok(got) => got,
        Err(error) => return Outcome::Unsupported(error),
    };
    let want = described.reference(operands).unwrap();
    let (sorted, used) = (of_sorted_rows(described), used_rows(described, operands));
    for ((info, got), want) in signature.results.iter().zip(&got).zip(&want) {
        let what = format!("{} of {described:?} on {}", info.name, target.name);
        let width: usize = info.shape.iter().skip(1).product();
        let end = match used {
            Some(rows) if sorted.contains(&info.name) => rows * width,
            _ => got.len(),
        };
        match (got, want) {
            (HostTensor::Words(got), HostTensor::Words(want)) => assert_eq!(got, want, "{what}"),
            (HostTensor::Floats(got), HostTensor::Floats(want)) => {
                if leaves_other_rows(described) && target.client().is_some() {
                    let left = got[end..].iter().all(|value| value.is_nan());
                    assert!(left, "{what}: a row without an expert was written");
                }
                assert_same_specials(&what, &got[..end], &want[..end]);
                let finite = |values: &[f64]| -> Vec<f64> {
                    let numbers = values.iter().copied();
                    numbers.filter(|value| value.is_finite()).collect()
                };
                let got: Vec<f32> = finite(&got[..end]).iter().map(|v| *v as f32).collect();
                let want = finite(&want[..end]);
                if want.iter().all(|value| *value == 0.0) {
                    // A reference of 0 that results from cancellation may differ by a rounding of the terms.
                    let rounded = |value: &f32| value.abs() <= f32::EPSILON;
                    assert!(got.iter().all(rounded), "{what}: {got:?} for zeros");
                } else {
                    assert_close(&what, &got, &want, tolerance(info.name));
                }
            }
            _ => panic!("{what}: floats and words"),
        }
    }
    Outcome::Ran
}

/// All problems; on XLA, which compiles a program for each, every fifth: 5 has no common factor with the numbers of variants
/// that alternate in a list.
pub(crate) fn some_of<T>(
    target: &Target,
    problems: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = T> {
    let step = match target.capability().runtime {
        Runtime::Xla => 5,
        _ => 1,
    };
    problems.into_iter().step_by(step)
}

/// Asserts that NaN and infinities are where the reference has them.
fn assert_same_specials(what: &str, got: &[f64], want: &[f64]) {
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let same =
            got.is_finite() && want.is_finite() || got == want || got.is_nan() && want.is_nan();
        assert!(same, "{what}[{at}]: {got} for {want}");
    }
}

/// Names of the results in sorted rows whose rows past the last expert's the operation leaves unchanged.
fn of_sorted_rows(operation: &Operation) -> &'static [&'static str] {
    match operation {
        Operation::GroupedGemm(_) => &["y", "drows", "dx"],
        Operation::Experts(_) => &["pre"],
        Operation::SegmentAttention(_) => &["o", "lse", "dq", "dk", "dv"],
        _ => &[],
    }
}

/// Whether kernels write no row past the last expert's.
fn leaves_other_rows(operation: &Operation) -> bool {
    use GroupedGemm::{CodedLinear, CodedLinearBackward, Fp8Codes};
    matches!(
        operation,
        Operation::GroupedGemm(CodedLinear(_) | CodedLinearBackward { .. } | Fp8Codes(_))
    )
}

/// The number of rows with an expert, for an operation with a sort.
fn used_rows(operation: &Operation, operands: &[HostTensor]) -> Option<usize> {
    let signature = operation.signature();
    let mut pairs = signature.operands.iter().zip(operands);
    match pairs.find(|(info, _)| info.name == "offsets") {
        Some((_, HostTensor::Words(offsets))) => Some(*offsets.last()? as usize),
        _ => None,
    }
}

/// Buffers with their names.
struct Named(Vec<(&'static str, Handle)>);

impl Lookup for Named {
    fn find(&self, name: &str) -> Option<Handle> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        found.map(|(_, buffer)| buffer.clone())
    }
}

fn by_kernels<F: Family>(
    client: &Client,
    device: &Capability,
    operation: &F,
    how: &F::How,
    operands: &[HostTensor],
) -> Result<Vec<HostTensor>, String> {
    let kernels = operation.kernels(how, device);
    let kernels = kernels.map_err(|error| error.to_string())?;
    let described: Operation = operation.clone().into();
    let signature = described.signature();
    let pairs = || signature.operands.iter().zip(operands);
    let mut buffers: Vec<(&str, Handle)> = pairs()
        .map(|(info, tensor)| (info.name, uploaded(client, tensor, info)))
        .collect();
    let offsets = pairs().find(|(info, _)| info.name == "offsets");
    if let (Some(tiles), Some((_, HostTensor::Words(offsets)))) = (kernels.walks(), offsets) {
        buffers.push(("tiles", upload_u32(client, &tiles.of(offsets))));
    }
    if let Some((_, HostTensor::Words(offsets))) = offsets
        && buffers.iter().all(|(name, _)| *name != "order")
    {
        // Rows that an operation takes sorted are in their own order.
        let rows = offsets.last().copied().unwrap_or(0).max(1);
        let order: Vec<u32> = (0..rows).collect();
        buffers.push(("order", upload_u32(client, &order)));
    }
    if let Some(words) = kernels.tiles() {
        buffers.push(("tiles", poisoned(client, words)));
    }
    for info in &signature.results {
        if buffers.iter().all(|(name, _)| *name != info.name) {
            buffers.push((info.name, empty(client, info)));
        }
    }
    let buffers = Named(buffers);
    kernels.launch(client, &signature, &buffers, &mut |_| ());
    let read = |info: &TensorInfo| {
        let len = info.shape.iter().product();
        let buffer = buffers.find(info.name).unwrap();
        match info.written() {
            Scalar::Float(element) => HostTensor::of_f32(&download(client, buffer, len, element)),
            Scalar::Word => HostTensor::Words(download_u32(client, buffer, len)),
        }
    };
    Ok(signature.results.iter().map(read).collect())
}

fn uploaded(client: &Client, tensor: &HostTensor, info: &TensorInfo) -> Handle {
    match (tensor, info.scalar) {
        (HostTensor::Floats(values), Scalar::Float(element)) => {
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            upload(client, &values, element)
        }
        (HostTensor::Words(words), _) if words.is_empty() => poisoned(client, 1),
        (HostTensor::Words(words), _) => upload_u32(client, words),
        _ => panic!("{}: floats and words", info.name),
    }
}

/// A buffer for a result, filled with values that the operation must overwrite.
fn empty(client: &Client, info: &TensorInfo) -> Handle {
    let len = info.shape.iter().product();
    match info.written() {
        Scalar::Float(element) => unwritten(client, len, element),
        Scalar::Word => poisoned(client, len),
    }
}
