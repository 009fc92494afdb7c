//! Which expert has which place on the device.

/// The assignment of experts to places.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    /// The expert in every place.
    pub(super) experts: Vec<Option<usize>>,
    /// The time of last use of each place; 0 before the first.
    used: Vec<u64>,
    now: u64,
}

impl Residents {
    pub(super) fn new(places: usize) -> Self {
        Self {
            experts: vec![None; places],
            used: vec![0; places],
            now: 0,
        }
    }

    pub(super) fn place_of(&self, expert: usize) -> Option<usize> {
        self.experts.iter().position(|e| *e == Some(expert))
    }

    /// Splits experts into groups that fit on the device at once, starting with those that are there.
    pub(super) fn waves(&self, needed: &[usize]) -> Vec<Vec<usize>> {
        let here = |expert: &usize| self.place_of(*expert).is_some();
        let (mut order, missing): (Vec<usize>, Vec<usize>) = needed.iter().copied().partition(here);
        order.extend(missing);
        let waves = order.chunks(self.experts.len());
        waves.map(<[usize]>::to_vec).collect()
    }

    pub(super) fn touch(&mut self, place: usize) {
        self.now += 1;
        self.used[place] = self.now;
    }

    /// Gives `expert` the least recently used place by `put`, which gets the place and its previous expert, and moves `expert` there.
    ///
    /// The place is empty until `put` has succeeded: one whose move failed, or panicked, may hold parts of two experts.
    ///
    /// # Errors
    /// Those of `put`.
    pub(super) fn replace<E>(
        &mut self,
        expert: usize,
        put: impl FnOnce(usize, Option<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = 0..self.experts.len();
        // A cache has at least one place, so the 0 is never used.
        let place = places.min_by_key(|place| self.used[*place]).unwrap_or(0);
        let old = self.experts[place].take();
        put(place, old)?;
        self.experts[place] = Some(expert);
        self.touch(place);
        Ok(())
    }
}
