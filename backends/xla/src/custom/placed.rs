//! Operations over several devices.
//!
//! Each of Moebius's operations is a [part](Builder::part) of the program, which every device computes for itself: they
//! loop over experts, blocks of rows, and pages, which XLA's partitioner could only cut by gathering what they walk over.
//! What they take and give is divided like this; everything else is whole on every device.
//!
//! | operation | along `experts` | along `data` |
//! |---|---|---|
//! | routed experts | their weights and biases | tokens |
//! | products per expert | their weights, codes, scales, places and biases | |
//! | dense networks and products | | rows |
//! | router logits, the choice of experts | | tokens |
//! | attention, attention over a cache | | sequences |
//! | codes and scales of a divided stack | matrices | |
//!
//! A device computes the rows of its own experts only. The sum of a token's experts over the devices is taken in f32, and
//! a row of a product per expert comes from the one device that has its expert. Gradients of weights are sums over `data`.
//! A number of tokens, rows or sequences that the places don't divide is whole on every device.

use super::permute::sorted;
use super::values::{along, words};
use super::{CallError, Tiling, experts, grouped_gemm, lower_tiled};
use crate::stablehlo::{Axis, Builder, Mesh, Reduction, Value};
use moebius_ops::attention::{self, Sizes};
use moebius_ops::kv_cache::Attend;
use moebius_ops::{
    Attention, Experts, GroupedGemm, KvCache, Mismatch, Operation, Quantize, Routing, Signature,
    quantize,
};
use moebius_pjrt::ElementType::{F32, S32, U32};
use moebius_pjrt::TensorType;

/// Appends the operation and returns its results. `divided` says whether the first operand is a tensor that is divided
/// along `experts`.
pub(super) fn lower(
    b: &Builder,
    mesh: &Mesh,
    operation: &Operation,
    inputs: &[Value],
    divided: bool,
) -> Result<Vec<Value>, CallError> {
    let stacks = experts_of(operation);
    if let Some(experts) = stacks {
        divides(experts, mesh)?;
    }
    match operation {
        // Without elements there is nothing to divide.
        _ if inputs.iter().any(|x| b.ty(*x).elements() == 0) => whole(b, operation, inputs),
        Operation::Experts(experts) if stacks.is_some() => routed(b, mesh, experts, inputs),
        Operation::GroupedGemm(product) if stacks.is_some() => products(b, mesh, product, inputs),
        Operation::Quantize(quantize) if divided => matrices(b, mesh, quantize, inputs),
        _ => match Share::of(operation, mesh)? {
            Some(share) => share.lower(b, inputs),
            None => apart(b, operation, inputs),
        },
    }
}

/// The operands and results of experts and of products per expert that are stacks, with a matrix or vector of each expert.
const STACKS: [&str; 15] = [
    "w_in", "w_out", "b_in", "b_out", "dw_in", "dw_out", "db_in", "db_out", "W", "b", "dW", "db",
    "codes", "scales", "places",
];

/// Whether an operand or result of this name of such an operation is a stack.
pub(crate) fn is_stack(name: &str) -> bool {
    STACKS.contains(&name)
}

/// The number of experts whose stacks an operation takes; `None` for an operation without such stacks.
pub(crate) fn experts_of(operation: &Operation) -> Option<usize> {
    let (experts, dense) = match operation {
        Operation::Experts(
            Experts::Forward { problem, .. } | Experts::Backward { problem, .. },
        ) => (problem.routing.experts(), problem.dense),
        Operation::GroupedGemm(
            GroupedGemm::Linear(problem)
            | GroupedGemm::LinearBackward { problem, .. }
            | GroupedGemm::CodedLinear(problem)
            | GroupedGemm::CodedLinearBackward { problem, .. },
        ) => (problem.experts, problem.dense),
        _ => return None,
    };
    (!dense).then_some(experts)
}

/// Checks that the places divide the experts evenly.
fn divides(experts: usize, mesh: &Mesh) -> Result<(), Mismatch> {
    let places = mesh.places(Axis::Experts);
    let expected = format_args!("a multiple of {places} places");
    Mismatch::unless(experts.is_multiple_of(places), "experts", expected, experts)
}

/// Each place's share of `count`, if there is more than one place and it divides `count`.
fn share_of(count: usize, places: usize) -> Option<usize> {
    let shared = places > 1 && count > 0 && count.is_multiple_of(places);
    shared.then(|| count / places)
}

fn whole(b: &Builder, operation: &Operation, inputs: &[Value]) -> Result<Vec<Value>, CallError> {
    lower_tiled(operation, b, inputs, Tiling::default())
}

