//! Patterns of names: of layers in a model, of tensors in a file.

/// Whether `pattern` is all of `name`; `*` stands for any characters, `?` for one.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on when what follows the last `*` does not fit: that star, and one character more for it.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
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
        // Takes no longer than pattern × name.
        assert!(!matches_pattern(&"*a".repeat(500), &"a".repeat(499)));
        assert!(!matches_pattern(
            &format!("{}b", "*a".repeat(50)),
            &"a".repeat(5000)
        ));
    }
}
