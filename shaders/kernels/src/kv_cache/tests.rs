use super::*;
use moebius_ops::attention::{Problem, Sizes};
use moebius_profiles as profiles;

fn attend(queries: usize, keys: usize) -> Attend {
    let layout = Layout::new([8, keys], 2, [64, 64], CacheFormat::F32).expect("a layout");
    let sizes = Sizes {
        batch: 3,
        heads: 8,
        kv_heads: 2,
        queries,
        keys,
        head_dim: 64,
        value_dim: 64,
    };
    let problem = Problem::new(sizes).expect("sizes");
    Attend::new(problem, layout, 1).expect("the cache's sizes")
}

#[test]
fn few_rows_are_spread_and_many_are_not() {
    for device in [profiles::cpu_neon(), profiles::webgpu_default()] {
        let splits = |queries| {
            plan(attend(queries, 4096), &device)
                .expect("supported")
                .splits
        };
        assert_eq!(splits(1), 16);
        assert_eq!(splits(4), 16);
        assert_eq!(splits(5), 1, "20 rows of a key head");
    }
}

/// A part of 256 tokens with heads of 64 elements takes 17 · (1 + 65 + 16 · 5) rounds and its own, so llvmpipe's 65,535 allow 25
/// parts in one unit.
#[test]
fn many_rows_are_spread_where_loops_end_early() {
    let splits = |keys| {
        let device = profiles::lavapipe();
        plan(attend(64, keys), &device).expect("supported").splits
    };
    assert_eq!(splits(25 * 256), 1);
    assert_eq!(splits(26 * 256), 2);
    assert_eq!(splits(60 * 256), 3);
}

#[test]
fn a_pool_that_no_binding_holds_is_refused() {
    let mut device = profiles::webgpu_default();
    device.limits.max_binding_bytes = 1 << 20;
    let error = plan(attend(1, 4096), &device)
        .expect_err("16 MiB")
        .to_string();
    assert!(error.contains("binding"), "{error}");
}
