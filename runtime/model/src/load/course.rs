//! How far a loading is, and what its files are told to read ahead.

use std::collections::{BTreeSet, VecDeque};

use super::checkpoint::Checkpoint;
use super::mapping::Target;
use super::{ExpertsFrom, LoadOptions, ModelFiles, Progress};
use crate::decoder::{Place, Slot};

/// Bytes that files are told of before they are read: as many as a disk reads while a matrix is converted and goes to the device.
const AHEAD: u64 = 256 * 1024 * 1024;

/// The course of a loading.
#[derive(Debug)]
pub(super) struct Course {
    /// Bytes of the files that had been read before.
    before: u64,
    /// Bytes to read in all.
    bytes: u64,
    /// Names and bytes of the tensors that the files haven't been told of as a whole, in about the order in which they are read.
    tensors: VecDeque<(String, u64)>,
    /// Bytes of the first of these that the files have been told of.
    begun: u64,
    /// Bytes of all tensors that the files have been told of.
    told: u64,
}

impl Course {
    /// The course of a loading that begins now.
    pub(super) fn new(files: &ModelFiles, options: LoadOptions) -> Self {
        let (reader, plan) = (files.files.checkpoint(), &files.plan);
        let stay = options.expert_cache.is_some() && options.experts_from == ExpertsFrom::Files;
        let stays = |at: &Place| stay && at.slot.is_of_experts();
        let (staying, mut read): (Vec<_>, Vec<_>) =
            plan.targets.iter().partition(|&(at, _)| stays(at));
        let layers: BTreeSet<usize> = staying.iter().map(|(at, _)| at.layer).collect();
        let layers = layers.into_iter();
        let staying: u64 = layers.map(|layer| plan.expert_bytes(layer, reader)).sum();
        read.sort_by_key(|(at, _)| match at.slot {
            Slot::Embedding | Slot::Positions => 0,
            Slot::Norm | Slot::Head => usize::MAX,
            _ => at.layer + 1,
        });
        let mut course = Self {
            before: reader.bytes_read(),
            bytes: plan.bytes - staying,
            tensors: tensors(reader, read.into_iter().map(|(_, target)| target)),
            begun: 0,
            told: 0,
        };
        course.tell(reader, AHEAD);
        course
    }

    /// How far the loading is after `tensor` was read; tells the files what comes next.
    pub(super) fn at<'a>(&mut self, reader: Checkpoint<'_>, tensor: &'a str) -> Progress<'a> {
        let read = reader.bytes_read() - self.before;
        self.tell(reader, read + AHEAD);
        Progress {
            tensor,
            read,
            bytes: self.bytes,
        }
    }

    /// Tells the files that the first `until` bytes of all will be read soon.
    fn tell(&mut self, reader: Checkpoint<'_>, until: u64) {
        while self.told < until {
            let Some((name, bytes)) = self.tensors.front() else {
                return;
            };
            let end = (*bytes).min(self.begun + (until - self.told));
            reader.expect(name, self.begun..end);
            self.told += end - self.begun;
            if end == *bytes {
                self.tensors.pop_front();
                self.begun = 0;
            } else {
                self.begun = end;
            }
        }
    }
}

/// Names and bytes of the tensors of places, each once.
fn tensors<'a>(
    reader: Checkpoint<'_>,
    targets: impl Iterator<Item = &'a Target>,
) -> VecDeque<(String, u64)> {
    let mut seen = BTreeSet::new();
    let names = targets.flat_map(|target| &target.pieces);
    let names = names.map(|piece| piece.name.as_str());
    let once = names.filter(|name| seen.insert(*name));
    let with_bytes = |name: &str| Some((name.to_owned(), reader.get(name)?.bytes));
    once.filter_map(with_bytes).collect()
}
