//! Recipes of products that train in FP8.

use moebius::fp8::training::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};

#[test]
fn only_histories_and_margins_that_work_pass() {
    let of = |history_len| {
        Fp8Recipe::delayed().with_scaling(Fp8Scaling::Delayed {
            history_len,
            algorithm: AmaxAlgorithm::MostRecent,
        })
    };
    let current = Fp8Recipe::current();
    for good in [of(1), of(1 << 16), current.with_margin(-32), current] {
        good.validate().unwrap();
    }
    let error = |recipe: Fp8Recipe| recipe.validate().unwrap_err().to_string();
    assert_eq!(error(of(0)), "amax history: expected 1 to 65536, got 0");
    assert!(of(usize::MAX).validate().is_err());
    assert_eq!(
        error(current.with_margin(33)),
        "fp8 margin: expected -32 to 32, got 33"
    );
    assert!(current.with_margin(i32::MIN).validate().is_err());
}
