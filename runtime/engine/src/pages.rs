//! The pages of a cache: each is free, in use, or kept for requests that need the same tokens again.
//!
//! A full page may get a key, the hash of all tokens up to its end. From then on it is never written again, any number of requests can use
//! it at once, and without users it stays findable until its space is needed. The least recently used pages are evicted first, and of one
//! request's pages the last ones first: a user of a page also uses all pages before it and releases them later, so a page is never evicted
//! before the pages that build on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tokens per page, the same as in a page of `moebius::attention::Pages`.
pub const PAGE: usize = 16;

/// Key of a page's contents: a hash of the page's tokens and all tokens before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey([u8; 32]);

impl PageKey {
    /// The key that the sequences of a salt start from. Sequences of different salts share no page.
    pub(crate) fn root(salt: &[u8]) -> Self {
        // These hashes are domain-separated from those of pages, so that no salt gives a page's key.
        Self(blake3::derive_key(
            "moebius-engine 2026 start of a sequence of pages",
            salt,
        ))
    }

    /// The key of a page with these tokens, which follows the page with this key.
    pub(crate) fn after(&self, tokens: &[u32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        for id in tokens {
            hasher.update(&id.to_le_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// Numbers of a cache's pages by their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Pages that hold nothing.
    pub free: usize,
    /// Pages without users that a request with the same tokens can find.
    pub cached: usize,
    /// Pages in use, each counted once.
    pub used: usize,
}

impl Usage {
    /// Number of pages that a request could get.
    pub fn available(&self) -> usize {
        self.free + self.cached
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Number of requests that use the page.
    users: usize,
    /// Key of a full page, by which requests find it.
    key: Option<PageKey>,
    /// Time (by the pool's clock) at which the last user released the page.
    left: u64,
}

/// Pool of a cache's pages. Free pages are taken in ascending order, so that the cache behind the pool has to grow as late as possible.
#[derive(Clone, Debug)]
pub(crate) struct PagePool {
    /// Pages that had a user at least once; those after them hold nothing.
    pages: Vec<Page>,
    /// Largest number of pages.
    most: usize,
    /// Pages of `pages` without user and key.
    free: BTreeSet<u32>,
    /// Pages with a key, by key.
    keyed: HashMap<PageKey, u32>,
    /// Pages with a key and without users, by the time at which the last user released them.
    idle: BTreeMap<u64, u32>,
    /// Counter that advances each time a user releases a page.
    clock: u64,
}

impl PagePool {
    /// A pool of up to `most` pages, which hold nothing.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            pages: Vec::new(),
            most,
            free: BTreeSet::new(),
            keyed: HashMap::new(),
            idle: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let (free, cached) = (self.free.len(), self.idle.len());
        Usage {
            free: free + self.most - self.pages.len(),
            cached,
            used: self.pages.len() - free - cached,
        }
    }

    /// Number of pages from the first to the last that ever had a user, which the cache must have.
    pub(crate) fn reached(&self) -> usize {
        self.pages.len()
    }

    /// Limits the pool to its first `most` pages, of which those beyond must be free.
    pub(crate) fn limit(&mut self, most: usize) {
        if most < self.pages.len() {
            self.free.retain(|page| (*page as usize) < most);
            self.pages.truncate(most);
        }
        self.most = most;
    }

    /// The pages with the given keys, up to the first key that no page has.
    pub(crate) fn find(&self, keys: &[PageKey]) -> Vec<u32> {
        let pages = keys.iter().map_while(|key| self.keyed.get(key));
        pages.copied().collect()
    }

    /// Number of the given pages that have no user.
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

    /// Takes `count` pages for one user to write: free ones first, then the least recently used ones, which can't be found any more. `None`
    /// if too few are available.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        if count > self.usage().available() {
            return None;
        }
        let taken = (0..count).map(|_| {
            let page = self.free.pop_first().or_else(|| self.fresh());
            let page = page.unwrap_or_else(|| self.evict());
            self.pages[page as usize].users = 1;
            page
        });
        Some(taken.collect())
    }

    /// The next page that never had a user, if there is one.
    fn fresh(&mut self) -> Option<u32> {
        let page = self.pages.len();
        (page < self.most).then(|| {
            self.pages.push(Page::default());
            page as u32
        })
    }

    /// Takes the least recently used page without users, and removes its key.
    fn evict(&mut self) -> u32 {
        let oldest = self.idle.pop_first();
        let (_, page) = oldest.unwrap_or_else(|| unreachable!("as many are idle as were counted"));
        let key = self.pages[page as usize].key.take();
        if let Some(key) = key {
            self.keyed.remove(&key);
        }
        page
    }

    /// Gives a full page its key, and returns the page that its only user has from now on: if another page has the key already, the user
    /// gets that page instead, as both hold the same.
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

    /// Releases all pages of one user, given in their order in the sequence.
    pub(crate) fn release(&mut self, pages: &[u32]) {
        for &number in pages.iter().rev() {
            let page = &mut self.pages[number as usize];
            page.users -= 1;
            if page.users > 0 {
                continue;
            }
            if page.key.is_none() {
                self.free.insert(number);
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

    /// Takes, publishes and releases pages with these keys, as one user.
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
        // A salt that equals the hash input of a page doesn't give the page's key.
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
        // The free page is taken first, then the end of the chain.
        let taken = pages.take(2).unwrap();
        assert_eq!(taken[1], filled[2]);
        assert_eq!(pages.find(&chain), filled[..2]);
        // Pages with a user aren't evicted.
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
        // This chain is used again, so the other one is now the least recently used.
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
    fn low_numbers_are_taken_first() {
        let mut pages = PagePool::new(6);
        assert_eq!(pages.take(3), Some(vec![0, 1, 2]));
        assert_eq!((pages.reached(), usage(&pages)), (3, [3, 0, 3]));
        pages.release(&[2]);
        pages.release(&[0]);
        assert_eq!(pages.take(3), Some(vec![0, 2, 3]));
        assert_eq!((pages.reached(), usage(&pages)), (4, [2, 0, 4]));
    }

    #[test]
    fn a_lower_limit_drops_free_pages() {
        let mut pages = PagePool::new(6);
        let chain = keys("", 2);
        fill(&mut pages, &chain);
        assert_eq!(pages.take(3), Some(vec![2, 3, 4]));
        pages.release(&[3, 4]);
        pages.limit(3);
        assert_eq!((pages.reached(), usage(&pages)), (3, [0, 2, 1]));
        // What is cached gives way, as in a pool of three pages.
        assert_eq!(pages.take(3), None);
        assert_eq!(pages.take(1), Some(vec![1]));
        pages.limit(6);
        assert_eq!(pages.take(1), Some(vec![3]));
        assert_eq!(usage(&pages), [2, 1, 3]);
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
