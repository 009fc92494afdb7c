//! Memory that calls reuse, compiled here once more: no result tells where its memory came from.

#[path = "../../src/spare.rs"]
mod spare;

use spare::Spare;

/// The most values that all spare memory may hold.
const MOST: usize = 32 << 20;

/// Returns the first values of all spare memory, the smallest first.
fn marks() -> Vec<f32> {
    let mut taken = vec![Spare::new(1)];
    while taken[taken.len() - 1][0] != 0.0 {
        taken.push(Spare::new(1));
    }
    // Only new memory begins with 0; dropped, it would be spare, too.
    std::mem::forget(taken.pop());
    taken.iter().map(|spare| spare[0]).collect()
}

#[test]
fn memory_comes_back_and_no_more_is_kept_than_the_bound() {
    let sizes = [(MOST / 2, 1.0), (1000, 2.0), (MOST / 2 - 100, 3.0)];
    let take = |(len, mark): (usize, f32)| {
        let mut spare = Spare::new(len);
        assert_eq!(spare.len(), len);
        spare[0] = mark;
        spare
    };
    drop(sizes.map(take));
    // All three are more than the bound, so the smallest was freed.
    assert_eq!(marks(), [3.0, 1.0]);
    drop(sizes.map(take));
    // The second got the memory of the third, which got memory of its own, again too much.
    assert_eq!(marks(), [2.0, 1.0]);
    drop(Spare::new(MOST + 1));
    assert!(marks().is_empty());
}
