//! What a described operation is on a device: the kernels that were planned for it, and what enqueues them.
//!
//! Each family of [`moebius_ops`] implements [`Family`] in `families.rs`.

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

/// Operations that have kernels.
pub trait Family: Clone + Into<Operation> + TryFrom<Operation> {
    /// What a caller may decide about the kernels; the default leaves it to the plan.
    type How: Default;

    /// Plans the operation's kernels for `device`.
    ///
    /// # Errors
    /// [`PlanError`] with the size that is wrong, or what a kernel needs and the device lacks.
    fn kernels(&self, how: &Self::How, device: &Capability) -> Result<Kernels, PlanError>;

    /// Plans the gradients through each result that has some by an operation of their own, by the results' names. They take
    /// buffers of fewer gradients than all, too.
    ///
    /// # Errors
    /// As [`Family::kernels`].
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

/// The buffers of a launch by the names of the description, each as long as it is described.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    given: &'a dyn Lookup,
    signature: &'a Signature,
    /// Words of the list of tiles.
    tiles: usize,
}

impl Buffers<'_> {
    /// The buffer of this name.
    pub(crate) fn get(&self, name: &str) -> Handle {
        Handle::from_names(self, &[name])
    }

    /// Bytes of a tensor; `None` for a view, which says itself where it ends, and for what the description doesn't name.
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
    /// The buffer without what it holds beyond the tensor.
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

/// The kernels of an operation, as they were planned for a device.
#[derive(Clone)]
pub struct Kernels {
    enqueue: Arc<Enqueue>,
    tiles: Option<usize>,
    walks: Option<Tiles>,
    strided: &'static [&'static str],
}

/// A list of tiles, as [`moebius_ops::permute`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of a tile.
    pub rows: usize,
    /// How many tiles there are in the worst routing.
    pub most: usize,
}

impl Tiles {
    /// The list of the experts whose rows begin and end at `offsets` \[E+1\].
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
    /// What `launch` enqueues of `plan`, given its buffers.
    pub(crate) fn of<P: Send + Sync + 'static, B: FromNames>(
        plan: P,
        launch: impl Fn(&Client, &P, B) + Send + Sync + 'static,
    ) -> Self {
        Self::new(plan, move |client, plan, b| launch(client, plan, b.fill()))
    }

    /// The same of a `launch` that finds its buffers by their names.
    pub(crate) fn new<P: Send + Sync + 'static>(
        plan: P,
        launch: impl Fn(&Client, &P, Buffers<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::staged(plan, move |client, plan, b, _| launch(client, plan, b))
    }

    /// The same of a `launch` that tells the end of its stages.
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

    /// The same, which write a list of tiles of so many words.
    pub(crate) fn with_tiles(self, words: usize) -> Self {
        Self {
            tiles: Some(words),
            ..self
        }
    }

    /// The same, which walk the sorted rows by such a list of tiles.
    pub(crate) fn walking(self, walks: Option<Tiles>) -> Self {
        Self { walks, ..self }
    }

    /// The same, which read these operands by their strides.
    pub(crate) fn reading_views(self, strided: &'static [&'static str]) -> Self {
        Self { strided, ..self }
    }

    /// Words of the list of tiles that a sort writes as `tiles`, beside the results of its description.
    pub fn tiles(&self) -> Option<usize> {
        self.tiles
    }

    /// The list of tiles that is read as `tiles` beside the operands of the description, where there is one: what a sort of the
    /// same rows wrote, or [`Tiles::of`] makes.
    pub fn walks(&self) -> Option<Tiles> {
        self.walks
    }

    /// Operands \[B, H, S, D\] that may be views ([`Lookup::strides`]); all others are contiguous.
    pub fn strided(&self) -> &'static [&'static str] {
        self.strided
    }

    /// Enqueues the kernels; calls `done` after the launches of every stage, where there are stages. `signature` is that of the
    /// operation they are planned for, or has fewer of its results.
    ///
    /// # Panics
    /// Where a buffer is missing, or holds less than its tensor.
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

    /// Five rows, none, one and two of four experts in tiles of two rows.
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
