use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn distances_are_those_of_levenshtein() {
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!(distance("", "abc"), 3);
    assert_eq!(distance("same", "same"), 0);
}

#[test]
fn names_are_told_with_the_nearest_of_the_same_numbers() {
    let misfits = Misfits {
        missing: names(&[
            "model.layers.0.mlp.gate.weight",
            "model.layers.1.mlp.gate.weight",
        ]),
        unexpected: names(&[
            "model.layers.0.mlp.gates.weight",
            "model.layers.1.mlp.gates.weight",
            "x",
        ]),
        ..Misfits::default()
    };
    let text = misfits.to_string();
    let expected =
        "missing `model.layers.1.mlp.gate.weight`, nearest `model.layers.1.mlp.gates.weight`";
    assert!(text.contains(expected), "{text}");
    let expected =
        "unexpected `model.layers.0.mlp.gates.weight`, nearest `model.layers.0.mlp.gate.weight`";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("unexpected `x`\n") || text.ends_with("unexpected `x`"),
        "{text}"
    );
}

#[test]
fn of_many_alike_three_are_shown() {
    let misfits = Misfits {
        missing: (0..64).map(|e| format!("experts.{e}.w1")).collect(),
        ..Misfits::default()
    };
    let text = misfits.to_string();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.contains("61 more"), "{text}");
}
