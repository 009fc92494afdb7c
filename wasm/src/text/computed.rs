//! What a model computes for a text, part by part.

use burn::tensor::Transaction;
use moebius_model::decoder::{Model, WithStates};

use crate::failure::Failure;
use crate::objects::{Record, counts, list, numbers};
use crate::work::Gpu;

/// Computes the tokens `ids` in one pass without a cache; nothing is read yet.
pub(super) fn pass(model: &Model, ids: &[u32], gpu: &Gpu) -> Result<WithStates, Failure> {
    if ids.is_empty() {
        return Err(Failure::expected("ids", "at least one token", "none"));
    }
    gpu.alive()?;
    Ok(model.forward_with_states(model.tokens(ids, &gpu.burn)?)?)
}

/// Reads all that comes before the next tokens' logits, and these.
pub(super) async fn read(found: WithStates, gpu: &Gpu) -> Result<Record, Failure> {
    let (states, routers) = (found.states.len(), found.logits.routing.len());
    let states_of = found.states.into_iter();
    let mut reads = states_of.fold(Transaction::default(), Transaction::register);
    for routing in found.logits.routing {
        reads = reads.register(routing.logits).register(routing.indices);
    }
    let data = gpu.read(reads.register(found.logits.logits)).await?;
    let head = states + 2 * routers;
    let routers = (states..head).step_by(2).map(|at| {
        Record::new()
            .with("logits", numbers(&data, at))
            .with("experts", counts(&data, at + 1))
    });
    Ok(Record::new()
        .with("routers", list(routers))
        .with("states", list((0..states).map(|at| numbers(&data, at))))
        .with("head", numbers(&data, head)))
}
