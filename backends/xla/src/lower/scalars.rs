//! Float scalars of a recorded operation that are arguments of its program.

/// The place of float scalar `index` in a structure: a number that no model computes with. It isn't
/// NaN, because structures are compared.
pub(crate) fn tagged(index: usize) -> f64 {
    f64::from_bits(TAG | index as u64)
}

/// The number that [`tagged`] put there.
pub(crate) fn tag(scalar: f64) -> Option<usize> {
    let bits = scalar.to_bits();
    (bits & !INDEX == TAG).then_some((bits & INDEX) as usize)
}

/// Near 9 · 10³⁰⁷.
const TAG: u64 = 0x7fe0_5a5a_0000_0000;
const INDEX: u64 = 0xffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_numbers_of_their_own() {
        assert_eq!(tag(tagged(7)), Some(7));
        assert!(
            [0.0, 1.0, -3.5, f64::MAX, f64::INFINITY, f64::NAN]
                .iter()
                .all(|x| tag(*x).is_none())
        );
    }
}
