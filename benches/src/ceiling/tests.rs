use super::*;

fn ceilings(memory: Option<f64>) -> Ceilings {
    let read = |gb_per_s| MemoryRead {
        gb_per_s,
        threads: 2,
        bytes: 4 << 20,
        last_level_cache_bytes: 1 << 20,
        cache_size_of: CacheSize::System,
    };
    Ceilings {
        peak_gflops: 200.0,
        peak_of: "f32 multiply-adds".to_owned(),
        memory: memory.map(read),
    }
}

#[test]
fn the_longer_of_both_floors_binds() {
    let ceilings = ceilings(Some(20.0));
    // The arithmetic takes 2 ms at the peak and the reads 1 ms.
    let floor = ceilings.floor(400_000_000, 20_000_000, 4e-3);
    let want = Floor {
        binds: Bound::Compute,
        compute_ms: 2.0,
        memory_ms: 1.0,
        share: 0.5,
    };
    assert_eq!(floor, Some(want));
    let floor = ceilings.floor(20_000_000, 20_000_000, 4e-3);
    let floor = floor.map(|floor| (floor.binds, floor.share));
    assert_eq!(floor, Some((Bound::Memory, 0.25)));
}

#[test]
fn there_is_no_floor_where_memory_is_not_known_or_the_peak_is_beaten() {
    assert_eq!(ceilings(None).floor(1, 1, 1.0), None);
    let ceilings = ceilings(Some(20.0));
    assert!(ceilings.floor(400_000_000, 0, 1.9e-3).is_some());
    assert_eq!(ceilings.floor(400_000_000, 0, 1.7e-3), None);
}
