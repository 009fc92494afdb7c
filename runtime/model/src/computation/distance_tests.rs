use super::*;

/// A computation of three tokens: an embedding of one value each, a router of four experts, and a head.
fn computation(keys: [[f64; 4]; 3], head: [f64; 6]) -> Computation {
    let choose = |keys: [f64; 4]| {
        let mut experts: Vec<usize> = (0..4).collect();
        experts.sort_by(|a, b| keys[*b].total_cmp(&keys[*a]));
        experts.truncate(2);
        Choice {
            keys: keys.to_vec(),
            groups: vec![(0.0, true)],
            experts,
            weights: vec![0.5; 2],
        }
    };
    let router = Computed {
        layer: Some(0),
        part: Part::Router,
        values: keys.concat(),
        choices: keys.map(choose).to_vec(),
    };
    Computation {
        tokens: 3,
        parts: vec![
            Computed::plain(None, Part::Embedding, vec![1.0, 2.0, 4.0]),
            router,
            Computed::plain(None, Part::Head, head.to_vec()),
        ],
    }
}

const KEYS: [[f64; 4]; 3] = [[4.0, 3.0, 2.0, 1.0]; 3];
const HEAD: [f64; 6] = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0];

fn between(one: &Computation, other: &Computation) -> Vec<Distance> {
    Distance::between(one, other, Limits::default()).unwrap()
}

#[test]
fn equal_computations_are_near_and_the_first_difference_is_named() {
    let want = computation(KEYS, HEAD);
    let same = between(&want, &want);
    assert!(same.iter().all(|of| of.relative_l2 == Some(0.0)));
    assert_eq!(parting(&same, Limits::default()), None);
    assert_eq!(Greedy::first(&want, &want), None);
    let mut got = want.clone();
    got.parts[0].values[2] = 4.0 + f64::from(f32::EPSILON) * 8.0;
    got.parts[2].values[3] = 2.0;
    let apart = between(&want, &got);
    assert_eq!(apart[0].ulps, Some(2.0));
    let first = parting(&apart, Limits::default()).unwrap();
    assert_eq!((first.part, first.place()), (Part::Head, "head".to_owned()));
    let greedy = Greedy::first(&want, &got).unwrap();
    assert_eq!((greedy.position, greedy.expected, greedy.got), (2, 0, 1));
    assert_eq!(greedy.margin, Some(1.0));
}

#[test]
fn a_tie_ends_what_is_judged_and_another_flip_is_a_fault() {
    let mut keys = KEYS;
    keys[1] = [4.0, 2.0001, 2.0, 1.0];
    let want = computation(keys, HEAD);
    keys[1] = [4.0, 2.0, 2.0001, 1.0];
    let tie = between(&want, &computation(keys, [1.0, 0.0, 9.0, 9.0, 9.0, 9.0]));
    let flip = &tie[1].flips[0];
    assert_eq!((&flip.lost[..], &flip.gained[..]), (&[1][..], &[2][..]));
    assert!(
        flip.tie
            && flip
                .margin
                .is_some_and(|margin| (margin - 1e-4).abs() < 1e-9)
    );
    assert_eq!((tie[1].judged, tie[2].judged), (3, 1));
    assert_eq!(parting(&tie, Limits::default()), None);
    let wide = Limits {
        distance: 10.0,
        tie: 1e-3,
    };
    keys[1] = [4.0, 1.0, 3.0, 1.0];
    let (want, got) = (computation(KEYS, HEAD), computation(keys, HEAD));
    let flipped = Distance::between(&want, &got, wide).unwrap();
    let first = parting(&flipped, wide).unwrap();
    assert_eq!(first.place(), "layer 0, router");
}

#[test]
fn a_group_decides_by_its_value() {
    let choice = Choice {
        keys: vec![0.9, 0.1, 0.8, 0.7],
        groups: vec![(1.0, false), (1.5, true)],
        experts: vec![2, 3],
        weights: vec![0.5; 2],
    };
    assert_eq!(choice.margin(&[3], &[0]), 0.5);
    let one = Choice {
        groups: vec![(0.0, true)],
        ..choice
    };
    assert!((one.margin(&[3], &[1]) - 0.6).abs() < 1e-12);
}

#[test]
fn what_is_no_number_is_far_and_other_models_are_refused() {
    let want = computation(KEYS, HEAD);
    let mut got = want.clone();
    got.parts[0].values[1] = f64::NAN;
    let apart = between(&want, &got);
    assert_eq!((apart[0].relative_l2, apart[0].ulps), (None, None));
    assert!(!apart[0].is_near(Limits::default()));
    got.parts.pop();
    assert!(Distance::between(&want, &got, Limits::default()).is_err());
}
