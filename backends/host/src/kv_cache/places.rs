//! Where the tokens of sequences are.

use moebius_ops::kv_cache::Layout;

/// Which page of the pool holds a sequence's tokens, and which of them are new.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// \[sequences, pages\]: the page of the pool.
    pub table: &'a [u32],
    /// \[sequences, 2\]: the first position of the new tokens, and their end.
    pub spans: &'a [u32],
    /// In a row of the table.
    pub pages: usize,
}

impl Places<'_> {
    /// The first position and the end of a sequence.
    pub(super) fn span(&self, sequence: usize) -> [usize; 2] {
        [0, 1].map(|at| self.spans[2 * sequence + at] as usize)
    }

    /// Where the block of a token begins, if the pool has its page.
    pub(super) fn block(
        &self,
        l: &Layout,
        [sequence, head]: [usize; 2],
        token: usize,
    ) -> Option<usize> {
        let row = &self.table[sequence * self.pages..][..self.pages];
        let page = *row.get(token / l.page())? as usize;
        (page < l.pages()).then(|| l.block(page, head, token % l.page()))
    }
}
