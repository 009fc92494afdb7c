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
        missing: names(&["layers.0.mlp.gate.weight", "layers.1.mlp.gate.weight"]),
        unexpected: names(&[
            "layers.0.mlp.gates.weight",
            "layers.1.mlp.gates.weight",
            "x",
        ]),
        ..Misfits::default()
    };
    let text = misfits.to_string();
    for expected in [
        "missing `layers.1.mlp.gate.weight`, nearest `layers.1.mlp.gates.weight`",
        "unexpected `layers.0.mlp.gates.weight`, nearest `layers.0.mlp.gate.weight`",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let ends = text.contains("unexpected `x`\n") || text.ends_with("unexpected `x`");
    assert!(ends, "{text}");
}

#[test]
fn of_many_alike_three_are_shown() {
    let misfits = Misfits {
        missing: (0..64).map(|e| format!("experts.{e}.w1")).collect(),
        ..Misfits::default()
    };
    let text = misfits.to_string();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("61 more"), "{text}");
}

/// The message of an error fits a screen, however much is wrong.
#[test]
fn an_error_has_ten_lines_at_most() {
    let kinds = |count: usize| -> Vec<String> {
        let name = |kind: usize| {
            let letter = char::from(b'a' + kind as u8);
            (0..9).map(move |layer| format!("layers.{layer}.{letter}"))
        };
        (0..count).flat_map(name).collect()
    };
    let text = |count| {
        let misfits = Misfits {
            missing: kinds(count),
            ..Misfits::default()
        };
        misfits.to_string()
    };
    let (some, many) = (text(5), text(20));
    assert_eq!(some.lines().count(), 6, "{some}");
    assert_eq!(some.matches("and 8 more").count(), 5, "{some}");
    assert_eq!(many.lines().count(), 10, "{many}");
    assert!(many.ends_with("and 12 more lines of this kind"), "{many}");
}

/// A dtype that isn't read is wrong in every layer; faults stay in their order, and the path comes first.
#[test]
fn faults_alike_are_counted_too() {
    let of = |layer: usize| Unfit::new(format!("`layers.{layer}.q`"), "F32", "I8");
    let mut faults = vec![Unfit::new("quant_method", "gptq", "`hqq`")];
    faults.extend((0..32).map(of));
    let misfits = Misfits::of_config(faults).at("models/x".as_ref());
    let text = misfits.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "models/x: the checkpoint can't be loaded");
    assert_eq!(lines[1], "  quant_method: expected gptq, got `hqq`");
    assert_eq!(lines[2], "  `layers.0.q`: expected F32, got I8");
    let last = "  `layers.2.q`: expected F32, got I8, and 29 more that differ in their numbers";
    assert_eq!(lines[4..], [last]);
}