/// Appends the operation as a part that takes and gives everything whole.
fn apart(b: &Builder, operation: &Operation, inputs: &[Value]) -> Result<Vec<Value>, CallError> {
    let operands: Vec<_> = inputs.iter().map(|value| (*value, None)).collect();
    let results = vec![None; operation.signature().results.len()];
    b.part(&operands, &results, |b, inputs| whole(b, operation, inputs))
}

/// An operand of a part, and the axis along which it is divided; without one it is whole.
type Operand = (Value, Option<Axis>);

/// The operands and the results of a part: an operation's tensors, each divided along what `axis` says of its name.
fn divided_by(
    operation: &Signature,
    inputs: &[Value],
    axis: impl Fn(&str) -> Option<Axis>,
) -> (Vec<Operand>, Vec<Option<Axis>>) {
    let operands = operation.operands.iter().zip(inputs);
    let operands = operands.map(|(info, value)| (*value, axis(info.name)));
    let results = operation.results.iter().map(|info| axis(info.name));
    (operands.collect(), results.collect())
}

/// A part's results, of which those that aren't divided are summed over the devices along `over`, in f32.
fn summed(b: &Builder, made: Vec<Value>, results: &[Option<Axis>], over: Axis) -> Vec<Value> {
    let made = made.into_iter().zip(results);
    let made = made.map(|(value, axis)| match axis {
        Some(_) => value,
        None => b.convert(b.sum_over(b.convert(value, F32), &[over]), b.element(value)),
    });
    made.collect()
}

/// The numbers of the places of experts, of which each device gets its own.
fn places(b: &Builder, mesh: &Mesh) -> Operand {
    let ty = TensorType::new([mesh.places(Axis::Experts)], S32);
    (b.iota(ty, 0), Some(Axis::Experts))
}

/// The number of the first of a device's experts, an i32 scalar; `place` is the device's own number, \[1\], and `each`
/// the number of experts of a device.
fn first_expert(b: &Builder, place: Value, each: usize) -> Value {
    b.mul(b.reshape(place, &[]), each as f64)
}

/// Whether the first product is kept by a forward pass, or taken by a backward pass.
fn keeps(operation: &Experts) -> bool {
    matches!(
        operation,
        Experts::Forward { keep: true, .. } | Experts::Backward { pre: true, .. }
    )
}

/// Appends routed experts. A device sorts the slots of its tokens again, for its own experts alone, so that it has rows
/// for no others.
fn routed(
    b: &Builder,
    mesh: &Mesh,
    operation: &Experts,
    inputs: &[Value],
) -> Result<Vec<Value>, CallError> {
    let described = Operation::from(*operation).signature();
    if keeps(operation) {
        return Err(CallError::Kept(described.name));
    }
    let mut local = *operation;
    let (Experts::Forward { problem: p, .. } | Experts::Backward { problem: p, .. }) = &mut local;
    let each = p.routing.experts() / mesh.places(Axis::Experts);
    let share = share_of(p.routing.tokens(), mesh.places(Axis::Data));
    let tokens = share.unwrap_or(p.routing.tokens());
    p.routing = p.routing.with_tokens(tokens)?;
    p.capacity = None;
    // A caller's routing may give a token to an expert twice, so that a device can have all slots of its tokens.
    p.row_bound = p.row_bound.min(tokens * p.routing.top_k());
    let data = share.map(|_| Axis::Data);
    let axis = |name: &str| match name {
        "offsets" => None,
        name if is_stack(name) => Some(Axis::Experts),
        _ => data,
    };
    // Before the sort there are dy in a backward pass, x, and the router weights.
    let before = match local {
        Experts::Forward { .. } => 2,
        Experts::Backward { .. } => 3,
    };
    let (mut operands, results) = divided_by(&described, inputs, axis);
    // The sort begins with the order of all slots, which no device needs.
    operands.remove(before);
    operands.push(places(b, mesh));
    b.part(&operands, &results, |b, inputs| {
        let (rest, place) = inputs.split_at(inputs.len() - 1);
        let (rows, rest) = rest.split_at(before);
        let (sort, stacks) = rest.split_at(2);
        let first = first_expert(b, place[0], each);
        let keys = own_keys(b, [sort[1], sort[0]], first, each);
        let sort = sorted(b, keys, each);
        let operands = [rows, &sort, stacks].concat();
        let sums = experts::sums(b, &local, &operands).into_iter();
        let sums = sums.zip(&described.results).map(|(sum, info)| {
            let axes = if is_stack(info.name) {
                data.as_slice()
            } else {
                &[Axis::Experts]
            };
            b.sum_over(sum, axes)
        });
        let sums = sums.collect();
        Ok(experts::rounded(b, &local, &operands, sums))
    })
}

