//! The parts of a layer in which tokens look at those before them, in f64: attention and convolution.

use super::Source;
use super::arithmetic::{bounded, columns, linear, rms_norm};
use crate::decoder::{AttentionSpec, ConvolutionSpec, HeadNorm, Projection, Rope, Slot};
use crate::error::Error;

/// Queries \[T, heads · D\], keys \[T, kv_heads · D\] and values \[T, kv_heads · Dv\].
type Heads = [Vec<f64>; 3];

/// Computes y \[T, H\] of attention from x \[T, H\].
pub(super) fn attention(
    spec: &AttentionSpec,
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<Vec<f64>, Error> {
    let d = spec.head_dim;
    let [mut q, mut k, v] = match spec.projection {
        Projection::Direct { norm, clip, .. } => direct(spec, (norm, clip), x, from)?,
        Projection::Latent { .. } => latent(spec, x, from)?,
    };
    if let Projection::Direct {
        norm: HeadNorm::Unit,
        ..
    } = spec.projection
    {
        [q, k] = [q, k].map(|heads| rms_norm(&heads, None, d, from.spec.epsilon));
    }
    if let Some(temperature) = &spec.temperature {
        for (token, q) in q.chunks_exact_mut(spec.heads * d).enumerate() {
            let factor = f64::from(temperature.factor(token));
            q.iter_mut().for_each(|q| *q *= factor);
        }
    }
    let sinks = from.get_if(Slot::Sinks)?;
    let found = attend(spec, &[q, k, v], sinks.as_deref());
    let (out, bias) = (from.get(Slot::Out)?, from.get_if(Slot::OutBias)?);
    let width = spec.heads * spec.value_dim;
    Ok(linear(&found, &out, bias.as_deref(), width))
}

/// Computes o \[T, heads · Dv\]: of each head, the mean of the values that a query sees, weighted by the softmax of their scores.
fn attend(spec: &AttentionSpec, [q, k, v]: &Heads, sinks: Option<&[f32]>) -> Vec<f64> {
    let (heads, d, dv) = (spec.heads, spec.head_dim, spec.value_dim);
    let tokens = q.len() / (heads * d);
    let mut found = Vec::with_capacity(tokens * heads * dv);
    for query in 0..tokens {
        let chunk = spec.chunk.map_or(0, |chunk| query / chunk * chunk);
        let window = spec
            .window
            .map_or(0, |keys| (query + 1).saturating_sub(keys));
        let first = chunk.max(window);
        for head in 0..heads {
            let shared = head / (heads / spec.kv_heads);
            let at = |token: usize, width: usize| (token * spec.kv_heads + shared) * width;
            let q = &q[(query * heads + head) * d..][..d];
            let score = |token: usize| {
                let products = q.iter().zip(&k[at(token, d)..]).map(|(q, k)| q * k);
                bounded(spec.scale * products.sum::<f64>(), spec.softcap)
            };
            let scores: Vec<f64> = (first..=query).map(score).collect();
            let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
            let largest = scores.iter().copied().fold(sink, f64::max);
            let shares = scores.iter().map(|score| (score - largest).exp());
            let shares: Vec<f64> = shares.collect();
            let sum = shares.iter().sum::<f64>() + (sink - largest).exp();
            let mut mean = vec![0.0; dv];
            for (token, share) in (first..=query).zip(shares) {
                for (mean, v) in mean.iter_mut().zip(&v[at(token, dv)..]) {
                    *mean += share / sum * v;
                }
            }
            found.extend(mean);
        }
    }
    found
}

/// Heads by separate matrices.
fn direct(
    spec: &AttentionSpec,
    (norm, clip): (HeadNorm, Option<f64>),
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<Heads, Error> {
    let (h, epsilon, d) = (from.spec.hidden, from.spec.epsilon, spec.head_dim);
    let mut project = |slot, bias, norms: Option<Slot>| {
        let (w, bias) = (from.get(slot)?, from.get_if(bias)?);
        let gamma = match norms {
            Some(slot) => from.get_if(slot)?,
            None => None,
        };
        let mut rows = linear(x, &w, bias.as_deref(), h);
        if let (Some(gamma), HeadNorm::All) = (&gamma, norm) {
            rows = rms_norm(&rows, Some(gamma), gamma.len(), epsilon);
        }
        if let Some(clip) = clip {
            rows.iter_mut().for_each(|x| *x = x.clamp(-clip, clip));
        }
        if let (Some(gamma), HeadNorm::Head) = (&gamma, norm) {
            rows = rms_norm(&rows, Some(gamma), d, epsilon);
        }
        if norms.is_some() {
            rows = turned(&rows, spec.rope.as_ref(), [x.len() / h, d, 0]);
        }
        if let (Some(gamma), HeadNorm::Turned) = (&gamma, norm) {
            rows = rms_norm(&rows, Some(gamma), d, epsilon);
        }
        Ok::<_, Error>(rows)
    };
    Ok([
        project(Slot::Query, Slot::QueryBias, Some(Slot::QueryNorm))?,
        project(Slot::Key, Slot::KeyBias, Some(Slot::KeyNorm))?,
        project(Slot::Value, Slot::ValueBias, None)?,
    ])
}

/// Heads through narrow vectors.
fn latent(spec: &AttentionSpec, x: &[f64], from: &mut Source<'_>) -> Result<Heads, Error> {
    let Projection::Latent {
        rank,
        rotated,
        epsilon,
        query_rank,
        ..
    } = spec.projection
    else {
        unreachable!("attention asks for its own projection");
    };
    let (h, heads, d, dv) = (from.spec.hidden, spec.heads, spec.head_dim, spec.value_dim);
    let (tokens, still, rope) = (x.len() / h, d - rotated, spec.rope.as_ref());
    let q = match query_rank {
        Some(width) => {
            let (down, bias) = (
                from.get(Slot::QueryDown)?,
                from.get_if(Slot::QueryDownBias)?,
            );
            let narrow = linear(x, &down, bias.as_deref(), h);
            let gamma = from.get(Slot::QueryLatentNorm)?;
            let narrow = rms_norm(&narrow, Some(&gamma), width, epsilon);
            linear(&narrow, &from.get(Slot::QueryUp)?, None, width)
        }
        None => linear(x, &from.get(Slot::Query)?, None, h),
    };
    let q = turned(&q, rope, [tokens, d, still]);
    let (down, bias) = (
        from.get(Slot::LatentDown)?,
        from.get_if(Slot::LatentDownBias)?,
    );
    let down = linear(x, &down, bias.as_deref(), h);
    let shared = columns(&down, rank + rotated, rank, rotated);
    let shared = turned(&shared, rope, [tokens, rotated, 0]);
    let narrow = columns(&down, rank + rotated, 0, rank);
    let narrow = rms_norm(&narrow, Some(&from.get(Slot::LatentNorm)?), rank, epsilon);
    let up = linear(&narrow, &from.get(Slot::LatentUp)?, None, rank);
    let v = columns(&up, still + dv, still, dv);
    let mut k = Vec::with_capacity(tokens * heads * d);
    for (row, up) in up.chunks_exact(still + dv).enumerate() {
        let token = row / heads;
        k.extend(&up[..still]);
        k.extend(&shared[token * rotated..][..rotated]);
    }
    Ok([q, k, v])
}

/// Rotates the pairs of each head of `width` elements, from element `at` on, by the angles of the rows' tokens. Interleaved pairs come out in
/// separate halves, in queries and keys alike. Frequencies and angles are f32 by the model's definition ([`Rope`]).
fn turned(x: &[f64], rope: Option<&Rope>, [tokens, width, at]: [usize; 3]) -> Vec<f64> {
    let mut y = x.to_vec();
    let Some(rope) = rope else {
        return y;
    };
    let rope = rope.of_length(tokens);
    let (frequencies, factor) = (rope.frequencies(), rope.attention_factor());
    let half = frequencies.len();
    let heads = x.len() / (tokens * width);
    let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
    for (row, (x, y)) in rows.enumerate() {
        let position = row / heads;
        for (pair, frequency) in frequencies.iter().enumerate() {
            let angle = f64::from(position as f32 * frequency);
            let (sin, cos) = (angle.sin() * factor, angle.cos() * factor);
            let [left, right] = if rope.interleaved {
                [x[at + 2 * pair], x[at + 2 * pair + 1]]
            } else {
                [x[at + pair], x[at + half + pair]]
            };
            y[at + pair] = left * cos - right * sin;
            y[at + half + pair] = right * cos + left * sin;
        }
    }
    y
}

/// Computes y \[T, H\] of a convolution from x \[T, H\].
pub(super) fn convolution(
    spec: &ConvolutionSpec,
    x: &[f64],
    from: &mut Source<'_>,
) -> Result<Vec<f64>, Error> {
    let (h, taps) = (from.spec.hidden, spec.taps);
    let bias = from.get_if(Slot::ConvolutionInBias)?;
    let all = linear(x, &from.get(Slot::ConvolutionIn)?, bias.as_deref(), h);
    let factors = from.get(Slot::ConvolutionFactors)?;
    let bias = from.get_if(Slot::ConvolutionBias)?;
    let mut gated = Vec::with_capacity(x.len());
    for (token, row) in all.chunks_exact(3 * h).enumerate() {
        for channel in 0..h {
            let mut sum = bias.as_ref().map_or(0.0, |bias| f64::from(bias[channel]));
            for tap in 0..taps {
                // Tokens before the first are zeros.
                let Some(earlier) = (token + tap + 1).checked_sub(taps) else {
                    continue;
                };
                let value = &all[earlier * 3 * h + channel..];
                sum += f64::from(factors[channel * taps + tap]) * value[0] * value[2 * h];
            }
            gated.push(row[h + channel] * sum);
        }
    }
    let (out, bias) = (
        from.get(Slot::ConvolutionOut)?,
        from.get_if(Slot::ConvolutionOutBias)?,
    );
    Ok(linear(&gated, &out, bias.as_deref(), h))
}
