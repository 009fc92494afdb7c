//! Interleaved rows of words, for processors: the first byte of 32 neighbouring rows side by side, then the second byte of each, and so on. Vector
//! code reads a byte of many rows at once, and a panel of rows from its first byte to its last. Words are given as their bytes in memory.

use crate::fp8::LANES_PER_WORD;

/// The bytes of a word in memory.
pub type Word = [u8; LANES_PER_WORD];

/// Rows in a panel; the last panel of a matrix may have fewer.
pub const ROWS: usize = 32;

/// Interleaves the rows of matrices \[rows, across\] of words, one after the other.
pub fn interleave(words: &mut [Word], shape: [usize; 2]) {
    by_panel(words, shape, |rows, count, panel| {
        for (row, bytes) in rows.chunks_exact(LANES_PER_WORD * shape[1]).enumerate() {
            for (byte, of_rows) in bytes.iter().zip(panel.chunks_exact_mut(count)) {
                of_rows[row] = *byte;
            }
        }
    });
}

/// Puts the words of matrices with interleaved rows in rows \[rows, across\] again.
pub fn to_rows(words: &mut [Word], shape: [usize; 2]) {
    by_panel(words, shape, |panel, count, rows| {
        for (row, bytes) in rows.chunks_exact_mut(LANES_PER_WORD * shape[1]).enumerate() {
            for (byte, of_rows) in bytes.iter_mut().zip(panel.chunks_exact(count)) {
                *byte = of_rows[row];
            }
        }
    });
}

/// Moves the bytes of each panel of matrices \[rows, across\]: `moved` gets them, the number of its rows, and where they go.
fn by_panel(
    words: &mut [Word],
    [rows, across]: [usize; 2],
    moved: impl Fn(&[u8], usize, &mut [u8]),
) {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for matrix in words.chunks_mut((rows * across).max(1)) {
        for panel in matrix.chunks_mut(ROWS * across) {
            from.clear();
            from.extend(
                panel
                    .iter()
                    .flat_map(|word| u32::from_ne_bytes(*word).to_le_bytes()),
            );
            to.resize(from.len(), 0);
            moved(&from, panel.len() / across, &mut to);
            for (word, bytes) in panel.iter_mut().zip(to.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes).to_ne_bytes();
            }
        }
    }
}

/// The words of row `row` of a panel of `count` rows.
pub fn row(panel: &[Word], count: usize, row: usize) -> impl Iterator<Item = u32> {
    let byte = move |at: usize| {
        let at = at * count + row;
        u32::from_ne_bytes(panel[at / LANES_PER_WORD]).to_le_bytes()[at % LANES_PER_WORD]
    };
    let words = (0..panel.len() / count).map(|word| LANES_PER_WORD * word);
    words.map(move |first| u32::from_le_bytes([0, 1, 2, 3].map(|at| byte(first + at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panels of 32 rows, and what is left of each matrix.
    #[test]
    fn bytes_of_neighbouring_rows_lie_side_by_side() {
        let (rows, across) = (35, 2);
        let words = (0..2 * rows as u32 * 2).map(|i| (i * 0x0101_0007).to_ne_bytes());
        let words: Vec<Word> = words.collect();
        let mut interleaved = words.clone();
        interleave(&mut interleaved, [rows, across]);
        let number = |word: &Word| u32::from_ne_bytes(*word);
        let byte = |words: &[Word], at: usize| number(&words[at / 4]).to_le_bytes()[at % 4];
        for of_matrix in 0..2 {
            let first = of_matrix * rows * across;
            for at in 0..rows {
                let begin = at / ROWS * ROWS;
                let count = ROWS.min(rows - begin);
                for column in 0..4 * across {
                    let place = 4 * (first + begin * across) + column * count + at % ROWS;
                    let want = byte(&words, 4 * (first + at * across) + column);
                    assert_eq!(
                        byte(&interleaved, place),
                        want,
                        "{of_matrix}, {at}, {column}"
                    );
                }
                let panel = &interleaved[first + begin * across..][..count * across];
                let want = words[first + at * across..][..across].iter().map(number);
                assert!(row(panel, count, at % ROWS).eq(want), "{of_matrix}, {at}");
            }
        }
        to_rows(&mut interleaved, [rows, across]);
        assert_eq!(interleaved, words);
    }
}
