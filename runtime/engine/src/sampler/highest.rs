//! The place of the highest score, in one pass. It compares integers, which compilers do for many scores at once: in which order floats are
//! compared matters where some are NaN or zeros of both signs.

/// Scores that are looked at once more, one by one, where the highest of all is among them.
const BLOCK: usize = 512;

/// The rank of the largest finite score.
const LARGEST: u32 = rank(f32::MAX);

/// The place of a score in ascending order: −∞ has 0, 0 and −0 share one, and +∞ and all NaN come after [`LARGEST`].
#[inline(always)]
const fn rank(score: f32) -> u32 {
    const LOWEST: u32 = !f32::NEG_INFINITY.to_bits();
    // The sum of −0 and 0 is 0.
    let bits = (score + 0.0).to_bits();
    let sign = (bits.cast_signed() >> 31).cast_unsigned();
    // NaN below −∞ becomes the highest.
    (bits ^ (sign | 1 << 31)).wrapping_sub(LOWEST)
}

/// Finds the id with the highest score, and of several the lowest; `None` if no score is above −∞.
///
/// # Errors
/// The first id whose score is NaN or +∞.
pub(super) fn highest(scores: &[f32]) -> Result<Option<u32>, usize> {
    let (mut most, mut block) = (0, 0);
    for (number, scores) in scores.chunks(BLOCK).enumerate() {
        let of_block = scores.iter().map(|score| rank(*score)).fold(0, u32::max);
        if of_block > most {
            (most, block) = (of_block, number);
        }
    }
    if most > LARGEST
        && let Some(id) = scores.iter().position(|score| rank(*score) > LARGEST)
    {
        return Err(id);
    }
    let first = block * BLOCK;
    let within = scores[first..]
        .iter()
        .position(|score| rank(*score) == most);
    let id = within.map(|at| (first + at) as u32);
    Ok(id.filter(|_| most > 0))
}
