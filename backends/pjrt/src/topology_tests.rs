//! Tests of the sizes of topologies, which are checked before a plugin is called.

use super::*;

#[test]
fn sizes_that_libtpu_does_not_survive_are_refused() {
    for name in [
        "v5e:1x1",
        "v5e:2x2",
        "v5p=2x2x1",
        "v4_2x2x1",
        "tpu7x:16x16x16",
    ] {
        assert!(check_size(name, &[]).is_ok(), "{name}");
    }
    let refused = [
        "",
        "v5e",
        "v5e:",
        "v5e:0x0",
        "v5e:2x",
        "v5e:2x2x0",
        "v5e:-1x2",
        "v5e:1000x1000",
    ];
    for name in refused
        .into_iter()
        .chain(["v5e:9999999999999x9999999999999"])
    {
        assert!(
            matches!(check_size(name, &[]), Err(Error::Topology { .. })),
            "{name}"
        );
    }
    let slices = |count: i64| check_size("v5e:2x2", &[("num_slices", Value::Int(count))]);
    assert!(slices(2).is_ok());
    assert!(slices(0).is_err() && slices(-1).is_err() && slices(1 << 40).is_err());
}
