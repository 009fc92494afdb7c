//! Weights with 2:4 structured sparsity (semi-structured, in PyTorch's words): of each group of four neighbouring weights of a row, two are
//! kept and the others are 0. Kernels put a group together while they load it, so a product adds the same terms in the same order as one
//! with the dense matrix in which the dropped weights are +0.
//!
//! The kept weights of \[E, n, k\] are \[E, n, k/2\] in the element type, row by row and in the order of their columns. Their places are
//! words \[E, n, ⌈k/32⌉\]: group g of a row, columns 4g to 4g + 3, has the bits from 4 · (g mod 8) on of word ⌊g/8⌋ of the row. Its lower two
//! bits are the place of the first kept weight in the group, the upper two that of the second, which is larger; bits past the last group
//! are 0. If k is a multiple of 32, that is 53.125 % of the bytes of f32, and 56.25 % of those of 16-bit types.

use crate::error::Mismatch;

/// Weights in a group.
pub const GROUP: usize = 4;

/// Groups whose places share a word.
pub const GROUPS_PER_WORD: usize = 8;

/// Checks that rows of `k` weights consist of whole groups.
///
/// # Errors
/// [`Mismatch`] if `k` isn't a multiple of [`GROUP`].
pub fn check(k: usize) -> Result<(), Mismatch> {
    let whole = k.is_multiple_of(GROUP);
    Mismatch::unless(whole, "inner columns of 2:4 weights", "a multiple of 4", k)
}

/// The number of words with the places of a row of `k` weights.
pub fn place_words(k: usize) -> usize {
    k.div_ceil(GROUP * GROUPS_PER_WORD)
}

/// Kept weights and their places, both row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The kept weights, two for each group.
    pub kept: Vec<f32>,
    /// The words of their places.
    pub places: Vec<u32>,
}

/// Marks the two weights of largest magnitude of each group; of equal ones, those that come first.
///
/// # Errors
/// [`Mismatch`] if there is a NaN, which has no magnitude, or if the weights aren't whole groups.
pub fn largest(weights: &[f32]) -> Result<Vec<bool>, Mismatch> {
    check(weights.len())?;
    if let Some(at) = weights.iter().position(|weight| weight.is_nan()) {
        let got = format_args!("NaN as weight {at}");
        return Err(Mismatch::new("weights to sparsify", "numbers", got));
    }
    let (groups, _) = weights.as_chunks::<GROUP>();
    let mask = groups.iter().flat_map(|group| {
        let goes_before = |at: usize, other: usize| {
            let (own, its) = (group[at].abs(), group[other].abs());
            its > own || (its == own && other < at)
        };
        let before = |at: usize| (0..GROUP).filter(move |i| goes_before(at, *i)).count();
        std::array::from_fn::<_, GROUP, _>(|at| before(at) < 2)
    });
    Ok(mask.collect())
}

/// Packs the weights that `mask` marks, in rows of `k`.
///
/// # Errors
/// [`Mismatch`] for rows that aren't whole groups, weights that aren't whole rows, a mask of another length, and a group of which the mask
/// doesn't mark exactly two weights.
pub fn pack(weights: &[f32], mask: &[bool], k: usize) -> Result<Packed, Mismatch> {
    check(k)?;
    Mismatch::check("mask of 2:4 weights", weights.len(), mask.len())?;
    let rows = weights.len() / k.max(1);
    Mismatch::check("weights in whole rows", rows * k, weights.len())?;
    let mut packed = Packed {
        kept: Vec::with_capacity(weights.len() / 2),
        places: vec![0; rows * place_words(k)],
    };
    let groups = weights.as_chunks::<GROUP>().0.iter();
    for (at, (group, mask)) in groups.zip(mask.as_chunks::<GROUP>().0).enumerate() {
        let mut marked = (0..GROUP).filter(|i| mask[*i]);
        let (Some(first), Some(second), None) = (marked.next(), marked.next(), marked.next())
        else {
            let count = mask.iter().filter(|kept| **kept).count();
            let got = format_args!("{count} in group {at}");
            return Err(Mismatch::new("kept weights of a group of four", 2, got));
        };
        packed.kept.extend([group[first], group[second]]);
        let (row, within) = (at / (k / GROUP), at % (k / GROUP));
        let word = row * place_words(k) + within / GROUPS_PER_WORD;
        let bits = (first | (second << 2)) << (4 * (within % GROUPS_PER_WORD));
        packed.places[word] |= bits as u32;
    }
    Ok(packed)
}

