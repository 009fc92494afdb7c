//! How many experts of a model have places on the device, and what was moved for the others.

use moebius::moe::switching::CacheStatistics;

use super::Model;
use super::block::FeedForward;
use super::switched::SwitchedMixture;

impl Model {
    /// Statistics of the moves of experts to the device, over all layers; `None` for a model without experts in host memory or in files.
    pub fn expert_cache(&self) -> Option<CacheStatistics> {
        let layers = self.switched().map(SwitchedMixture::statistics);
        layers.reduce(|all, one| CacheStatistics {
            hits: all.hits + one.hits,
            misses: all.misses + one.misses,
            evictions: all.evictions + one.evictions,
            moved_bytes: all.moved_bytes + one.moved_bytes,
            read_bytes: all.read_bytes + one.read_bytes,
        })
    }

    /// The number of experts of all layers that have places on the device at once, and of all that there are; `None` for a model without experts in
    /// host memory or in files.
    pub fn expert_places(&self) -> Option<[usize; 2]> {
        let layers = self.switched().map(SwitchedMixture::places);
        layers.reduce(|[some, all], [places, experts]| [some + places, all + experts])
    }

    /// The mixtures whose experts aren't all on the device.
    fn switched(&self) -> impl Iterator<Item = &SwitchedMixture> {
        let layers = self.blocks.iter();
        layers.filter_map(|block| match &block.feed_forward {
            FeedForward::Switched(mixture) => Some(mixture),
            FeedForward::Dense(_) | FeedForward::Experts(_) => None,
        })
    }
}
