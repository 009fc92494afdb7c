use moebius::blocks::BlockFormat;

use super::{BaseWeights, Schedule, Subject, TrainConfig};
use crate::bytes::DecoderConfig;

#[test]
fn the_rate_rises_in_a_line_and_falls_in_a_cosine() {
    let config = TrainConfig {
        steps: 110,
        warm_up: 10,
        learning_rate: 1.0,
        ..TrainConfig::default()
    };
    let rates = [
        (0, 0.1),
        (4, 0.5),
        (9, 1.0),
        (10, 1.0),
        (60, 0.55),
        (110, 0.1),
        (1000, 0.1),
    ];
    for (step, rate) in rates {
        let close = (config.rate(step) - rate).abs() < 1e-6;
        assert!(close, "{step}");
    }
    let constant = TrainConfig {
        warm_up: 0,
        steps: 1,
        ..config
    };
    assert!((constant.rate(0) - 1.0).abs() < 1e-6);
}

#[test]
fn other_schedules_rise_alike_and_fall_in_a_line_or_stay() {
    let rates = |schedule| {
        let config = TrainConfig {
            steps: 110,
            warm_up: 10,
            learning_rate: 1.0,
            schedule,
            ..TrainConfig::default()
        };
        [4, 9, 10, 60, 85, 110, 1000].map(|step| config.rate(step))
    };
    let line = [0.5, 1.0, 1.0, 0.55, 0.325, 0.1, 0.1];
    let level = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    for (schedule, want) in [(Schedule::Linear, line), (Schedule::Constant, level)] {
        let got = rates(schedule);
        let close = got
            .iter()
            .zip(&want)
            .all(|(got, want)| (got - want).abs() < 1e-6);
        assert!(close, "{schedule:?}: {got:?}");
    }
}

#[test]
fn a_course_that_cannot_work_is_refused() {
    let (default, sizes) = (TrainConfig::default(), DecoderConfig::default());
    let nan = "learning rate: expected a positive number, got NaN";
    type Change = fn(&mut TrainConfig);
    let wrong: [(Change, &str); 6] = [
        (|of| of.batch = 0, "batch: expected at least 1, got 0"),
        (|of| of.steps = 0, "steps: expected at least 1, got 0"),
        (|of| of.batch = 1 << 40, "batch: expected fewer tokens"),
        (|of| of.learning_rate = f32::NAN, nan),
        (
            |of| of.accumulate = 0,
            "accumulate: expected at least 1, got 0",
        ),
        (
            |of| of.accumulate = 1 << 40,
            "accumulate: expected at most 268435456 tokens in a step",
        ),
    ];
    for subject in [Subject::from(sizes), Subject::from(&sizes.spec())] {
        subject.check(&default).unwrap();
        for (change, message) in wrong {
            let mut config = default;
            change(&mut config);
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
    let coded = TrainConfig {
        base: BaseWeights::Blocks(BlockFormat::Q4K),
        ..default
    };
    assert!(default.check_all_weights().is_ok());
    let error = coded.check_all_weights().unwrap_err().to_string();
    assert_eq!(error, "weights that are trained: expected f32, got q4_k");
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
    // Multiply-adds per token: three layers with 4 · 8² + 2 · 5 · 8 in attention, 3 · 2 · 8 · 16 in experts, 8 · 4 in the router and 2 · 8
    // in norms; 8 in the last norm, and 8 · 256 in the head.
    let token = 3 * (256 + 80 + 768 + 32 + 16) + 8 + 2048;
    assert_eq!(config.step_flops(&sizes.spec()), f64::from(6 * 10 * token));
    let thrice = TrainConfig {
        accumulate: 3,
        ..config
    };
    assert_eq!(thrice.tokens(), 30);
    assert_eq!(thrice.step_flops(&sizes.spec()), f64::from(6 * 30 * token));
}
