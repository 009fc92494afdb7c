use super::{Dataset, Sample};

/// A sample of `count` tokens that begin with `first`, all of which are learnt.
fn sample(first: u32, count: usize) -> Sample {
    let ids = (0..count as u32).map(|at| first + at).collect();
    Sample::new(ids, vec![true; count]).unwrap()
}

#[test]
fn samples_fill_sequences_whole_and_as_few_as_fit() {
    // Inputs: 3, 5, 2, 8, 2 and 12, of which 8 are left.
    let counts = [4, 6, 3, 9, 3, 13];
    let samples = counts.iter().enumerate();
    let samples = samples.map(|(number, &count)| sample(100 * number as u32, count));
    let dataset = Dataset::pack(samples.collect(), 8).unwrap();
    assert_eq!(dataset.rows, [vec![3], vec![5], vec![1, 0], vec![2, 4]]);
    assert_eq!((dataset.cut(), dataset.left_out()), (1, 0));
    assert_eq!((dataset.samples(), dataset.sequences()), (6, 4));
    assert_eq!(dataset.targets(), 3 + 5 + 2 + 8 + 2 + 8);
}

#[test]
fn samples_without_a_token_to_learn_are_left_out() {
    let of = |learnt: &[bool]| Sample::new(vec![7; learnt.len()], learnt.to_vec()).unwrap();
    // The first token has nothing before it, and the end of a long sample is cut off.
    let samples = vec![
        of(&[true, false]),
        of(&[true]),
        of(&[]),
        of(&[false, false, false, false, true]),
        of(&[false, true]),
    ];
    let dataset = Dataset::pack(samples.clone(), 3).unwrap();
    assert_eq!((dataset.samples(), dataset.left_out()), (1, 4));
    let none = Dataset::pack(samples[..4].to_vec(), 3)
        .unwrap_err()
        .to_string();
    assert_eq!(
        none,
        "samples: expected one with a token to learn, got none of 4"
    );
    assert!(Dataset::pack(samples, 0).is_err());
    assert!(Sample::new(vec![1, 2], vec![true]).is_err());
}

#[test]
fn each_sequence_is_drawn_once_a_round_in_an_order_of_its_own() {
    let samples = (0..7).map(|number| sample(10 * number, 5)).collect();
    let dataset = Dataset::pack(samples, 4).unwrap();
    let steps = |seed| {
        (0..7)
            .flat_map(|step| dataset.drawn(seed, step, 3))
            .collect::<Vec<_>>()
    };
    let drawn = steps(1);
    let rounds: Vec<&[usize]> = drawn.chunks(7).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
    }
    assert_ne!(rounds[0], rounds[1]);
    assert_ne!(steps(2), drawn);
}

#[cfg(feature = "flex")]
#[test]
fn a_batch_has_inputs_targets_and_documents_of_its_samples() {
    use burn::tensor::Device;

    let learnt = vec![false, false, true];
    let samples = vec![
        sample(10, 3),
        Sample::new(vec![20, 21, 22], learnt).unwrap(),
        sample(30, 4),
    ];
    let dataset = Dataset::pack(samples, 5).unwrap();
    assert_eq!(dataset.rows, [vec![2, 0], vec![1]]);
    let batch = dataset.batch(&[0, 1], &Device::flex()).unwrap();
    let tokens: Vec<i32> = batch.tokens.into_data().iter().collect();
    assert_eq!(tokens, [30, 31, 32, 10, 11, 20, 21, 0, 0, 0]);
    let targets: Vec<i32> = batch.targets.into_data().iter().collect();
    assert_eq!(targets, [31, 32, 33, 11, 12, 21, 22, 0, 0, 0]);
    let weights: Vec<f32> = batch.weights.into_data().iter().collect();
    assert_eq!(weights, [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(batch.learnt, 6);
    let documents = crate::decoder::Documents::filled(vec![vec![3, 2], vec![2]], 5);
    assert_eq!(batch.documents, documents.unwrap());
}