/// The keys of a device's slots for a sort by its own experts, ui32 \[S\]: `each` for a slot of another expert or of none.
/// An expert follows from the sorted row at `positions` \[S\] and the rows' `offsets` \[E+1\].
fn own_keys(b: &Builder, [positions, offsets]: [Value; 2], first: Value, each: usize) -> Value {
    let (slots, experts) = (b.shape(positions)[0], b.shape(offsets)[0] - 1);
    let ends = b.slice_dim(words(b, offsets), 0, 1..experts + 1);
    let table = TensorType::new([slots, experts], U32).shape;
    // A slot without a row has the largest position, which is past all ends.
    let before = b.le(
        along(b, ends, &table, 1),
        along(b, words(b, positions), &table, 0),
    );
    let expert = b.sum(b.convert(before, S32), &[1]);
    let own = b.sub(expert, b.broadcast(first, &[slots], &[]));
    let here = b.and(b.ge(own, 0.0), b.lt(own, each as f64));
    b.convert(b.select(here, own, each as f64), U32)
}

/// Appends products per expert: each device those of its own experts' rows.
fn products(
    b: &Builder,
    mesh: &Mesh,
    operation: &GroupedGemm,
    inputs: &[Value],
) -> Result<Vec<Value>, CallError> {
    let described = Operation::from(*operation).signature();
    let mut local = *operation;
    let (GroupedGemm::Linear(p)
    | GroupedGemm::LinearBackward { problem: p, .. }
    | GroupedGemm::CodedLinear(p)
    | GroupedGemm::CodedLinearBackward { problem: p, .. }) = &mut local
    else {
        unreachable!("refused before it is lowered");
    };
    p.experts /= mesh.places(Axis::Experts);
    let each = p.experts;
    let axis = |name: &str| is_stack(name).then_some(Axis::Experts);
    let (mut operands, results) = divided_by(&described, inputs, axis);
    operands.push(places(b, mesh));
    let mut names = described.operands.iter().map(|info| info.name);
    let offsets = names.position(|name| name == "offsets");
    b.part(&operands, &results, |b, inputs| {
        let (inputs, place) = inputs.split_at(inputs.len() - 1);
        let mut inputs = inputs.to_vec();
        if let Some(at) = offsets {
            let first = first_expert(b, place[0], each);
            let offsets = b.convert(inputs[at], S32);
            inputs[at] = b.dynamic_slice(offsets, &[first], &[each + 1]);
        }
        let made = grouped_gemm::lower(b, &local, &inputs);
        // A row is 0 on all devices but the one that has its expert.
        Ok(summed(b, made, &results, Axis::Experts))
    })
}

/// Appends an operation on a stack of matrices that is divided along `experts`.
fn matrices(
    b: &Builder,
    mesh: &Mesh,
    operation: &Quantize,
    inputs: &[Value],
) -> Result<Vec<Value>, CallError> {
    let places = mesh.places(Axis::Experts);
    let mut local = operation.clone();
    let mut axis = Some(Axis::Experts);
    match &mut local {
        Quantize::Amax { shape, .. }
            if shape
                .first()
                .is_some_and(|first| first.is_multiple_of(places)) =>
        {
            shape[0] /= places;
            axis = None;
        }
        Quantize::Quantize(p)
        | Quantize::QuantizeBy(p)
        | Quantize::Dequantize(p)
        | Quantize::FakeQuantize(p)
        | Quantize::FakeQuantizeBy(p)
            if p.shape()[0].is_multiple_of(places) =>
        {
            let [matrices, rows, columns] = p.shape();
            let shape = [matrices / places, rows, columns];
            let fewer = quantize::Problem::new(shape, p.element(), p.granularity(), p.format())?;
            *p = fewer.with_overflow(p.overflow()).with_margin(p.margin())?;
        }
        _ => return apart(b, &operation.clone().into(), inputs),
    }
    let local = Operation::from(local);
    let operands: Vec<_> = inputs.iter().map(|x| (*x, Some(Axis::Experts))).collect();
    let results = vec![axis; local.signature().results.len()];
    b.part(&operands, &results, |b, inputs| {
        let made = whole(b, &local, inputs)?.into_iter();
        let made = made.map(|value| match axis {
            Some(_) => value,
            None => b.combined_over(Reduction::Max, value, &[Axis::Experts]),
        });
        Ok(made.collect())
    })
}

