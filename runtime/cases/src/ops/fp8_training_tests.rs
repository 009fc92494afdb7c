//! Steps of training in FP8, with values worked out by hand.

use super::format_tests::{Given, assert_near, computed, floats, refusal, with};

/// The inputs of steps with these extents S, M, K and N.
fn steps([s, m, k, n]: [usize; 4], [x, weight, dy]: [&[f32]; 3]) -> Vec<Given> {
    vec![
        floats("in.x", &[s, m, k], x),
        floats("in.weight", &[n, k], weight),
        floats("in.dy", &[s, m, n], dy),
    ]
}

#[test]
fn a_product_in_training_rounds_both_operands_and_the_gradient() {
    // The scales of x and dy are 1: 17 is between the codes 16 and 18, and 9216 between 8192 and 10240; the even ones win.
    let given = steps(
        [1, 1, 2, 2],
        [&[448.0, 17.0], &[1.0, 1.0, 0.5, 1.0], &[57_344.0, 9_216.0]],
    );
    let given = with(given, floats("in.bias", &[2], &[0.5, -1.0]));
    let produced = computed("fp8_training_linear", r#"{"scaling":"current"}"#, given);
    assert_near(&produced, "y", &[464.5, 239.0]);
    assert_near(&produced, "d_x", &[61_440.0, 65_536.0]);
    let d_weight = [
        57_344.0 * 448.0,
        57_344.0 * 16.0,
        8_192.0 * 448.0,
        8_192.0 * 16.0,
    ];
    assert_near(&produced, "d_weight", &d_weight);
    assert_near(&produced, "d_bias", &[57_344.0, 9_216.0]);
    let shapes: Vec<_> = produced
        .iter()
        .map(|one| (one.name, &one.shape[..]))
        .collect();
    let expected = [
        ("y", &[1, 1, 2][..]),
        ("d_x", &[1, 1, 2]),
        ("d_weight", &[1, 2, 2]),
        ("d_bias", &[1, 2]),
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn formats_and_margins_of_training_are_chosen() {
    // In E5M2, 17 is nearer to 16 than to 20.
    let given = || steps([1, 1, 2, 1], [&[57_344.0, 17.0], &[1.0, 1.0], &[448.0]]);
    let turned = r#"{"scaling":"current","forward":"e5m2","backward":"e4m3"}"#;
    let produced = computed("fp8_training_linear", turned, given());
    assert_near(&produced, "y", &[57_360.0]);
    let given = steps([1, 1, 2, 1], [&[448.0, 34.0], &[1.0, 1.0], &[1.0]]);
    let margin = r#"{"scaling":"current","margin":1}"#;
    let produced = computed("fp8_training_linear", margin, given);
    // The scale of x is 2, and 34 / 2 is between 16 and 18.
    assert_near(&produced, "y", &[480.0]);
}

#[test]
fn delayed_scales_of_training_follow_the_steps() {
    let params = r#"{"scaling":"delayed","history_len":2}"#;
    let x: [f32; 4] = [1000.0, 3.0, 1000.0, 0.0];
    let given = || steps([2, 1, 2, 1], [&x, &[2.0, -1.0], &[1.5, 1.5]]);
    let produced = computed("fp8_training_linear", params, given());
    // With the scale 1, 1000 becomes 448; its gradient passes.
    assert_near(&produced, "y", &[893.0, 2000.0]);
    assert_near(&produced, "d_x", &[3.0, -1.5, 3.0, -1.5]);
    assert_near(&produced, "d_weight", &[672.0, 4.5, 1500.0, 0.0]);
    let scales = [1000.0 / 448.0, 2.0 / 448.0, 1.5 / 57_344.0];
    assert_near(&produced, "scales", &[scales, scales].concat());
    assert_near(&produced, "history", &[0.0, 1000.0, 0.0, 2.0, 0.0, 1.5]);
    assert_near(&produced, "saturated", &[1.0, 0.0, 0.0]);
    // A state of steps before: the first step's scales, and a history whose oldest amax goes.
    let given = with(given(), floats("in.scales", &[3], &[4.0, 1.0, 1.0]));
    let history = [0.0, 9.0, 1344.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let given = with(given, floats("in.history", &[3, 3], &history));
    let params = r#"{"scaling":"delayed","history_len":3,"algorithm":"max"}"#;
    let produced = computed("fp8_training_linear", params, given);
    // 1000 / 4 becomes 256; after that step the scale is 1344 / 448, and 1000 / 3 becomes 320.
    assert_near(&produced, "y", &[2045.0, 1920.0]);
    let first = [3.0, 2.0 / 448.0, 1.5 / 57_344.0];
    assert_near(&produced, "scales", &[first, first].concat());
    let history = [0.0, 1000.0, 1000.0, 0.0, 2.0, 2.0, 0.0, 1.5, 1.5];
    assert_near(&produced, "history", &history);
    assert_near(&produced, "saturated", &[0.0; 3]);
}

#[test]
fn static_scales_of_training_stay() {
    let given = steps([2, 1, 1, 1], [&[1000.0, 8.0], &[3.0], &[1.0, 1.0]]);
    let given = with(given, floats("in.scales", &[3], &[2.0, 1.0, 0.5]));
    let produced = computed("fp8_training_linear", r#"{"scaling":"static"}"#, given);
    assert_near(&produced, "y", &[2688.0, 24.0]);
    assert_near(&produced, "d_x", &[3.0, 3.0]);
    assert_near(&produced, "d_weight", &[896.0, 8.0]);
    let names: Vec<_> = produced.iter().map(|one| one.name).collect();
    assert_eq!(names, ["y", "d_x", "d_weight"]);
}

#[test]
fn recipes_of_training_are_whole_and_sound() {
    let one = || steps([1, 1, 1, 1], [&[1.0], &[1.0], &[1.0]]);
    let scales = |values: &[f32]| with(one(), floats("in.scales", &[values.len()], values));
    let history = |values: &[f32]| with(one(), floats("in.history", &[3, 2], values));
    let narrow = vec![
        floats("in.x", &[1, 2, 3], &[0.0; 6]),
        floats("in.weight", &[4, 3], &[0.0; 12]),
        floats("in.dy", &[1, 2, 3], &[0.0; 6]),
    ];
    for (params, given, said) in [
        (r#""static""#, one(), "input scales is missing"),
        (
            r#""static","margin":1"#,
            one(),
            "parameter margin has no effect on static scales",
        ),
        (
            r#""current","history_len":2"#,
            one(),
            "parameter history_len has no effect without delayed scales",
        ),
        (
            r#""static","algorithm":"max""#,
            one(),
            "parameter algorithm has no effect without delayed scales",
        ),
        (
            r#""delayed""#,
            one(),
            "parameter history_len is missing, which delayed scales need",
        ),
        (
            r#""delayed","history_len":0"#,
            one(),
            "amax history: expected 1 to 65536, got 0",
        ),
        (
            r#""current","margin":33"#,
            one(),
            "fp8 margin: expected -32 to 32, got 33",
        ),
        (r#""fixed""#, one(), "unknown variant `fixed`"),
        (
            r#""current","backward":"e3m4""#,
            one(),
            "unknown variant `e3m4`",
        ),
        (r#""current","rate":1"#, one(), "unknown field `rate`"),
        (
            r#""current""#,
            scales(&[1.0; 3]),
            "input `scales` is not read by op `fp8_training_linear`",
        ),
        (
            r#""static""#,
            scales(&[1.0; 2]),
            "input scales: expected shape [3] = [3], got [2]",
        ),
        (
            r#""static""#,
            scales(&[1.0, 0.0, 1.0]),
            "input scales: expected positive numbers, got 0",
        ),
        (
            r#""delayed","history_len":3"#,
            history(&[0.0; 6]),
            "input history: expected shape [3,L] = [3, 3], got [3, 2]",
        ),
        (
            r#""delayed","history_len":2"#,
            history(&[0.0, 1.0, 2.0, 1.0, 0.0, 1.0]),
            "input history: expected 0 in slot 0, got 2",
        ),
        (
            r#""delayed","history_len":2"#,
            history(&[0.0, -1.0, 0.0, 1.0, 0.0, 1.0]),
            "input history: expected a magnitude in slot 1, got -1",
        ),
        (
            r#""current""#,
            narrow,
            "input dy: expected shape [S,M,N] = [1, 2, 4], got [1, 2, 3]",
        ),
    ] {
        let params = format!(r#"{{"scaling":{params}}}"#);
        let answer = refusal("fp8_training_linear", &params, given);
        assert!(answer.contains(said), "{answer} for {said}");
    }
}
