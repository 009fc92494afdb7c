//! Attention on the host, in f32: blocks of queries by blocks of keys, as many at once as there are processors.
//!
//! | file | what it has |
//! |---|---|
//! | `scores.rs` | the rules, on a block of scores, and which blocks are computed |
//! | `source.rs` | where keys and values are |
//! | `forward.rs` | o and its log-sum-exp |
//! | `few.rs` | the same of few queries |
//! | `backward.rs` | the gradients of queries, keys, values and biases by distance |
//! | `tables.rs` | those of dense biases and of sinks |
//! | `panels.rs` | products, in registers |
//!
//! A score of −∞ counts as unseen, as in Burn, and so does a probability below 2⁻¹²⁶.

mod backward;
mod few;
mod forward;
mod panels;
mod scores;
mod source;
mod tables;

use crate::ops::host::{Operands, cast_like, float_tensor, to_f32, words};
use crate::ops::tensors::Value;
use backward::{Incoming, Packed};
use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;
use moebius_ops::attention::{Dropout, HostRule, Problem};
use moebius_ops::{Attention, AttentionPass, Operation, Scalar};
pub(in crate::ops) use panels::Line;
pub(in crate::ops) use scores::Host;
pub(in crate::ops) use source::Source;

/// Contiguous f32 values, or none.
struct Floats(Option<FloatTensor<Flex>>);

impl Floats {
    fn of(b: &mut Operands, name: &str) -> Self {
        let tensor = b.maybe_float(name);
        Self(tensor.map(|tensor| to_f32(tensor).to_contiguous()))
    }

    fn values(&self) -> &[f32] {
        self.0
            .as_ref()
            .map_or(&[], |tensor| tensor.storage::<f32>())
    }
}

/// o and its log-sum-exp, or gradients through one of them.
pub(in crate::ops) fn run(
    attention: &Attention,
    rule: Option<&dyn HostRule>,
    mut b: Operands,
) -> Vec<Value<Flex>> {
    let names = ["q", "k", "v", "slopes", "bias", "relative", "sinks"];
    let floats = names.map(|name| Floats::of(&mut b, name));
    let host = Host {
        rule,
        ..host(&attention.problem, &floats, &mut b)
    };
    let results = match attention.pass {
        AttentionPass::Forward => host.over(&host).into(),
        AttentionPass::Output(_) | AttentionPass::LogSumExp(_) => {
            gradients(attention, &host, &mut b)
        }
    };
    let signature = Operation::from(*attention).signature();
    let described = results.into_iter().zip(signature.results);
    let value = described.map(|(values, info)| {
        let dtype = match info.scalar {
            Scalar::Float(_) => crate::ops::dtype(info.scalar),
            Scalar::Word => unreachable!("an attention writes floats"),
        };
        Value::Float(cast_like(float_tensor(values, &info.shape), dtype))
    });
    value.collect()
}

fn host<'a>(problem: &'a Problem, floats: &'a [Floats; 7], b: &mut Operands) -> Host<'a> {
    let mut table = |name| b.maybe_word(name).map(words).unwrap_or_default();
    let dropout = <[u32; Dropout::WORDS]>::try_from(table("dropout"));
    let [q, k, v, slopes, bias, relative, sinks] = floats.each_ref().map(Floats::values);
    Host {
        problem,
        q,
        k,
        v,
        slopes,
        bias,
        relative,
        sinks,
        dropout: dropout.ok().map(Dropout::of),
        rule: None,
        query_documents: table("query_documents"),
        key_documents: table("key_documents"),
        blocks: table("blocks"),
        mask: table("mask"),
    }
}

/// The gradients in the order of the description.
fn gradients(attention: &Attention, host: &Host<'_>, b: &mut Operands) -> Vec<Vec<f32>> {
    let [o, d_o, lse, d_lse] = ["o", "do", "lse", "dlse"].map(|name| Floats::of(b, name));
    let (through_o, tables) = match attention.pass {
        AttentionPass::LogSumExp(tables) => (false, tables),
        AttentionPass::Output(tables) => (true, tables),
        AttentionPass::Forward => unreachable!("a forward pass has no gradients"),
    };
    let width = host.problem.sizes().value_dim;
    let rows = o.values().chunks(width).zip(d_o.values().chunks(width));
    let incoming = Incoming {
        d_o: through_o.then(|| d_o.values()),
        lse: lse.values(),
        delta: if through_o {
            rows.map(|(o, d_o)| dot(o, d_o)).collect()
        } else {
            d_lse.values().iter().map(|d| -d).collect()
        },
    };
    let packed = Packed::all(host);
    let found = backward::run(host, &incoming, &packed);
    let mut all = vec![found.dq, found.dk];
    if through_o {
        all.push(found.dv);
    }
    if tables.bias {
        all.push(tables::bias(host, &incoming, &packed));
    }
    if tables.relative {
        all.push(found.drelative);
    }
    if tables.sinks {
        all.push(tables::sinks(host, &incoming));
    }
    all
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
