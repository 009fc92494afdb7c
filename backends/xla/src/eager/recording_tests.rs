//! Tests of what a recording has, when it is needed, and what two recordings of one structure may differ in.

use super::*;
use burn_backend::{DType, Shape};
use burn_ir::{CustomOpIr, NumericOperationIr, ScalarOpIr};

pub(in crate::eager) fn tensor(id: u64, status: TensorStatus) -> TensorIr {
    let mut tensor = TensorIr::uninit(TensorId::new(id), Shape::new([2]), DType::F32);
    tensor.status = status;
    tensor
}

fn step(first: u64, scalar: f64) -> Vec<OperationIr> {
    let read = |id| tensor(first + id, TensorStatus::ReadOnly);
    let last = |id| tensor(first + id, TensorStatus::ReadWrite);
    let made = |id| tensor(first + id, TensorStatus::NotInit);
    vec![
        OperationIr::NumericFloat(
            DType::F32,
            NumericOperationIr::MulScalar(ScalarOpIr {
                lhs: last(1),
                rhs: ScalarIr::Float(scalar),
                out: made(2),
            }),
        ),
        OperationIr::Custom(CustomOpIr::new(
            "sum",
            &[last(2), read(0)],
            &[made(3), made(4)],
        )),
        OperationIr::Drop(last(3)),
        OperationIr::Drop(last(9)),
    ]
}

#[test]
fn numbers_and_scalars_do_not_count() {
    let (a, b) = (
        Canonical::of(step(10, 0.5)),
        Canonical::of(step(70, f64::NAN)),
    );
    assert_eq!(a.structure, b.structure);
    assert_eq!(a.scalars, [0.5]);
    let ids = |ids: &[TensorId]| ids.iter().map(TensorId::value).collect::<Vec<_>>();
    assert_eq!(ids(&a.inputs), [11, 10]);
    assert_eq!(a.consumed, [true, false]);
    assert_eq!(
        a.outputs.iter().map(|t| t.id.value()).collect::<Vec<_>>(),
        [14]
    );
    let mut released = ids(&a.released);
    released.sort_unstable();
    assert_eq!(released, [11, 19]);
}

#[test]
fn lives_of_results_count_and_those_of_inputs_do_not() {
    let once = Canonical::of(step(10, 0.5));
    let mut longer = step(10, 0.5);
    longer.remove(2);
    assert_ne!(Canonical::of(longer).structure, once.structure);
    let mut used_up = step(10, 0.5);
    used_up.push(OperationIr::Drop(tensor(10, TensorStatus::ReadWrite)));
    let used_up = Canonical::of(used_up);
    assert_eq!(used_up.structure, once.structure);
    assert_eq!(used_up.consumed, [true, true]);
}

/// An operation that makes tensor `to` of tensor `from`, which it may consume.
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
