use super::{Subject, TrainConfig};
use crate::bytes::DecoderConfig;

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

#[test]
fn a_course_that_cannot_work_is_refused() {
    let (default, sizes) = (TrainConfig::default(), DecoderConfig::default());
    let wrong = [
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
    ];
    for subject in [Subject::from(sizes), Subject::from(&sizes.spec())] {
        subject.check(&default).unwrap();
        for (config, message) in wrong {
            let error = subject.check(&config).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
    let longer = TrainConfig {
        sequence: 65,
        ..default
    };
    let error = Subject::from(sizes).check(&longer).unwrap_err().to_string();
    assert_eq!(error, "sequence: expected at most 64, got 65");
}

#[test]
fn operations_of_a_step_follow_from_its_sizes() {
    let sizes = DecoderConfig {
        hidden: 8,
        heads: 2,
        layers: 3,
        sequence: 5,
        experts: 4,
        inter: 16,
        top_k: 2,
    };
    let config = TrainConfig {
        batch: 2,
        sequence: 5,
        ..TrainConfig::default()
    };
    // A token: three blocks of 4 · 8² + 2 · 5 · 8 in attention, 3 · 2 · 8 · 16 in experts, 8 · 4 in the router and 2 · 8 in norms; 8 in the
    // last norm, and 8 · 256 in the head.
    let token = 3 * (256 + 80 + 768 + 32 + 16) + 8 + 2048;
    assert_eq!(config.step_flops(&sizes.spec()), f64::from(6 * 10 * token));
}
