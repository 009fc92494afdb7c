use super::*;
use moebius_model::computation::Choice;
use serde_json::Value;

/// What a device computes of two tokens with a model of one layer and three experts.
fn computation() -> Computation {
    let choice = Choice {
        keys: vec![3.0, 2.0, 1.0],
        groups: vec![(3.0, true)],
        experts: vec![0, 1],
        weights: vec![0.75, 0.25],
    };
    let of = |layer: Option<usize>, part: Part, values: &[f64]| {
        let choices = if part == Part::Router { 2 } else { 0 };
        Computed {
            layer,
            part,
            values: values.to_vec(),
            choices: vec![choice.clone(); choices],
        }
    };
    let logits = [3.0, 2.0, 1.0, 3.0, 2.0, 1.0];
    Computation {
        tokens: 2,
        parts: vec![
            of(None, Part::Embedding, &[1.0, 2.0, 3.0, 4.0]),
            of(Some(0), Part::Attention, &[1.5, 2.5, 3.5, 4.5]),
            of(Some(0), Part::Router, &logits),
            of(Some(0), Part::Experts, &[2.0, 3.0, 4.0, 5.0]),
            of(None, Part::Head, &logits),
        ],
    }
}

/// What is traced of a device that computes something else.
fn traced(change: fn(&mut Computation), count: usize, is_exact: bool) -> Option<Traced> {
    let (want, mut got) = (computation(), computation());
    change(&mut got);
    let limits = Limits::default();
    let distances = Distance::between(&want, &got, limits).unwrap();
    let pair = Pair {
        want: &want,
        got: &got,
        distances: &distances,
        limits,
        is_exact,
    };
    pair.trace(count)
}

#[test]
fn a_planted_difference_is_shown_where_it_is() {
    let change = |got: &mut Computation| {
        // What follows from a wrong attention is wrong, too, and further away.
        got.parts[1].values[1] += 0.25;
        got.parts[1].values[2] -= 0.5;
        got.parts[3].values[0] += 9.0;
    };
    let apart = |token, index, expected, got| Apart {
        token,
        index,
        expected,
        got,
        difference: got - expected,
    };
    let [further, nearer] = [apart(1, 0, 3.5, 3.0), apart(0, 1, 2.5, 2.75)];
    for (count, values) in [(1, vec![further]), (8, vec![further, nearer])] {
        let expected = Traced {
            place: "layer 0, attention".to_owned(),
            operation: None,
            flips: Vec::new(),
            values,
        };
        assert_eq!(traced(change, count, false), Some(expected));
    }
}

#[test]
fn bits_are_traced_where_all_parts_are_near() {
    let near = traced(|got| got.parts[4].values[3] += 1e-7, 8, false).unwrap();
    assert_eq!(
        (near.place.as_str(), near.operation, near.values.len()),
        ("head", None, 1)
    );
    assert_eq!((near.values[0].token, near.values[0].index), (1, 0));
    assert_eq!(traced(|_| (), 8, false), None);
}

#[test]
fn what_is_no_number_comes_first() {
    let change = |got: &mut Computation| {
        got.parts[0].values[0] = f64::INFINITY;
        got.parts[0].values[3] = f64::NAN;
    };
    let found = traced(change, 8, false).unwrap();
    let places = found.values.iter().map(|of| (of.token, of.index));
    assert_eq!(places.collect::<Vec<_>>(), [(1, 1), (0, 0)]);
    let written = serde_json::to_value(&found).unwrap();
    assert_eq!(written["values"][0]["got"], Value::Null);
    assert_eq!(written["values"][0]["expected"], 4.0);
}

/// A change of what a device computed, the place, and the operation by name, without and with exact bits.
type Plant = (
    fn(&mut Computation),
    &'static str,
    [Option<&'static str>; 2],
);

#[test]
fn the_operation_is_named_where_the_part_is_one() {
    let plants: [Plant; 5] = [
        (
            |got| got.parts[2].values[0] += 1.0,
            "layer 0, router",
            [Some("router logits"), Some("exact product")],
        ),
        (
            |got| got.parts[2].values[0] += 1e-7,
            "layer 0, router",
            [Some("router logits"), Some("exact product")],
        ),
        // Other experts of the same logits.
        (
            |got| got.parts[2].choices[1].experts = vec![0, 2],
            "layer 0, router",
            [Some("route"), Some("exact route")],
        ),
        (
            |got| got.parts[3].values[2] += 1.0,
            "layer 0, experts",
            [Some("experts"), None],
        ),
        // The right experts with other weights.
        (
            |got| {
                got.parts[2].choices[0].weights = vec![0.25, 0.75];
                got.parts[3].values[0] += 1.0;
            },
            "layer 0, experts",
            [Some("route"), Some("exact route")],
        ),
    ];
    for (change, place, operations) in plants {
        let of = [false, true].map(|is_exact| traced(change, 1, is_exact).unwrap());
        assert_eq!(of.each_ref().map(|of| of.operation), operations, "{place}");
        assert!(of.iter().all(|of| of.place == place), "{of:?}");
        let flips = of[0].flips.iter().map(|flip| flip.token);
        let flips: Vec<usize> = flips.collect();
        let expected: &[usize] = if of[0].values.is_empty() { &[1] } else { &[] };
        assert_eq!(flips, expected, "{place}");
    }
}
