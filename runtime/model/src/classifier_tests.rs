use super::{ClassifierConfig, ClassifierTrainer, Samples};
use crate::error::Error;
use burn::tensor::Device;
use moebius_weights::Unfit;

/// Samples of a checkerboard of 4 × 4 fields, `side` × `side` points.
fn checkerboard(side: usize) -> Samples {
    let place = |i: usize| (i as f32 + 0.5) / side as f32 * 2.0 - 1.0;
    let cells = (0..side * side).map(|i| (place(i % side), place(i / side)));
    let field = |v: f32| ((v + 1.0) * 2.0) as u32;
    Samples {
        points: cells.clone().flat_map(|(x, y)| [x, y]).collect(),
        classes: cells.map(|(x, y)| (field(x) + field(y)) % 2).collect(),
    }
}

fn losses(steps: usize) -> Vec<f32> {
    let mut trainer = ClassifierTrainer::new(
        ClassifierConfig::default(),
        checkerboard(16),
        &Device::flex(),
    )
    .unwrap();
    let read = |tensor: burn::tensor::Tensor<1>| tensor.into_scalar::<f32>();
    (0..steps)
        .map(|_| read(trainer.step().unwrap().loss))
        .collect()
}

#[test]
fn a_checkerboard_is_learnt_the_same_way_every_time() {
    let first = losses(120);
    let (start, end) = (first[0], first[119]);
    assert!(end < 0.5 * start, "{start} -> {end}");
    assert_eq!(first, losses(120));
}

#[test]
fn what_does_not_fit_is_refused() {
    let good = checkerboard(4);
    let config = ClassifierConfig::default;
    let start = |config, samples| ClassifierTrainer::new(config, samples, &Device::flex());
    let refused = |outcome: Result<ClassifierTrainer, Error>, what: &str| match outcome {
        Err(Error::Config(Unfit { what: got, .. })) => assert_eq!(got, what),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{what} was taken"),
    };
    let with = |classes, top_k| ClassifierConfig {
        classes,
        top_k,
        ..config()
    };
    refused(start(with(1, 1), good.clone()), "classes");
    refused(start(with(2, 5), good.clone()), "top_k");
    let rate = ClassifierConfig {
        learning_rate: f64::NAN,
        ..config()
    };
    refused(start(rate, good.clone()), "learning_rate");
    let mut odd = good.clone();
    odd.points.pop();
    refused(start(config(), odd), "coordinates");
    let mut infinite = good.clone();
    infinite.points[3] = f32::INFINITY;
    refused(start(config(), infinite), "coordinate");
    let mut foreign = good.clone();
    foreign.classes[0] = 2;
    refused(start(config(), foreign), "class of a point");
    let mut short = good;
    short.classes.pop();
    refused(start(config(), short), "classes of the points");
}

#[test]
fn predictions_follow_the_training() {
    let samples = checkerboard(16);
    let device = Device::flex();
    let config = ClassifierConfig::default();
    let mut trainer = ClassifierTrainer::new(config, samples.clone(), &device).unwrap();
    for _ in 0..150 {
        trainer.step().unwrap();
    }
    let prediction = trainer.predict(samples.points).unwrap();
    let probabilities: Vec<f32> = prediction.probabilities.into_data().iter().collect();
    let right = probabilities.chunks(2).zip(&samples.classes);
    let right = right
        .filter(|(p, class)| (p[1] > p[0]) == (**class == 1))
        .count();
    assert!(right > 240, "{right} of 256");
    let experts: Vec<i64> = prediction.experts.into_data().iter().collect();
    assert!(experts.iter().all(|e| (0..4).contains(e)));
}
