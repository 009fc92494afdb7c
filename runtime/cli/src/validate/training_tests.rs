//! A model that trains is as likely to say a text as the one that is served, and one with another weight is named by its first token.

use super::*;
use crate::certificate::Verdict;
use crate::published::Source;

/// Tokens of the bundled model, more than an engine's step takes.
const IDS: [u32; 20] = [
    5, 17, 3, 40, 41, 9, 2, 60, 33, 21, 8, 13, 50, 4, 28, 36, 7, 11, 19, 24,
];

/// The bundled model in floating point.
fn load(device: &BurnDevice) -> Model {
    let source = Source::open(None).unwrap();
    let options = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    source.files.load(device, options, &mut |_| ()).unwrap()
}

/// What is found of an engine's reads and a training.
fn found(reads: &[Read], trained: &[f32]) -> (Vec<Reading>, Verdict) {
    let readings = reads.iter().map(|read| compared(read, &IDS, trained));
    let readings: Vec<Reading> = readings.collect();
    let found = Found::Training {
        limit: 0.0,
        readings: readings.clone(),
    };
    (readings, found.verdict())
}

#[test]
fn another_weight_in_training_is_found_at_the_first_token() {
    let device = BurnDevice::flex();
    let reads = served(load(&device), &IDS, &device).unwrap();
    let prompts: Vec<usize> = reads.iter().map(|read| read.prompt).collect();
    assert_eq!(prompts, [1, 10]);

    let mut model = load(&device.autodiff());
    let (readings, verdict) = found(&reads, &trained(&model, &IDS).unwrap());
    assert_eq!(verdict, Verdict::Same, "{readings:?}");
    let counts: Vec<[usize; 2]> = readings.iter().map(|of| [of.tokens, of.equal]).collect();
    assert_eq!(counts, [[19, 19], [10, 10]]);
    let said = answer(0.0, &readings);
    assert_eq!(said, "29 of 29 log-probabilities have the engine's bits");

    model.embedding = model.embedding.map(|x| x.mul_scalar(1.5));
    let (readings, verdict) = found(&reads, &trained(&model, &IDS).unwrap());
    assert_eq!(verdict, Verdict::Apart);
    let first = readings[0].first.as_ref().unwrap();
    assert_eq!((first.position, first.token), (1, 17));
    let said = answer(0.0, &readings);
    assert!(said.contains("; the first other: token 1, 17: "), "{said}");
}

#[test]
fn a_planted_bit_is_named_by_its_place() {
    let trained: Vec<f32> = (0..19).map(|at| -1.0 - at as f32).collect();
    let read = |prompt: usize, other: usize| {
        let mut found = trained[prompt - 1..].to_vec();
        // The value of the token at this place of the text.
        let value = &mut found[other - prompt];
        *value = f32::from_bits(value.to_bits() + 1);
        Read { prompt, found }
    };
    let (readings, verdict) = found(&[read(1, 4), read(10, 12)], &trained);
    assert_eq!(verdict, Verdict::Apart);
    let places = readings.iter().map(|of| {
        let first = of.first.as_ref().unwrap();
        (first.position, first.token, of.tokens - of.equal)
    });
    assert_eq!(places.collect::<Vec<_>>(), [(4, 41, 1), (12, 50, 1)]);
    // A unit in the last place of 4.
    assert_eq!(readings[0].largest, Some(f64::from(f32::EPSILON) * 4.0));
    let near = Found::Training {
        limit: APART_ON_XLA,
        readings,
    };
    assert_eq!(near.verdict(), Verdict::Same);

    let mut lost = Read {
        prompt: 1,
        found: trained.clone(),
    };
    lost.found[7] = f32::NAN;
    let (readings, verdict) = found(&[lost], &trained);
    let first = readings[0].first.as_ref().unwrap();
    assert_eq!((first.position, first.engine), (8, None));
    assert_eq!((readings[0].largest, verdict), (None, Verdict::Apart));
    assert_eq!(found(&[], &trained).1, Verdict::Undecided);
}
