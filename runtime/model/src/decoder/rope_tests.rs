use super::*;

fn rope(scaling: RopeScaling) -> Rope {
    Rope {
        theta: 10_000.0,
        rotated: 8,
        scaling,
        interleaved: false,
    }
}

#[test]
fn plain_frequencies_fall_by_the_same_factor() {
    assert_eq!(
        rope(RopeScaling::None).frequencies(),
        [1.0, 0.1, 0.01, 0.001]
    );
    let linear = rope(RopeScaling::Linear { factor: 4.0 });
    assert_eq!(linear.frequencies(), [0.25, 0.025, 0.0025, 0.00025]);
}

#[test]
fn llama_3_keeps_fast_pairs_and_divides_slow_ones() {
    let llama = rope(RopeScaling::Llama3 {
        factor: 8.0,
        low: 1.0,
        high: 4.0,
        original: 256.0,
    });
    let got = llama.frequencies();
    // Turns of the four pairs in 256 tokens: 40.7, 4.07, 0.407, 0.0407.
    assert_eq!(got, [1.0, 0.1, 0.00125, 0.000125]);
}

#[test]
fn yarn_joins_both_by_a_ramp() {
    let yarn = |truncate| {
        rope(RopeScaling::Yarn {
            factor: 4.0,
            fast: 32.0,
            slow: 1.0,
            original: 4096.0,
            truncate,
            attention: yarn_attention(4.0, 1.0),
        })
    };
    // YaRN's ramp starts at pair 8 · ln(4096 / 64π) / (2 ln 10⁴) = 1.309, and ends at 2.814, the pair of one turn.
    let got = yarn(true).frequencies();
    let want = [1.0, 0.1, 0.01 * (0.5 + 0.5 / 4.0), 0.001 / 4.0];
    for (got, want) in got.iter().zip(want) {
        assert!((f64::from(*got) / want - 1.0).abs() < 1e-6, "{got} {want}");
    }
    let ramp = (2.0 - 1.309_03) / (2.814_26 - 1.309_03);
    let want = 0.01 * (ramp / 4.0 + 1.0 - ramp);
    let got = f64::from(yarn(false).frequencies()[2]);
    assert!((got / want - 1.0).abs() < 1e-4, "{got} {want}");
    let [cos, sin] = yarn(true).tables([0].into_iter());
    assert_eq!(sin, [0.0; 4]);
    assert!((f64::from(cos[0]) - (0.1 * 4.0_f64.ln() + 1.0)).abs() < 1e-6);
}

#[test]
fn nothing_is_stretched_below_one() {
    assert_eq!(yarn_attention(1.0, 1.0), 1.0);
    assert_eq!(yarn_attention(0.5, 2.0), 1.0);
}

#[test]
fn longrope_has_other_divisors_beyond_the_original_context() {
    let long = rope(RopeScaling::LongRope {
        short: vec![1.0, 2.0, 4.0, 5.0],
        long: vec![2.0, 4.0, 8.0, 10.0],
        original: 64.0,
        attention: 1.25,
    });
    let of = |tokens| long.of_length(tokens).frequencies();
    assert_eq!(of(64), [1.0, 0.05, 0.0025, 0.0002]);
    assert_eq!(of(65), [0.5, 0.025, 0.00125, 0.0001]);
    assert_eq!(long.frequencies(), of(1));
    let [cos, _] = long.of_length(65).tables([0].into_iter());
    assert_eq!(cos, [1.25; 4]);
}