/// The places of the two kept weights of group `group` of a row, which has them in `word`.
pub fn places_of(word: u32, group: usize) -> [usize; 2] {
    let bits = word >> (4 * (group % GROUPS_PER_WORD));
    [bits & 3, (bits >> 2) & 3].map(|place| place as usize)
}

/// The dense weights, in rows of `k`, with +0 for those that were dropped. Of two weights with the same place, which only a damaged file
/// has, the first counts, as in kernels.
pub fn decoded(kept: &[f32], places: &[u32], k: usize) -> Vec<f32> {
    let mut weights = vec![0.0; 2 * kept.len()];
    let rows = weights
        .chunks_mut(k.max(1))
        .zip(kept.chunks((k / 2).max(1)));
    for ((row, kept), words) in rows.zip(places.chunks(place_words(k).max(1))) {
        let groups = row.as_chunks_mut::<GROUP>().0.iter_mut();
        for (at, (group, pair)) in groups.zip(kept.as_chunks::<2>().0).enumerate() {
            let [first, second] = places_of(words[at / GROUPS_PER_WORD], at);
            group[second] = pair[1];
            group[first] = pair[0];
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of 36 weights: a word of places is full, and the next has one group.
    fn weights() -> Vec<f32> {
        (0..72).map(|i| (i * 29 % 41) as f32 - 20.0).collect()
    }

    #[test]
    fn the_larger_two_stay_and_of_equal_ones_the_first() {
        let kept = |group: [f32; 4]| largest(&group).unwrap();
        assert_eq!(kept([1.0, -3.0, 2.0, 0.5]), [false, true, true, false]);
        assert_eq!(kept([0.0; 4]), [true, true, false, false]);
        assert_eq!(kept([1.0, -2.0, 2.0, -2.0]), [false, true, true, false]);
        let infinite = [0.0, f32::NEG_INFINITY, 3.0, f32::INFINITY];
        assert_eq!(kept(infinite), [false, true, false, true]);
        let error = largest(&[1.0, f32::NAN, 0.0, 0.0]).unwrap_err();
        assert_eq!(error.got, "NaN as weight 1");
        assert!(largest(&[1.0; 6]).is_err());
    }

    /// Worked out by hand: places 1 and 3 are the bits 1101, places 0 and 2 the bits 1000.
    #[test]
    fn places_lie_from_the_low_bits_up() {
        let (weights, mask) = (
            [5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0],
            [false, true, false, true, true, false, true, false],
        );
        let packed = pack(&weights, &mask, 8).unwrap();
        assert_eq!(packed.kept, [6.0, 8.0, 1.0, 3.0]);
        assert_eq!(packed.places, [0b1000_1101]);
        let dense = decoded(&packed.kept, &packed.places, 8);
        assert_eq!(dense, [0.0, 6.0, 0.0, 8.0, 1.0, 0.0, 3.0, 0.0]);
    }

    #[test]
    fn decoding_gives_the_masked_weights() {
        let weights = weights();
        let mask = largest(&weights).unwrap();
        let packed = pack(&weights, &mask, 36).unwrap();
        assert_eq!([packed.kept.len(), packed.places.len()], [36, 4]);
        let masked = weights.iter().zip(&mask);
        let masked: Vec<f32> = masked.map(|(w, m)| if *m { *w } else { 0.0 }).collect();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let dense = decoded(&packed.kept, &packed.places, 36);
        assert_eq!(bits(&dense), bits(&masked));
    }

    #[test]
    fn what_is_not_two_of_four_is_refused() {
        let weights = weights();
        let mut mask = largest(&weights).unwrap();
        assert!(pack(&weights, &mask, 34).is_err(), "no whole groups");
        assert!(pack(&weights, &mask, 40).is_err(), "no whole rows");
        assert!(pack(&weights, &mask[4..], 36).is_err(), "another length");
        mask[8..12].fill(true);
        let error = pack(&weights, &mask, 36).unwrap_err();
        assert_eq!(error.got, "4 in group 2");
        assert!(pack(&[], &[], 0).unwrap().places.is_empty());
    }
}
