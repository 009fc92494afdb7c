//! The kernels of a described operation, planned for a device, and their launch.

pub(crate) mod exact;
mod families;
mod segment_attention;

pub use families::{AnyRule, ProductHow};

use crate::Stage;
use crate::named::{FromNames, Lookup, first};
use crate::permute::TILE_WORDS;
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::{Gradient, Operation, Signature, TensorInfo};
use std::fmt;
use std::sync::Arc;

/// A family of operations that has kernels.
pub trait Family: Clone + Into<Operation> + TryFrom<Operation> {
    /// The caller's choices for the kernels; the default leaves them to the plan.
    type How: Default;

    /// Plans the operation's kernels for `device`.
    ///
    /// # Errors
    /// [`PlanError`] with the size that is wrong, or with what a kernel needs and the device lacks.
    fn kernels(&self, how: &Self::How, device: &Capability) -> Result<Kernels, PlanError>;

    /// Plans the gradients that are a separate operation, by the names of the results that they go through. Their launches also
    /// accept buffers for only some of the gradients.
    ///
    /// # Errors
    /// [`PlanError`] under the conditions of [`Family::kernels`].
    fn gradients(
        &self,
        how: &Self::How,
        device: &Capability,
    ) -> Result<Vec<(&'static str, Kernels)>, PlanError> {
        let forward: Operation = self.clone().into();
        let through = |result: &&'static str| {
            let Some(Gradient::By { operation, .. }) = forward.gradient(result, |_| true) else {
                return None;
            };
            let Ok(gradient) = Self::try_from(*operation) else {
                unreachable!("gradients are operations of the same family");
            };
            let kernels = gradient.kernels(how, device);
            Some(kernels.map(|kernels| (*result, kernels)))
        };
        let results = forward.differentiable().iter();
        results.filter_map(through).collect()
    }
}

/// The buffers of a launch by their names in the description, each cut to its described length.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    given: &'a dyn Lookup,
    signature: &'a Signature,
    /// The number of words of the list of tiles.
    tiles: usize,
}

impl Buffers<'_> {
    /// The buffer called `name`.
    pub(crate) fn get(&self, name: &str) -> Handle {
        Handle::from_names(self, &[name])
    }

    /// The size in bytes of a tensor; `None` for a view, whose strides tell its end, and for names that the description lacks.
    fn bytes(&self, name: &str) -> Option<usize> {
        if self.strides(name).is_some() {
            return None;
        }
        let Signature {
            operands, results, ..
        } = self.signature;
        let mut tensors = operands.iter().chain(results);
        let info = tensors.find(|info| info.name == name);
        let tiles = (name == "tiles").then_some(4 * self.tiles);
        info.map(TensorInfo::bytes).or(tiles)
    }
}

impl Lookup for Buffers<'_> {
    /// Finds a buffer and cuts it to its tensor's size.
    fn find(&self, name: &str) -> Option<Handle> {
        let buffer = self.given.find(name)?;
        Some(match self.bytes(name) {
            Some(bytes) => first(buffer, bytes),
            None => buffer,
        })
    }

    fn strides(&self, name: &str) -> Option<[usize; 3]> {
        self.given.strides(name)
    }
}

/// The kernels of an operation, planned for a device.
#[derive(Clone)]
pub struct Kernels {
    enqueue: Arc<Enqueue>,
    tiles: Option<usize>,
    walks: Option<Tiles>,
    strided: &'static [&'static str],
}

/// The size of a list of tiles; [`moebius_ops::permute`] describes its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows per tile.
    pub rows: usize,
    /// The number of tiles of the worst routing.
    pub most: usize,
}

impl Tiles {
    /// The list of tiles for experts whose rows begin and end at `offsets` \[E+1\].
    pub fn of(self, offsets: &[u32]) -> Vec<u32> {
        let experts = offsets.len().saturating_sub(1) as u32;
        let of_expert = |(expert, ends): (u32, &[u32])| {
            let (first, end) = (ends[0], ends[1]);
            let starts = (first..end).step_by(self.rows);
            let tile = move |start: u32| [expert, start, end.min(start + self.rows as u32)];
            starts.map(tile).collect::<Vec<_>>()
        };
        let tiles = (0..).zip(offsets.windows(2)).flat_map(of_expert);
        let none = std::iter::repeat([experts, 0, 0]);
        tiles.chain(none).take(self.most).flatten().collect()
    }
}

