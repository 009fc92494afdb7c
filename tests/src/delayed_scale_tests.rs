use super::*;

fn run(algorithm: AmaxAlgorithm, history_len: usize, amaxes: &[f32]) -> Vec<(Vec<f32>, f32)> {
    let scaling = Fp8Scaling::Delayed {
        history_len,
        algorithm,
    };
    let recipe = Fp8Recipe::delayed().with_scaling(scaling);
    let mut state = DelayedScale::new(&recipe, Fp8Format::E4M3).unwrap();
    let after = |amax: &f32| {
        state.step(*amax);
        (state.history.clone(), state.scale)
    };
    amaxes.iter().map(after).collect()
}

/// Step by step what Transformer Engine's `_default_get_amax_and_update_history` and `_default_sf_compute` do; our scales are
/// the reciprocals of its. With three slots an amax counts in its own step and the two after it.
#[test]
fn the_largest_of_a_history_counts_until_it_leaves() {
    let inf = f32::INFINITY;
    let got = run(
        AmaxAlgorithm::Max,
        3,
        &[448.0, 896.0, 224.0, 112.0, 0.0, inf, 56.0, 0.0, 0.0, 28.0],
    );
    let want = [
        (vec![0.0, 0.0, 448.0], 1.0),
        (vec![0.0, 448.0, 896.0], 2.0),
        (vec![0.0, 896.0, 224.0], 2.0),
        (vec![0.0, 224.0, 112.0], 2.0),
        (vec![0.0, 112.0, 0.0], 0.5),
        // An infinite amax in the history keeps the scale as it is.
        (vec![0.0, 0.0, inf], 0.5),
        (vec![0.0, inf, 56.0], 0.5),
        (vec![0.0, 56.0, 0.0], 0.5),
        (vec![0.0, 0.0, 0.0], 0.125),
        (vec![0.0, 0.0, 28.0], 0.0625),
    ];
    assert_eq!(got, want);
}

#[test]
fn the_most_recent_counts_alone_and_zero_keeps_the_scale() {
    let got = run(AmaxAlgorithm::MostRecent, 2, &[448.0, 112.0, 0.0, 224.0]);
    let want = [
        (vec![0.0, 448.0], 1.0),
        (vec![0.0, 112.0], 0.25),
        (vec![0.0, 0.0], 0.25),
        (vec![0.0, 224.0], 0.5),
    ];
    assert_eq!(got, want);
}

#[test]
fn one_slot_remembers_nothing() {
    for algorithm in [AmaxAlgorithm::Max, AmaxAlgorithm::MostRecent] {
        let got = run(algorithm, 1, &[896.0, 448.0, 0.0]);
        let want = [(vec![0.0], 2.0), (vec![0.0], 1.0), (vec![0.0], 1.0)];
        assert_eq!(got, want);
    }
}
