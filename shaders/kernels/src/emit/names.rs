//! Renumbers the values in C++ text. CubeCL 0.11.3 takes some of their numbers from the order of hash maps, so that the text of a
//! kernel changes from run to run and couldn't be stored or compared. The driver in software (`tests/emulator/`) includes this
//! file, too.

use std::collections::HashMap;

/// Renumbers values in order of first occurrence: a number N in names `vN` and `…_vN` is replaced, equal numbers by equal ones.
pub(super) fn numbered(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &name[stem.len()..];
        if !number.is_empty() && (stem == "v" || stem.ends_with("_v")) {
            let next = numbers.len() + 1;
            let number = numbers.entry(number).or_insert(next);
            result += &format!("{stem}{number}");
        } else {
            result += name;
        }
        let other = after.find(is_name).unwrap_or(after.len());
        result += &after[..other];
        rest = &after[other..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_has_one_numbering() {
        let given = "float v30 = info_v7.x + half_4(v7) + 0x1F; v30 += arrav9 + v;";
        let wanted = "float v1 = info_v2.x + half_4(v2) + 0x1F; v1 += arrav9 + v;";
        assert_eq!(numbered(given), wanted);
        assert_eq!(numbered(wanted), wanted);
    }
}
