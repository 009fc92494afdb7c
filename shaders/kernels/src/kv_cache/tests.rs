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

#[test]
fn a_pool_that_no_binding_holds_is_refused() {
    let mut device = profiles::webgpu_default();
    device.limits.max_binding_bytes = 1 << 20;
    let error = plan(attend(1, 4096), &device)
        .expect_err("16 MiB")
        .to_string();
    assert!(error.contains("binding"), "{error}");
}
