//! Where a long recording may be cut so that the pieces are alike.
//!
//! A training loop that reads nothing back never says where a step ends. Cutting after a fixed number
//! of operations would cut every step elsewhere and compile a program for each cut.

/// Operations after which a recording is looked at for the first time.
pub(super) const FIRST_LOOK: usize = 256;
/// Operations after which a recording is cut wherever it is.
pub(super) const LONGEST: usize = 1 << 14;

/// Rounds without another being found, after which a loop is steady.
const STEADY: usize = 256;

/// The rounds of a recording.
#[derive(Debug)]
pub(super) struct Rhythm {
    /// The last round that came twice.
    round: Vec<u64>,
    /// Operations after which a recording is looked at. It doubles with each round that is found: layers
    /// of one shape, and their optimizer, look like rounds until a whole step has come twice.
    look: usize,
    /// Rounds that came since one was found.
    came: usize,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self {
            round: Vec::new(),
            look: FIRST_LOOK,
            came: 0,
        }
    }
}

impl Rhythm {
    /// How many of the recorded operations, given by hashes, to run now; called before the next is recorded,
    /// and again after each cut. At first all but the last of two equal rounds, then a round as soon as it is
    /// complete. Where the program reads a result in between, the next round may begin elsewhere in the loop
    /// than the last: then two must come that are as long.
    pub(super) fn cut(&mut self, hashes: &[u64]) -> Option<usize> {
        let (n, period) = (hashes.len(), self.round.len());
        if n >= LONGEST {
            self.round.clear();
            return Some(n);
        }
        if period > 0 && n == period && hashes == self.round {
            self.came += 1;
            if self.came >= STEADY {
                self.look = FIRST_LOOK;
            }
            return Some(n);
        }
        if period > 0 && n == 2 * period && hashes[..period] == hashes[period..] {
            self.round = hashes[..period].to_vec();
            return Some(period);
        }
        if n < self.look || n < 2 * period || !n.is_power_of_two() {
            return None;
        }
        let period = repeated_end(hashes)?;
        self.look = (2 * self.look).min(LONGEST / 2);
        self.came = 0;
        self.round = hashes[n - period..].to_vec();
        Some(n - period)
    }
}

/// The piece that the recording ends with twice, of an eighth of the first look at least: a few equal
/// operations are no step. The longest, because a step has equal layers, unless that is itself a shorter
/// one several times.
fn repeated_end(hashes: &[u64]) -> Option<usize> {
    let matches = common_with_start(hashes.iter().rev().copied().collect());
    let mut lengths = FIRST_LOOK / 8..=hashes.len() / 2;
    let longest = lengths
        .clone()
        .rfind(|period| matches[*period] >= *period)?;
    lengths.find(|period| matches[*period] + period >= 2 * longest)
}

/// For each place, how many elements from there on equal those from the start (the Z-function).
fn common_with_start(s: Vec<u64>) -> Vec<usize> {
    let mut z = vec![0; s.len()];
    let (mut from, mut to) = (0, 0);
    for i in 1..s.len() {
        if i < to {
            z[i] = z[i - from].min(to - i);
        }
        while i + z[i] < s.len() && s[z[i]] == s[i + z[i]] {
            z[i] += 1;
        }
        if i + z[i] > to {
            (from, to) = (i, i + z[i]);
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_cut_between_its_rounds() {
        let round: Vec<u64> = (0..100).collect();
        let start: Vec<u64> = (1000..1010).collect();
        let hashes: Vec<u64> = start
            .iter()
            .chain(round.iter().cycle())
            .copied()
            .take(256)
            .collect();
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.cut(&hashes[..255]), None);
        assert_eq!(rhythm.cut(&hashes), Some(156));
        // What is left is one round; from now on each round is cut when it is complete.
        let left = &hashes[156..];
        assert_eq!(rhythm.cut(left), Some(100));
        assert_eq!(rhythm.cut(&left[..99]), None);
        assert_eq!(rhythm.cut(left), Some(100));
        let mut other = left.to_vec();
        other[3] += 1;
        assert_eq!(rhythm.cut(&other), None);
    }

    #[test]
    fn after_a_read_a_round_may_begin_elsewhere() {
        let mut rhythm = Rhythm {
            round: (0..100).collect(),
            ..Rhythm::default()
        };
        let turned: Vec<u64> = (0..300).map(|i| (i + 30) % 100).collect();
        let mut cut = |n: usize| rhythm.cut(&turned[..n]);
        assert_eq!((1..200).find_map(&mut cut), None);
        assert_eq!(cut(200), Some(100));
        assert_eq!(cut(100), Some(100));
    }

    #[test]
    fn without_rounds_nothing_is_cut_until_it_is_long() {
        let hashes: Vec<u64> = (0..LONGEST as u64).collect();
        assert_eq!(Rhythm::default().cut(&hashes[..512]), None);
        assert_eq!(Rhythm::default().cut(&hashes), Some(LONGEST));
    }

    /// Where the recorder cuts a recording.
    fn cuts(rhythm: &mut Rhythm, hashes: impl Iterator<Item = u64>) -> Vec<usize> {
        let (mut pending, mut cuts) = (Vec::new(), Vec::new());
        for hash in hashes {
            while let Some(count) = rhythm.cut(&pending) {
                cuts.push(count);
                pending.drain(..count);
            }
            pending.push(hash);
        }
        cuts
    }

    #[test]
    fn loops_by_turns_are_found_every_time() {
        let mut rhythm = Rhythm::default();
        for turn in 0..20 {
            let period = 100 - 10 * (turn % 2);
            let rounds = (0..400 * period).map(|i| 1000 * period + i % period);
            let cuts = cuts(&mut rhythm, rounds);
            assert_eq!(cuts.last(), Some(&(period as usize)), "{turn}: {cuts:?}");
        }
    }

    #[test]
    fn a_few_equal_operations_are_no_round() {
        assert_eq!(repeated_end(&[7; 40]), None);
    }

    /// Steps of `layers` equal layers each, after a start.
    fn steps(layers: usize, count: usize) -> Vec<u64> {
        let step = || {
            let layers = (0..layers).flat_map(|_| 100..140);
            (0..10).chain(layers).chain(200..230).collect::<Vec<u64>>()
        };
        (1000..1050)
            .chain((0..count).flat_map(|_| step()))
            .collect()
    }

    #[test]
    fn equal_layers_are_no_rounds_for_long() {
        let mut rhythm = Rhythm::default();
        let cuts = cuts(&mut rhythm, steps(20, 40).into_iter());
        // From some step on, one cut a step, whose places don't move.
        assert!(
            cuts[cuts.len() - 30..].iter().all(|count| *count == 840),
            "{cuts:?}"
        );
        assert_eq!(repeated_end(&steps(2, 8)), Some(120));
    }
}
