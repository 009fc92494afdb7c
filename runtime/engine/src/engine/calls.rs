//! The calls of the model that a step takes, and what they compute.

use std::collections::BTreeMap;

use moebius::attention::Span;
use moebius_model::decoder::Logits;
use tracing::trace_span;

use super::launched::{Computed, Piece};
use super::{Engine, EngineError};
use crate::pages::PAGE;
use crate::schedule::Work;
use crate::shapes::{self, New, Shapes};

/// A call of the model for parts of a step.
pub(super) struct Call {
    pieces: Vec<Piece>,
    /// Numbers of sequences and tokens that the call is filled up to, if it is.
    filled: Option<[usize; 2]>,
}

/// The calls for the parts of a step, in their order.
pub(super) fn calls(work: &[Work], shapes: Option<&Shapes>) -> Result<Vec<Call>, EngineError> {
    match shapes {
        Some(shapes) => filled(work, shapes),
        None => Ok(even(work)),
    }
}

/// Groups the parts by their number of new tokens, with proposed ones: all parts with one token form one call of the model, while pieces of
/// prompts are mostly alone. Grouping doesn't change a token's bits.
fn even(work: &[Work]) -> Vec<Call> {
    let mut by_length = BTreeMap::<usize, Vec<Piece>>::new();
    for (part, work) in work.iter().enumerate() {
        let positions = work.positions.clone();
        let same = by_length.entry(positions.len()).or_default();
        same.push(Piece { part, positions });
    }
    let call = |pieces| Call {
        pieces,
        filled: None,
    };
    by_length.into_values().map(call).collect()
}

/// Calls of few shapes: pieces of prompts alone, in parts of the sizes of `shapes`, then single tokens together, and tokens with proposed ones
/// by the size that they are filled up to.
fn filled(work: &[Work], shapes: &Shapes) -> Result<Vec<Call>, EngineError> {
    let (mut calls, mut together) = (Vec::new(), BTreeMap::<usize, Vec<Piece>>::new());
    for (part, work) in work.iter().enumerate() {
        let (mut at, end) = (work.positions.start, work.positions.end);
        // Logits are needed after the last token that isn't proposed and after each that is.
        let few = match work.proposed {
            0 if work.positions.len() > 1 => 0,
            proposed => 1 + proposed,
        };
        let until = end - few;
        for size in shapes.parts(until - at) {
            let positions = at..until.min(at + size);
            at = positions.end;
            calls.push(Call {
                pieces: vec![Piece { part, positions }],
                filled: Some([1, size]),
            });
        }
        if few > 0 {
            let same = together.entry(shapes.tokens(few)?).or_default();
            let positions = until..end;
            same.push(Piece { part, positions });
        }
    }
    for (tokens, pieces) in together {
        let filled = Some([shapes.sequences(pieces.len())?, tokens]);
        calls.push(Call { pieces, filled });
    }
    Ok(calls)
}

impl Piece {
    /// The tokens of the piece, and the pages up to its end.
    fn new_tokens<'a>(&self, work: &'a Work) -> New<'a> {
        let (start, end) = (self.positions.start, self.positions.end);
        New {
            tokens: &work.tokens[start - work.positions.start..][..end - start],
            span: Span {
                pages: &work.pages[..end.div_ceil(PAGE)],
                start,
                end,
            },
        }
    }

    /// Number of the piece's tokens that are proposed, if it chooses tokens; pieces before the prompt's last token choose none.
    fn proposed(&self, work: &Work) -> Option<usize> {
        let chooses = work.samples.is_some() && self.positions.end == work.positions.end;
        chooses.then_some(work.proposed)
    }
}

impl Engine {
    /// Fills the calls of the model up to few shapes from now on, and those of a draft model that is given later. An engine on XLA does so from
    /// the start, because each shape is a program to compile there, unless experts are in host memory.
    ///
    /// Prompts are computed in parts of 8, 16 and so on up to [`Limits::batch_tokens`](crate::Limits::batch_tokens) tokens, a prompt's last part
    /// filled up by at most an eighth of its length or to 8 tokens, and single tokens of 1, 2, 4 and so on up to
    /// [`Limits::running`](crate::Limits::running) requests together. Changes no token and no probability, but on XLA, whose order of
    /// summation depends on the shapes.
    ///
    /// # Errors
    /// [`EngineError::Model`] for limits that shapes can't be made for.
    pub fn fill_up(&mut self) -> Result<(), EngineError> {
        self.shapes = Some(Shapes::new(&self.limits)?);
        Ok(())
    }

    /// Queues a call on the device.
    pub(super) fn compute(&mut self, work: &[Work], call: Call) -> Result<Computed, EngineError> {
        let Call { pieces, filled } = call;
        let new: Vec<New<'_>> = pieces
            .iter()
            .map(|of| of.new_tokens(&work[of.part]))
            .collect();
        let tokens = new.iter().map(|of| of.tokens.len()).max().unwrap_or(0);
        let _span = trace_span!("batch", sequences = new.len(), tokens).entered();
        let proposed = pieces.iter().filter_map(|of| of.proposed(&work[of.part]));
        let proposed = proposed.max();
        let last = 1 + proposed.unwrap_or(0);
        let (shape, last) = match filled {
            Some(shape) => (shape, last.next_power_of_two().min(shape[1])),
            None => ([new.len(), tokens], last),
        };
        let (model, cache) = (&self.model, self.cache.now_mut());
        let computed = shapes::compute(model, cache, &new, last, filled, &self.device)?;
        let Logits { logits, routing } = computed;
        if let Some(experts) = &mut self.experts {
            experts.add(&routing)?;
        }
        let experts = routing.into_iter().map(|of| of.indices).collect();
        if filled.is_some() {
            shapes::end(&self.device)?;
        }
        Ok(Computed {
            pieces,
            shape,
            last,
            vocabulary: proposed.map(|_| logits.dims()[2]),
            logits: proposed.map(|_| logits),
            experts,
        })
    }
}