type Enqueue = dyn Fn(&Client, Buffers<'_>, &mut dyn FnMut(Stage)) + Send + Sync;

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernels")
    }
}

impl Kernels {
    /// The kernels that `launch` enqueues for `plan`, given its structure of buffers.
    pub(crate) fn of<P: Send + Sync + 'static, B: FromNames>(
        plan: P,
        launch: impl Fn(&Client, &P, B) + Send + Sync + 'static,
    ) -> Self {
        Self::new(plan, move |client, plan, b| launch(client, plan, b.fill()))
    }

    /// The kernels of a `launch` that looks its buffers up by name.
    pub(crate) fn new<P: Send + Sync + 'static>(
        plan: P,
        launch: impl Fn(&Client, &P, Buffers<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::staged(plan, move |client, plan, b, _| launch(client, plan, b))
    }

    /// The kernels of a `launch` that reports the end of each stage.
    pub(crate) fn staged<P: Send + Sync + 'static>(
        plan: P,
        launch: impl Fn(&Client, &P, Buffers<'_>, &mut dyn FnMut(Stage)) + Send + Sync + 'static,
    ) -> Self {
        Self {
            enqueue: Arc::new(move |client, b, done| launch(client, &plan, b, done)),
            tiles: None,
            walks: None,
            strided: &[],
        }
    }

    /// A copy that writes a list of tiles of `words` words.
    pub(crate) fn with_tiles(self, words: usize) -> Self {
        Self {
            tiles: Some(words),
            ..self
        }
    }

    /// A copy that walks the sorted rows by the list of tiles `walks`.
    pub(crate) fn walking(self, walks: Option<Tiles>) -> Self {
        Self { walks, ..self }
    }

    /// A copy that reads the operands `strided` by their strides.
    pub(crate) fn reading_views(self, strided: &'static [&'static str]) -> Self {
        Self { strided, ..self }
    }

    /// The number of words of the list of tiles that a sort writes as `tiles`, in addition to the described results.
    pub fn tiles(&self) -> Option<usize> {
        self.tiles
    }

    /// The list of tiles that the kernels read as `tiles`, in addition to the described operands, if any: the one that a sort of
    /// the same rows wrote, or that [`Tiles::of`] makes.
    pub fn walks(&self) -> Option<Tiles> {
        self.walks
    }

    /// The operands \[B, H, S, D\] that may be views ([`Lookup::strides`]); all others are contiguous.
    pub fn strided(&self) -> &'static [&'static str] {
        self.strided
    }

    /// Enqueues the kernels; calls `done` after the launches of each stage, if there are stages. `signature` is that of the
    /// planned operation, possibly without some of its results.
    ///
    /// # Panics
    /// If a buffer is missing or smaller than its tensor.
    pub fn launch(
        &self,
        client: &Client,
        signature: &Signature,
        given: &dyn Lookup,
        done: &mut dyn FnMut(Stage),
    ) {
        let walked = self.walks.map(|tiles| TILE_WORDS * tiles.most);
        let buffers = Buffers {
            given,
            signature,
            tiles: self.tiles.or(walked).unwrap_or(0),
        };
        (self.enqueue)(client, buffers, done);
    }
}

#[cfg(all(test, feature = "emit"))]
mod buffers_tests;

#[cfg(test)]
mod tests {
    use super::Tiles;

    /// Four experts with five, no, one and two rows, in tiles of two rows.
    #[test]
    fn tiles_end_with_their_expert() {
        let tiles = Tiles { rows: 2, most: 6 };
        let want = [
            [0, 0, 2],
            [0, 2, 4],
            [0, 4, 5],
            [2, 5, 6],
            [3, 6, 8],
            [4, 0, 0],
        ];
        assert_eq!(tiles.of(&[0, 5, 5, 6, 8]), want.concat());
    }
}
