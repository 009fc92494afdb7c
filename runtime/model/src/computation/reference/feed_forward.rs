//! The part of a layer that each token goes through alone, in f64: a dense network, or a router and its experts.

use moebius::moe::{MoeConfig, RouteConfig};

use super::Source;
use super::arithmetic::{linear, sigmoid};
use super::routing::choose;
use crate::computation::Choice;
use crate::decoder::Slot;
use crate::error::Error;

/// Weights of one gated network: \[2F, H\] with the gate's rows first, \[2F\], \[H, F\] and \[H\].
struct Network<'a> {
    w_in: &'a [f32],
    b_in: Option<&'a [f32]>,
    w_out: &'a [f32],
    b_out: Option<&'a [f32]>,
}

impl Network<'_> {
    /// Computes W_out · (act(G x) ∘ (U x)) for x \[T, H\].
    fn forward(&self, x: &[f64], config: &MoeConfig) -> Vec<f64> {
        let hidden = linear(x, self.w_in, self.b_in, config.hidden);
        let inter = self.w_out.len() / config.hidden;
        let act = config.activation;
        let mut gated = Vec::with_capacity(hidden.len() / 2);
        for row in hidden.chunks_exact(2 * inter) {
            let (gate, up) = row.split_at(inter);
            let pairs = gate.iter().zip(up);
            gated.extend(pairs.map(|(gate, up)| act.reference(*gate) * act.reference_gated(*up)));
        }
        linear(&gated, self.w_out, self.b_out, inter)
    }
}

/// Computes y \[T, H\] of a dense network from x \[T, H\].
pub(super) fn dense(
    config: &MoeConfig,
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<Vec<f64>, Error> {
    let (w_in, b_in) = (from.get(Slot::DenseIn)?, from.get_if(Slot::DenseInBias)?);
    let (w_out, b_out) = (from.get(Slot::DenseOut)?, from.get_if(Slot::DenseOutBias)?);
    let network = Network {
        w_in: &w_in,
        b_in: b_in.as_deref(),
        w_out: &w_out,
        b_out: b_out.as_deref(),
    };
    Ok(network.forward(x, config))
}

/// Computes the router's logits \[T, E\] for x \[T, H\], and its choice for each token.
pub(super) fn router(
    rule: &RouteConfig,
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<(Vec<f64>, Vec<Choice>), Error> {
    let (w, bias) = (from.get(Slot::Router)?, from.get_if(Slot::RouterBias)?);
    let correction = from.get_if(Slot::Correction)?;
    let h = from.spec.hidden;
    let logits = linear(x, &w, bias.as_deref(), h);
    let rows = logits.chunks_exact(w.len() / h);
    let choices = rows.map(|row| choose(rule, row, correction.as_deref()));
    let choices = choices.collect();
    Ok((logits, choices))
}

/// Computes y \[T, H\] of the chosen experts, and of a shared one, from x \[T, H\].
pub(super) fn experts(
    config: &MoeConfig,
    choices: &[Choice],
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<Vec<f64>, Error> {
    let h = config.hidden;
    let mut y = vec![0.0; x.len()];
    let (w_in, b_in) = (
        from.get(Slot::ExpertsIn)?,
        from.get_if(Slot::ExpertsInBias)?,
    );
    let (w_out, b_out) = (
        from.get(Slot::ExpertsOut)?,
        from.get_if(Slot::ExpertsOutBias)?,
    );
    for expert in 0..config.experts {
        let of = |values: &[f32]| {
            let size = values.len() / config.experts;
            expert * size..(expert + 1) * size
        };
        let network = Network {
            w_in: &w_in[of(&w_in)],
            b_in: b_in.as_ref().map(|b_in| &b_in[of(b_in)]),
            w_out: &w_out[of(&w_out)],
            b_out: b_out.as_ref().map(|b_out| &b_out[of(b_out)]),
        };
        for (token, choice) in choices.iter().enumerate() {
            let slots = choice.experts.iter().zip(&choice.weights);
            for (_, weight) in slots.filter(|(chosen, _)| **chosen == expert) {
                let row = token * h..(token + 1) * h;
                // The weight goes to one side of the expert or the other.
                let (before, after) = if config.weighted_input {
                    (*weight, 1.0)
                } else {
                    (1.0, *weight)
                };
                let x: Vec<f64> = x[row.clone()].iter().map(|x| x * before).collect();
                let found = network.forward(&x, config);
                for (y, found) in y[row].iter_mut().zip(found) {
                    *y += found * after;
                }
            }
        }
    }
    if let Some(shared) = shared(config, x, from)? {
        y.iter_mut()
            .zip(shared)
            .for_each(|(y, shared)| *y += shared);
    }
    Ok(y)
}

/// Computes y \[T, H\] of the shared expert, if the layer has one.
fn shared(config: &MoeConfig, x: &[f64], from: &mut Source<'_>) -> Result<Option<Vec<f64>>, Error> {
    let Some(w_in) = from.get_if(Slot::SharedIn)? else {
        return Ok(None);
    };
    let w_out = from.get(Slot::SharedOut)?;
    let network = Network {
        w_in: &w_in,
        b_in: None,
        w_out: &w_out,
        b_out: None,
    };
    let mut y = network.forward(x, config);
    if let Some(gate) = from.get_if(Slot::SharedGate)? {
        let gates = linear(x, &gate, None, config.hidden);
        for (row, gate) in y.chunks_exact_mut(config.hidden).zip(gates) {
            row.iter_mut().for_each(|y| *y *= sigmoid(gate));
        }
    }
    Ok(Some(y))
}
