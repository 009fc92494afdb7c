//! Router logits, the choice of experts, and counts of choices: [`moebius_ops::routing`].

mod backward;
mod best;
mod choose;
pub(super) mod hash;

use super::grouped_gemm::product::product as block_product;
use super::grouped_gemm::segments::Segments;
use super::values::words;
use crate::stablehlo::{Builder, DotDims, Value};
use moebius_ops::Routing;
use moebius_ops::routing::LoadProblem;
use moebius_pjrt::ElementType::{self, F32, S32};
use moebius_pjrt::TensorType;

/// Appends the operation and returns its results.
pub(super) fn lower(b: &Builder, operation: &Routing, inputs: &[Value]) -> Vec<Value> {
    match operation {
        Routing::Logits {
            hidden,
            backward: true,
            ..
        } => logits_backward(b, *hidden, inputs),
        Routing::Logits { problem, .. } => {
            let dims = DotDims::matmul_transposed(0);
            let operands = [inputs[0], inputs[1]];
            vec![product(b, operands, &dims, problem.experts())]
        }
        Routing::Route {
            problem,
            mask,
            bias,
        } => choose::route(b, problem, (*mask, *bias), inputs),
        Routing::RouteBackward { problem, mask, of } => {
            vec![backward::through(b, problem, (*mask, *of), inputs)]
        }
        Routing::Hash { problem, seed, .. } => hash::hash(b, problem, *seed, inputs),
        Routing::Load(problem) => vec![load(b, problem, inputs[0])],
    }
}

/// A product of rows \[T,…\] and Wg \[E,H\], f32 \[T, `columns`\]: in blocks of one shape, as if all rows were of one
/// expert, so that a token's don't depend on the others.
fn product(b: &Builder, [rows, w]: [Value; 2], dims: &DotDims, columns: usize) -> Value {
    let (tokens, shape) = (b.shape(rows)[0], b.shape(w));
    let w = b.reshape(w, &[&[1], shape.as_slice()].concat());
    let all = b.integers(&[0, tokens as i64], S32);
    let (segments, ty) = (Segments::new(b, tokens, all), [tokens, columns]);
    let results = segments.walk(&[w], &[TensorType::new(ty, F32)], &[], |block, matrices| {
        vec![block_product(b, block.rows(rows), matrices[0], dims)]
    });
    results[0]
}

fn logits_backward(b: &Builder, hidden: usize, inputs: &[Value]) -> Vec<Value> {
    let (x, w, dlogits) = (inputs[0], inputs[1], inputs[2]);
    let types = [b.element(x), b.element(w)];
    let [x, w] = [x, w].map(|value| b.convert(value, F32));
    let dx = product(b, [dlogits, w], &DotDims::matmul(0), hidden);
    let dw = b.dot(dlogits, x, &DotDims::batched(0, 0, 0), F32);
    vec![b.convert(dx, types[0]), b.convert(dw, types[1])]
}

fn load(b: &Builder, p: &LoadProblem, indices: Value) -> Value {
    let (groups, experts) = (p.groups(), p.routing().experts());
    let all = vec![groups, p.tokens() * p.choices(), experts];
    if all.contains(&0) {
        return b.splat(0.0, TensorType::new([groups, experts], S32));
    }
    let indices = b.reshape(b.slice_dim(words(b, indices), 1, 0..p.choices()), &all[..2]);
    let indices = b.broadcast(indices, &all, &[0, 1]);
    let expert = b.iota(TensorType::new(all, ElementType::U32), 2);
    b.sum(b.convert(b.eq(indices, expert), S32), &[1])
}
