//! Low-rank changes of a model's weights, by the places of the weights.

use moebius::fp8::{LowRank, Weight};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{DenseBlock, Experts, MoeLayer};

use super::Model;
use super::attention::Projections;
use super::block::{Block, FeedForward};
use super::slot::{Place, Slot};
use crate::error::Error;

/// The weight of a slot.
enum Found<'a> {
    Matrix(&'a mut Weight<2>),
    Stack(&'a mut Weight<3>),
}

impl Model {
    /// Replaces the low-rank changes of the weight in a place.
    ///
    /// # Errors
    /// [`Error::Config`] for a place that the model doesn't have or that holds no weight of a product, and as [`Weight::with_changes`].
    pub(crate) fn change(&mut self, place: Place, changes: Vec<LowRank>) -> Result<(), Error> {
        match self.found(place)? {
            Found::Matrix(weight) => *weight = weight.clone().with_changes(changes)?,
            Found::Stack(weight) => *weight = weight.clone().with_changes(changes)?,
        }
        Ok(())
    }

    /// The low-rank changes of the weight in a place. The model stays as it is.
    ///
    /// # Errors
    /// [`Error::Config`] as [`Model::change`].
    pub(crate) fn changes(&mut self, place: Place) -> Result<Vec<LowRank>, Error> {
        Ok(match self.found(place)? {
            Found::Matrix(weight) => weight.changes().to_vec(),
            Found::Stack(weight) => weight.changes().to_vec(),
        })
    }

    fn found(&mut self, place: Place) -> Result<Found<'_>, Error> {
        let block = self.blocks.get_mut(place.layer);
        let found = block.and_then(|block| weight(block, place.slot));
        found.ok_or_else(|| place.absent())
    }
}

fn weight(block: &mut Block, slot: Slot) -> Option<Found<'_>> {
    match slot {
        Slot::Out => Some(Found::Matrix(&mut block.attention.as_mut()?.out.weight)),
        Slot::Query
        | Slot::Key
        | Slot::Value
        | Slot::QueryDown
        | Slot::QueryUp
        | Slot::LatentDown
        | Slot::LatentUp => of_projections(&mut block.attention.as_mut()?.projection, slot),
        Slot::ConvolutionIn => {
            let of = block.convolution.as_mut()?;
            Some(Found::Matrix(&mut of.input.weight))
        }
        Slot::ConvolutionOut => Some(Found::Matrix(&mut block.convolution.as_mut()?.out.weight)),
        _ => match &mut block.feed_forward {
            FeedForward::Dense(DenseBlock { experts, .. }) => {
                of_network(experts, slot, [Slot::DenseIn, Slot::DenseOut])
            }
            FeedForward::Experts(layer) => of_mixture(layer, slot),
            FeedForward::Switched(_) => None,
        },
    }
}

fn of_projections(of: &mut Projections, slot: Slot) -> Option<Found<'_>> {
    let linear = match (of, slot) {
        (Projections::Direct(of), Slot::Query) => &mut of.query,
        (Projections::Direct(of), Slot::Key) => &mut of.key,
        (Projections::Direct(of), Slot::Value) => &mut of.value,
        (Projections::Latent(of), Slot::Query | Slot::QueryUp) => &mut of.query,
        (Projections::Latent(of), Slot::QueryDown) => of.query_down.as_mut()?,
        (Projections::Latent(of), Slot::LatentDown) => &mut of.down,
        (Projections::Latent(of), Slot::LatentUp) => &mut of.up,
        _ => return None,
    };
    Some(Found::Matrix(&mut linear.weight))
}

fn of_mixture(layer: &mut MoeLayer, slot: Slot) -> Option<Found<'_>> {
    match (&mut layer.experts, slot) {
        (_, Slot::SharedIn | Slot::SharedOut) => {
            let shared = layer.shared.as_mut()?;
            of_network(&mut shared.experts, slot, [Slot::SharedIn, Slot::SharedOut])
        }
        (Experts::FeedForward(of), slot) => {
            of_network(of, slot, [Slot::ExpertsIn, Slot::ExpertsOut])
        }
        _ => None,
    }
}

fn of_network(
    of: &mut FeedForwardExperts,
    slot: Slot,
    [first, second]: [Slot; 2],
) -> Option<Found<'_>> {
    match slot {
        slot if slot == first => Some(Found::Stack(&mut of.w_in)),
        slot if slot == second => Some(Found::Stack(&mut of.w_out)),
        _ => None,
    }
}
