//! Tests of compile options: their bytes, and those that are refused.

use super::*;

#[test]
fn the_smallest_message_names_one_replica_and_one_partition() {
    let bytes = CompileOptions::default().to_bytes();
    assert_eq!(bytes, [0x1a, 4, 0x20, 1, 0x28, 1]);
    assert_eq!(
        CompileOptions::new(1, 1).unwrap(),
        CompileOptions::default()
    );
}

#[test]
fn partitions_turn_the_partitioner_on() {
    let options = CompileOptions::new(1, 300).unwrap();
    assert_eq!(
        options.to_bytes(),
        [0x1a, 7, 0x20, 1, 0x28, 0xac, 2, 0x30, 1]
    );
}

#[test]
fn shardy_partitions_where_it_is_asked_to() {
    let options = CompileOptions::new(1, 2).unwrap();
    let plain = options.to_bytes();
    let bytes = options.with_shardy().to_bytes();
    assert_eq!(plain, [0x1a, 6, 0x20, 1, 0x28, 2, 0x30, 1]);
    assert_eq!(bytes, [0x1a, 9, 0x20, 1, 0x28, 2, 0x30, 1, 0x98, 1, 1]);
}

#[test]
fn an_assignment_lists_the_replicas_of_each_partition() {
    let options = CompileOptions::new(2, 2).unwrap();
    let bytes = options.with_devices(&[0, 1, 2, 200]).unwrap().to_bytes();
    let assignment = [
        8, 2, 16, 2, 0x1a, 4, 0x0a, 2, 0, 2, 0x1a, 5, 0x0a, 3, 1, 200, 1,
    ];
    let mut expected = vec![0x1a, 25, 0x20, 2, 0x28, 2, 0x30, 1, 0x4a, 17];
    expected.extend(assignment);
    assert_eq!(bytes, expected);
}

#[test]
fn only_the_cpu_compiler_is_told_to_keep_nan() {
    let options = CompileOptions::default();
    for platform in [Platform::Tpu, Platform::Cuda] {
        assert_eq!(options.to_bytes_for(platform), options.to_bytes());
    }
    let bytes = options.to_bytes_for(Platform::Cpu);
    let name = b"xla_cpu_enable_fast_min_max";
    let entry = [&[0x3a, 33, 0x0a, 27], &name[..], &[0x12, 2, 0x10, 0]].concat();
    assert_eq!(bytes, [options.to_bytes(), entry].concat());
}

#[test]
fn nothing_empty_can_be_built() {
    for (replicas, partitions) in [(0, 1), (1, 0), (usize::MAX, 2), (1 << 9, 1 << 8)] {
        let options = CompileOptions::new(replicas, partitions);
        assert!(matches!(options, Err(Error::CompileOptions { .. })));
    }
}

#[test]
fn devices_are_counted_and_distinct() {
    let two = CompileOptions::new(2, 1).unwrap();
    for ids in [&[][..], &[0], &[0, 0], &[-1, 0], &[0, 1, 2]] {
        assert!(two.clone().with_devices(ids).is_err(), "{ids:?}");
    }
    assert_eq!(
        two.with_devices(&[3, 1]).unwrap().devices(),
        Some(&[3, 1][..])
    );
    assert!(CompileOptions::on_device(-1).is_err());
}
