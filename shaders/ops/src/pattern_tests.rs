use super::matches_pattern;

#[test]
fn patterns_are_simple() {
    for (pattern, name) in [
        ("*", ""),
        ("", ""),
        ("a*c", "abbc"),
        ("a*c", "ac"),
        ("a?c", "abc"),
        ("*.gate.weight", "model.layers.0.mlp.gate.weight"),
        ("*a*b*", "xaxbxaxbx"),
        ("a*ab", "aaab"),
        ("?", "é"),
    ] {
        assert!(matches_pattern(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [
        ("", "a"),
        ("a?c", "ac"),
        ("a*c", "abd"),
        ("*.gate.weight", "mlp.gate_proj.weight"),
        ("a", "A"),
    ] {
        assert!(!matches_pattern(pattern, name), "{pattern} {name}");
    }
    // The time is proportional to pattern × name, not exponential.
    assert!(!matches_pattern(&"*a".repeat(500), &"a".repeat(499)));
    assert!(!matches_pattern(
        &format!("{}b", "*a".repeat(50)),
        &"a".repeat(5000)
    ));
}
