use super::{DecoderConfig, TrainConfig};

#[test]
fn the_rate_rises_in_a_line_and_falls_in_a_cosine() {
    let config = TrainConfig {
        steps: 110,
        warm_up: 10,
        learning_rate: 1.0,
        ..TrainConfig::default()
    };
    let close = |step, rate: f64| assert!((config.rate(step) - rate).abs() < 1e-6, "{step}");
    close(0, 0.1);
    close(4, 0.5);
    close(9, 1.0);
    close(10, 1.0);
    close(60, 0.55);
    close(110, 0.1);
    close(1000, 0.1);
    let constant = TrainConfig {
        warm_up: 0,
        steps: 1,
        ..config
    };
    assert!((constant.rate(0) - 1.0).abs() < 1e-6);
}

/// Checks that each is refused, and how.
fn refused<const N: usize>(wrong: [(TrainConfig, &str); N]) {
    for (config, message) in wrong {
        let error = config.check().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn sizes_that_cannot_work_are_refused_before_anything_is_allocated() {
    let default = TrainConfig::default();
    default.check().unwrap();
    let of = |decoder| TrainConfig { decoder, ..default };
    let sizes = default.decoder;
    let narrow = sizes.with_hidden(1);
    refused([
        (
            of(DecoderConfig { heads: 3, ..sizes }),
            "heads: expected a divisor of hidden 64, got 3",
        ),
        (
            of(DecoderConfig {
                heads: 1,
                ..sizes.with_hidden(130)
            }),
            "hidden / heads: expected at most 128, got 130",
        ),
        (
            of(DecoderConfig { top_k: 9, ..sizes }),
            "top_k: expected at most 8, got 9",
        ),
        (
            of(DecoderConfig { inter: 0, ..sizes }),
            "inter: expected at least 1, got 0",
        ),
        (
            of(DecoderConfig {
                layers: 20_000_000,
                ..narrow
            }),
            "layers: expected at most 1024, got 20000000",
        ),
        (
            of(DecoderConfig {
                experts: 1 << 31,
                ..narrow
            }),
            "decoder: expected at most 268435456 parameters",
        ),
        (
            of(sizes.with_hidden(usize::MAX - 15)),
            "decoder: expected at most 268435456 parameters",
        ),
    ]);
}

#[test]
fn a_course_that_cannot_work_is_refused() {
    let default = TrainConfig::default();
    refused([
        (
            TrainConfig {
                batch: 0,
                ..default
            },
            "batch: expected at least 1, got 0",
        ),
        (
            TrainConfig {
                steps: 0,
                ..default
            },
            "steps: expected at least 1, got 0",
        ),
        (
            TrainConfig {
                batch: 1 << 40,
                ..default
            },
            "batch: expected fewer tokens",
        ),
        (
            TrainConfig {
                learning_rate: f32::NAN,
                ..default
            },
            "learning rate: expected a positive number, got NaN",
        ),
    ]);
}

#[test]
fn operations_of_a_step_follow_from_its_sizes() {
    let config = TrainConfig {
        batch: 2,
        decoder: DecoderConfig {
            hidden: 8,
            heads: 2,
            layers: 3,
            sequence: 5,
            experts: 4,
            inter: 16,
            top_k: 2,
            ..TrainConfig::default().decoder
        },
        ..TrainConfig::default()
    };
    // A token: three blocks of 4 · 8² + 2 · 5 · 8 in attention, 3 · 2 · 8 · 16 in experts and 8 · 4 in the router; 8 · 256 in the head.
    let token = 3 * (256 + 80 + 768 + 32) + 2048;
    assert_eq!(config.step_flops(), f64::from(6 * 10 * token));
}

#[test]
fn a_width_brings_its_heads_and_experts() {
    let sizes = DecoderConfig::default();
    assert_eq!(sizes.with_hidden(64), sizes);
    for (hidden, heads) in [(10, 1), (130, 2), (131, 131), (200, 2), (1000, 8)] {
        assert_eq!(sizes.with_hidden(hidden).heads, heads);
        sizes.with_hidden(hidden).check().unwrap();
    }
}