/// An operation on one place's share of tokens, rows or sequences.
struct Share {
    local: Operation,
    /// The operands that don't have them as first dimension, and the results that are sums over them.
    whole: Vec<&'static str>,
}

impl Share {
    /// The share of each place along `data`; `None` if an operation isn't divided.
    fn of(operation: &Operation, mesh: &Mesh) -> Result<Option<Self>, Mismatch> {
        let part = |count| share_of(count, mesh.places(Axis::Data));
        let made = |local: Operation, whole: &[&'static str]| {
            let whole = whole.to_vec();
            Ok(Some(Self { local, whole }))
        };
        match operation {
            Operation::Routing(routing) => {
                let mut local = *routing;
                let (Routing::Logits { problem: p, .. }
                | Routing::Route { problem: p, .. }
                | Routing::RouteBackward { problem: p, .. }) = &mut local
                else {
                    return Ok(None);
                };
                let Some(tokens) = part(p.tokens()) else {
                    return Ok(None);
                };
                *p = p.with_tokens(tokens)?;
                made(local.into(), &["Wg", "mask", "bias", "dWg"])
            }
            Operation::Experts(experts) => {
                let mut local = *experts;
                let (Experts::Forward { problem: p, .. } | Experts::Backward { problem: p, .. }) =
                    &mut local;
                let Some(rows) = part(p.row_bound) else {
                    return Ok(None);
                };
                (p.routing, p.row_bound) = (p.routing.with_tokens(rows)?, rows);
                made(local.into(), &STACKS)
            }
            Operation::GroupedGemm(product) => {
                let mut local = *product;
                let (GroupedGemm::Linear(p)
                | GroupedGemm::LinearBackward { problem: p, .. }
                | GroupedGemm::CodedLinear(p)
                | GroupedGemm::CodedLinearBackward { problem: p, .. }) = &mut local
                else {
                    return Ok(None);
                };
                let Some(rows) = part(p.row_bound) else {
                    return Ok(None);
                };
                (p.slots, p.row_bound) = (rows, rows);
                made(local.into(), &STACKS)
            }
            Operation::Attention(attention) => Self::of_attention(attention, mesh),
            Operation::KvCache(KvCache::Attend(attend)) => {
                let whole = attend.attention();
                let Some(batch) = part(whole.sizes().batch) else {
                    return Ok(None);
                };
                let local = of_sequences(whole, batch)?;
                let local = Attend::new(local, *attend.layout(), attend.table())?;
                let tables = ["pool", "slopes", "relative", "sinks"];
                made(KvCache::Attend(local).into(), &tables)
            }
            _ => Ok(None),
        }
    }

    /// The share of an attention. A dropout depends on the number of a sequence, so an attention with one isn't divided.
    fn of_attention(of: &Attention, mesh: &Mesh) -> Result<Option<Self>, Mismatch> {
        let (problem, rules) = (&of.problem, of.problem.rules());
        let batch = share_of(problem.sizes().batch, mesh.places(Axis::Data));
        let Some(batch) = batch.filter(|_| !problem.dropout()) else {
            return Ok(None);
        };
        let shared = |table: Option<attention::Pattern>| table.is_some_and(|table| !table.batch);
        let mut whole = vec!["blocks", "slopes", "relative", "sinks"];
        whole.extend(["drelative", "dsinks"]);
        if shared(rules.mask()) {
            whole.push("mask");
        }
        if shared(rules.bias()) {
            whole.extend(["bias", "dbias"]);
        }
        let local = Attention {
            problem: of_sequences(problem, batch)?,
            ..*of
        };
        Ok(Some(Self {
            local: local.into(),
            whole,
        }))
    }

    fn lower(&self, b: &Builder, inputs: &[Value]) -> Result<Vec<Value>, CallError> {
        let axis = |name: &str| (!self.whole.contains(&name)).then_some(Axis::Data);
        let (operands, results) = divided_by(&self.local.signature(), inputs, axis);
        b.part(&operands, &results, |b, inputs| {
            let made = whole(b, &self.local, inputs)?;
            Ok(summed(b, made, &results, Axis::Data))
        })
    }
}

/// An attention over `batch` sequences.
fn of_sequences(
    problem: &attention::Problem,
    batch: usize,
) -> Result<attention::Problem, Mismatch> {
    problem.with_sizes(Sizes {
        batch,
        ..*problem.sizes()
    })
}
