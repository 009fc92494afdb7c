//! What a recording has, and when it is needed.

use super::super::canonical::tests::tensor;
use super::*;
use burn_ir::CustomOpIr;

/// Makes a tensor of another, which it may use up.
fn map(from: u64, status: TensorStatus, to: u64) -> OperationIr {
    let (from, to) = (tensor(from, status), tensor(to, TensorStatus::NotInit));
    OperationIr::Custom(CustomOpIr::new("map", &[from], &[to]))
}

fn nothing() -> Slot {
    Err(RunError::Unknown(TensorId::new(0)))
}

#[test]
fn it_has_what_it_makes_and_takes() {
    let mut recording = Recording::default();
    let has = |recording: &Recording| [0, 1, 2].map(|id| recording.has(TensorId::new(id)));
    recording.take(TensorId::new(0), nothing());
    recording.compute(map(0, TensorStatus::ReadOnly, 1));
    recording.compute(map(1, TensorStatus::ReadWrite, 2));
    assert_eq!(has(&recording), [true, false, true]);
    assert!(recording.makes(TensorId::new(2)) && !recording.makes(TensorId::new(0)));
    let piece = recording.into_piece();
    assert_eq!(piece.canonical.outputs.len(), 1);
    assert!(piece.canonical.released.is_empty());
}

#[test]
fn dropped_results_are_not_needed() {
    let mut recording = Recording::default();
    recording.take(TensorId::new(0), nothing());
    recording.compute(map(0, TensorStatus::ReadOnly, 1));
    recording.compute(map(1, TensorStatus::ReadWrite, 2));
    recording.release(tensor(0, TensorStatus::ReadWrite));
    assert!(recording.is_needed());
    recording.release(tensor(2, TensorStatus::ReadWrite));
    assert!(!recording.is_needed());
    let piece = recording.into_piece();
    assert!(piece.canonical.outputs.is_empty());
    assert_eq!(piece.canonical.released, [TensorId::new(0)]);
}
