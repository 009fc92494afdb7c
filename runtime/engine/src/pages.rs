//! Which page of a cache holds what: free, in use, or kept for whoever needs the same tokens again.
//!
//! A page that is full may get a key, the hash of all tokens up to its end: then it is never written again, any number of requests
//! use it at once, and when none does it stays findable until its place is needed. Those that were used longest ago go first, and of
//! one request's the last: whoever uses a page uses all before it and lets go of it first, so no page outlives one it builds on.

use std::collections::{BTreeMap, HashMap};

/// Tokens of a page: those of a page of `moebius::attention::Pages`.
pub const PAGE: usize = 16;

/// Names a page by what it holds: a hash of its tokens and of all before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey([u8; 32]);

impl PageKey {
    /// What the keys of sequences start from. Those of different salts share nothing.
    pub(crate) fn root(salt: &[u8]) -> Self {
        // Hashes for another purpose than those of pages: no salt gives what a page has.
        Self(blake3::derive_key(
            "moebius-engine 2026 start of a sequence of pages",
            salt,
        ))
    }

    /// The key of the page with these tokens after what has this key.
    pub(crate) fn after(&self, tokens: &[u32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        for id in tokens {
            hasher.update(&id.to_le_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// How many pages of a cache are what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// They hold nothing.
    pub free: usize,
    /// No request uses them, but one with the same tokens may find them.
    pub cached: usize,
    /// Requests use them, each counted once.
    pub used: usize,
}

impl Usage {
    /// Pages that a request could be given.
    pub fn available(&self) -> usize {
        self.free + self.cached
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// How many requests use it.
    users: usize,
    /// By which it is found, once it is full.
    key: Option<PageKey>,
    /// When its last user let go of it.
    left: u64,
}

/// The pages of a cache.
#[derive(Clone, Debug)]
pub(crate) struct PagePool {
    pages: Vec<Page>,
    /// Without user and key; the last is the next.
    free: Vec<u32>,
    /// Those with a key, by it.
    keyed: HashMap<PageKey, u32>,
    /// Those with a key and without user, by when the last left.
    idle: BTreeMap<u64, u32>,
    /// Counts the times that a user left a page.
    clock: u64,
}

impl PagePool {
    /// So many pages, which hold nothing.
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            pages: vec![Page::default(); pages as usize],
            free: (0..pages).rev().collect(),
            keyed: HashMap::new(),
            idle: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let [free, cached] = [self.free.len(), self.idle.len()];
        Usage {
            free,
            cached,
            used: self.pages.len() - free - cached,
        }
    }

    /// The pages with the first of these keys, up to one that no page has.
    pub(crate) fn find(&self, keys: &[PageKey]) -> Vec<u32> {
        let pages = keys.iter().map_while(|key| self.keyed.get(key));
        pages.copied().collect()
    }

    /// How many of these pages no one uses.
    pub(crate) fn idle(&self, pages: &[u32]) -> usize {
        let idle = |page: &&u32| self.pages[**page as usize].users == 0;
        pages.iter().filter(idle).count()
    }

    /// Adds a user to pages that were found.
    pub(crate) fn share(&mut self, pages: &[u32]) {
        for &page in pages {
            let page = &mut self.pages[page as usize];
            if page.users == 0 {
                self.idle.remove(&page.left);
            }
            page.users += 1;
        }
    }

    /// So many pages for one user to write: free ones, then those that were used longest ago, which then aren't found any more. None if
    /// there aren't as many.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        if count > self.usage().available() {
            return None;
        }
        let taken = (0..count).map(|_| {
            let page = self.free.pop().unwrap_or_else(|| self.evict());
            self.pages[page as usize].users = 1;
            page
        });
        Some(taken.collect())
    }

    /// Makes the page that was used longest ago one without a key.
    fn evict(&mut self) -> u32 {
        let oldest = self.idle.pop_first();
        let (_, page) = oldest.unwrap_or_else(|| unreachable!("as many are idle as were counted"));
        let key = self.pages[page as usize].key.take();
        if let Some(key) = key {
            self.keyed.remove(&key);
        }
        page
    }

    /// Gives a page that is full its key. If another page has that already, its only user gets that one in place of it: both hold the
    /// same. Says which page the user has now.
    pub(crate) fn publish(&mut self, page: u32, key: PageKey) -> u32 {
        if let Some(&same) = self.keyed.get(&key) {
            self.share(&[same]);
            self.release(&[page]);
            return same;
        }
        self.keyed.insert(key, page);
        self.pages[page as usize].key = Some(key);
        page
    }

    /// A user lets go of all its pages, which it has in this order.
    pub(crate) fn release(&mut self, pages: &[u32]) {
        for &number in pages.iter().rev() {
            let page = &mut self.pages[number as usize];
            page.users -= 1;
            if page.users > 0 {
                continue;
            }
            if page.key.is_none() {
                self.free.push(number);
                continue;
            }
            self.clock += 1;
            page.left = self.clock;
            self.idle.insert(self.clock, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(salt: &str, pages: u32) -> Vec<PageKey> {
        let mut key = PageKey::root(salt.as_bytes());
        let next = (0..pages).map(|page| {
            key = key.after(&[page; PAGE]);
            key
        });
        next.collect()
    }

    /// Pages that a user took, filled and left.
    fn fill(pages: &mut PagePool, keys: &[PageKey]) -> Vec<u32> {
        let taken = pages.take(keys.len()).unwrap();
        for (page, key) in taken.iter().zip(keys) {
            assert_eq!(pages.publish(*page, *key), *page);
        }
        pages.release(&taken);
        taken
    }

    fn usage(pages: &PagePool) -> [usize; 3] {
        let Usage { free, cached, used } = pages.usage();
        [free, cached, used]
    }

    #[test]
    fn keys_tell_all_tokens_before_and_the_salt() {
        let [one, other] = ["one", "other"].map(|salt| PageKey::root(salt.as_bytes()));
        let page = [1; PAGE];
        assert_ne!(one, other);
        assert_ne!(one.after(&page), other.after(&page));
        assert_ne!(one.after(&page).after(&page), one.after(&page));
        assert_ne!(one.after(&page), one.after(&[2; PAGE]));
        assert_eq!(one.after(&page), PageKey::root(b"one").after(&page));
        // A salt that is the text of a page's hash gives none of its keys.
        let text = [&one.0[..], &[1, 0, 0, 0].repeat(PAGE)].concat();
        assert_ne!(PageKey::root(&text), one.after(&page));
    }

    #[test]
    fn pages_are_found_until_they_are_needed() {
        let mut pages = PagePool::new(4);
        let chain = keys("", 3);
        let filled = fill(&mut pages, &chain);
        assert_eq!(usage(&pages), [1, 3, 0]);
        assert_eq!(pages.find(&chain), filled);
        assert!(pages.find(&keys("other", 3)).is_empty());
        // The free one comes first, then the end of the chain.
        let taken = pages.take(2).unwrap();
        assert_eq!(taken[1], filled[2]);
        assert_eq!(pages.find(&chain), filled[..2]);
        // A user protects what it found.
        pages.share(&filled[..1]);
        assert_eq!(pages.take(2), None);
        assert_eq!(pages.take(1), Some(vec![filled[1]]));
        assert_eq!(usage(&pages), [0, 0, 4]);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut pages = PagePool::new(6);
        let [one, other] = [keys("one", 3), keys("other", 3)];
        let filled = fill(&mut pages, &one);
        fill(&mut pages, &other);
        // Used again, so the other chain is now the older.
        pages.share(&filled);
        pages.release(&filled);
        for left in (0..3).rev() {
            pages.take(1).unwrap();
            assert_eq!(pages.find(&other).len(), left);
            assert_eq!(pages.find(&one).len(), 3);
        }
    }

    #[test]
    fn equal_pages_become_one() {
        let mut pages = PagePool::new(4);
        let chain = keys("", 1);
        let first = pages.take(1).unwrap()[0];
        let second = pages.take(1).unwrap()[0];
        assert_eq!(pages.publish(first, chain[0]), first);
        assert_eq!(pages.publish(second, chain[0]), first);
        assert_eq!(usage(&pages), [3, 0, 1]);
        pages.release(&[first]);
        assert_eq!(usage(&pages), [3, 0, 1]);
        pages.release(&[first]);
        assert_eq!(usage(&pages), [3, 1, 0]);
    }

    #[test]
    fn a_page_without_a_key_is_free_at_once() {
        let mut pages = PagePool::new(2);
        let taken = pages.take(2).unwrap();
        assert_eq!(pages.take(1), None);
        pages.release(&taken);
        assert_eq!(usage(&pages), [2, 0, 0]);
        assert_eq!(pages.take(0), Some(Vec::new()));
    }
}
