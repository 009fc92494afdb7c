//! Rows in the order of their experts, walked block by block.
//!
//! Row r of a sorted buffer \[R, …\] belongs to expert e if offsets\[e\] ≤ r < offsets\[e+1\]; the rows
//! past the last expert's belong to none. [`Segments::walk`] is a loop over the experts that have
//! rows, and in it one over blocks of B rows: an expert's matrices are taken from their stack once,
//! and what is computed grows with the rows that are there, not with experts × rows. The number of
//! rounds is the device's to know; only B is a constant.
//!
//! B is [`BLOCK`] or [`BLOCK_OF_SUMS`] whatever the batch: products of one shape give a row the same bits wherever it lies in a
//! block of that many rows, so that an output doesn't depend on the other tokens. (Of other shapes they
//! don't: on the CPU plugin products of 1 to 100 rows and those of more differ in the last bit.)

mod fp8;
mod linear;

use super::fp8::pad_end;
use super::{along, rows_where, words};
use crate::stablehlo::{Builder, DotDims, Reduction, Value};
use moebius_ops::GroupedGemm;
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

pub(super) fn lower(b: &Builder, operation: &GroupedGemm, inputs: &[Value]) -> Vec<Value> {
    match operation {
        GroupedGemm::Linear(problem) => linear::forward(b, problem, inputs),
        GroupedGemm::LinearBackward {
            problem,
            rows,
            w,
            bias,
        } => linear::backward(b, problem, [*rows, *w, *bias], inputs),
        GroupedGemm::Fp8Linear(problem) => vec![fp8::forward(b, problem, inputs)],
        GroupedGemm::Fp8Codes(_) => unreachable!("refused before it is lowered"),
    }
}

/// Rows of a block B: a multiple of every number of rows that the CPU plugin's products take at once, so that
/// it leaves no rest, which would be summed in another order. oneDNN's kernels, of which Eigen makes
/// products, take 6, 8, 16 or 48 by the processor, and Eigen cuts products for threads at multiples of 24
/// or 48; of a product with one column XLA itself takes 8 or 16 rows. With 128, the last two rows differ
/// on processors without AVX-512. An expert's last block computes half of its rows in vain, on average.
const BLOCK: usize = 96;

/// The same where blocks add to sums, which are read and written once for each.
const BLOCK_OF_SUMS: usize = 144;

/// The most blocks of `block` rows that `rows` rows in so many `segments` can need.
pub(super) fn most_blocks(rows: usize, segments: usize, block: usize) -> usize {
    ((rows + segments * (block - 1)) / block).min(rows)
}

/// The experts' segments of sorted rows.
pub(super) struct Segments<'b> {
    b: &'b Builder,
    rows: usize,
    experts: usize,
    /// i32 \[E+1\].
    offsets: Value,
}

/// A block of rows of one expert.
pub(super) struct Block<'b> {
    b: &'b Builder,
    /// Its rows B.
    size: usize,
    /// Where it is read and written: moved inside if it would end outside.
    start: Value,
    /// \[B\]: whether a row is the expert's.
    valid: Value,
}

impl<'b> Segments<'b> {
    /// Segments of `rows` sorted rows at most, by `offsets` \[E+1\].
    pub(super) fn new(b: &'b Builder, rows: usize, offsets: Value) -> Self {
        let experts = b.shape(offsets)[0] - 1;
        Self {
            b,
            rows,
            experts,
            offsets: b.convert(offsets, S32),
        }
    }

    /// The experts that have rows, in order, and how many they are.
    fn occupied(&self) -> (Value, Value) {
        let (b, e) = (self.b, self.experts);
        let first = b.slice_dim(self.offsets, 0, 0..e);
        let some = b.convert(b.gt(b.slice_dim(self.offsets, 0, 1..e + 1), first), S32);
        let upto = b.cumulative(Reduction::Sum, some, 0);
        let count = b.sum(some, &[0]);
        // The j-th has as many experts before it as have at most j occupied ones up to themselves.
        let square = TensorType::new([e, e], S32);
        let before = b.le(along(b, upto, &square.shape, 1), b.iota(square, 0));
        (b.sum(b.convert(before, S32), &[1]), count)
    }

    /// Runs `body` on every block. It gets the expert's matrices, of `stacks` \[E, …\], and returns
    /// the block's rows \[B, …\], then its sums, f32. The results are all rows \[R, …\], 0 where
    /// they have no expert, then sums \[E, …\]. `rows` are the types of the rows, `sums` those of
    /// the sums without the dimension of the experts.
    pub(super) fn walk(
        &self,
        stacks: &[Value],
        rows: &[TensorType],
        sums: &[TensorType],
        body: impl FnOnce(&Block, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.walk_prepared(stacks, (rows, sums), |matrices| matrices, body)
    }

    /// The same with what `prepare` makes of an expert's matrices, once, before its blocks.
    pub(super) fn walk_prepared(
        &self,
        stacks: &[Value],
        (rows, sums): (&[TensorType], &[TensorType]),
        prepare: impl FnOnce(Vec<Value>) -> Vec<Value>,
        body: impl FnOnce(&Block, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let b = self.b;
        let size = if sums.is_empty() {
            BLOCK
        } else {
            BLOCK_OF_SUMS
        };
        if self.rows == 0 {
            let sums = sums.iter().map(|ty| self.stack(ty));
            let empty = rows.iter().cloned().chain(sums);
            return empty.map(|ty| b.splat(0.0, ty)).collect();
        }
        // Room for a block, however few rows there are.
        let roomy = rows.iter().map(|ty| {
            let mut shape = ty.shape.clone();
            shape[0] = shape[0].max(size);
            ty.with_shape(shape)
        });
        let stacked = sums.iter().map(|ty| self.stack(ty));
        let state = roomy.chain(stacked).map(|ty| b.splat(0.0, ty));
        let state: Vec<Value> = state.collect();
        let (experts, count) = self.occupied();
        let rows = rows.len();
        let mut results = b.for_loop(count, &state, |b, j, state| {
            let expert = element(b, experts, j);
            let sums = sums.iter().map(|ty| b.splat(0.0, ty.clone()));
            let sums: Vec<Value> = sums.collect();
            let inner = [&state[..rows], &sums].concat();
            let matrices = stacks.iter().map(|s| matrix(b, *s, expert));
            let matrices = prepare(matrices.collect());
            let of = (size, rows, expert);
            let mut results = self.blocks(of, &inner, |block| body(block, &matrices));
            for (result, stack) in results[rows..].iter_mut().zip(&state[rows..]) {
                let shape = [&[1], b.shape(*result).as_slice()].concat();
                let one = b.reshape(*result, &shape);
                *result = b.dynamic_update_slice(*stack, one, &starts(b, expert, 0, shape.len()));
            }
            results
        });
        for result in &mut results[..rows] {
            *result = b.slice_dim(*result, 0, 0..self.rows);
        }
        results
    }

    /// The type of sums of every expert.
    fn stack(&self, ty: &TensorType) -> TensorType {
        ty.with_shape([&[self.experts], ty.shape.as_slice()].concat())
    }

    /// The blocks of one expert, of `size` rows each; the first `rows` values of the state are of rows.
    fn blocks(
        &self,
        (size, rows, expert): (usize, usize, Value),
        state: &[Value],
        body: impl FnOnce(&Block) -> Vec<Value>,
    ) -> Vec<Value> {
        let b = self.b;
        let next = b.add(expert, b.scalar(1.0, S32));
        let (first, last) = (
            element(b, self.offsets, expert),
            element(b, self.offsets, next),
        );
        let length = b.add(b.sub(last, first), (size - 1) as f64);
        let count = b.div(length, size as f64);
        let most = most_blocks(self.rows, self.experts, size) as u64;
        b.counted(most, |b| {
            b.for_loop(count, state, |b, i, state| {
                let block = self.block(size, b.add(first, b.mul(i, size as f64)), last);
                let mut results = body(&block);
                for (at, result) in results.iter_mut().enumerate() {
                    *result = if at < rows {
                        block.write(state[at], *result)
                    } else {
                        b.add(state[at], *result)
                    };
                }
                results
            })
        })
    }

    /// The block from row `start`, of an expert whose rows end at `last`.
    fn block(&self, size: usize, start: Value, last: Value) -> Block<'b> {
        let b = self.b;
        let most = b.scalar(self.rows.saturating_sub(size) as f64, S32);
        let inside = b.min(start, most);
        let ty = TensorType::new([size], S32);
        let row = b.add(b.iota(ty.clone(), 0), b.broadcast(inside, &ty.shape, &[]));
        let (start, last) = (
            b.broadcast(start, &ty.shape, &[]),
            b.broadcast(last, &ty.shape, &[]),
        );
        Block {
            b,
            size,
            start: inside,
            valid: b.and(b.ge(row, start), b.lt(row, last)),
        }
    }
}

impl Block<'_> {
    /// The block's rows of x \[R, …\]; those that aren't the expert's hold anything.
    pub(super) fn rows(&self, x: Value) -> Value {
        let b = self.b;
        let mut sizes = b.shape(x);
        let missing = self.size.saturating_sub(sizes[0]);
        sizes[0] = self.size;
        let mut x = x;
        if missing > 0 {
            let mut more = sizes.clone();
            more[0] = missing;
            x = b.concatenate(&[x, b.splat(0.0, b.ty(x).with_shape(more))], 0);
        }
        b.dynamic_slice(x, &starts(b, self.start, 0, sizes.len()), &sizes)
    }

    /// The rows, 0 where they aren't the expert's: a product that sums over rows needs it.
    pub(super) fn masked(&self, rows: Value) -> Value {
        rows_where(self.b, self.valid, rows)
    }

    /// x \[R, …\] with the expert's rows of the block written.
    fn write(&self, x: Value, rows: Value) -> Value {
        let (b, old) = (self.b, self.rows(x));
        let shape = b.shape(rows);
        let rows = b.select(along(b, self.valid, &shape, 0), rows, old);
        b.dynamic_update_slice(x, rows, &starts(b, self.start, 0, shape.len()))
    }
}

/// A block's rows \[B,k\] times a matrix, f32 \[B,n\]; `dims` says which way the matrix lies. The matrix stands left and
/// the rows are columns right of it, for on processors XLA's products of a few rows and a large matrix the other way round
/// take twice as long (84 and 158 GFLOP/s for 144 rows of 512 with 2048 × 512 on two Zen 4 cores); without the barrier XLA
/// would turn them back. A single column gets one of zeros beside it: XLA makes the product of a matrix and a vector part
/// of the loops around it, by what these are, and sums in another order there.
pub(super) fn product(b: &Builder, rows: Value, matrix: Value, dims: &DotDims) -> Value {
    let columns = 1 - dims.rhs_contract[0];
    let single = b.shape(matrix)[columns] == 1;
    let zero = b.scalar(0.0, b.element(matrix));
    let matrix = pad_end(b, matrix, zero, columns, usize::from(single));
    let turned = DotDims::batched(0, dims.rhs_contract[0], dims.lhs_contract[0]);
    let product = b.barrier(b.dot(matrix, rows, &turned, F32));
    let product = b.transpose(product, &[1, 0]);
    if single {
        b.slice_dim(product, 1, 0..1)
    } else {
        product
    }
}

/// Where a slice of a tensor of `rank` dimensions begins: `start` in dimension `dim`, 0 in the
/// others.
pub(super) fn starts(b: &Builder, start: Value, dim: usize, rank: usize) -> Vec<Value> {
    let mut starts = vec![b.scalar(0.0, S32); rank];
    starts[dim] = start;
    starts
}

/// Element `at` of a vector, a scalar.
pub(super) fn element(b: &Builder, x: Value, at: Value) -> Value {
    b.reshape(b.dynamic_slice(x, &[at], &[1]), &[])
}

/// Matrix `expert` of a stack.
fn matrix(b: &Builder, stack: Value, expert: Value) -> Value {
    let mut sizes = b.shape(stack);
    sizes[0] = 1;
    let one = b.dynamic_slice(stack, &starts(b, expert, 0, sizes.len()), &sizes);
    b.reshape(one, &sizes[1..])
}

/// y \[T, …\] f32: Σ_k w_tk · rows\[positions(t,k)\], in slot order; weights \[T,K\] are 1 if `None`. Slots
/// without a row add nothing, whatever their weight.
pub(super) fn combine(
    b: &Builder,
    rows: Value,
    positions: Value,
    weights: Option<Value>,
    [tokens, top_k]: [usize; 2],
) -> Value {
    let mut shape = b.shape(rows);
    let bound = shape[0];
    shape[0] = tokens;
    if bound == 0 || tokens == 0 {
        return b.splat(0.0, TensorType::new(shape, F32));
    }
    let positions = b.reshape(positions, &[tokens, top_k]);
    let weights = weights.map(|weights| b.convert(weights, F32));
    let column = |x, k| b.reshape(b.slice_dim(x, 1, k..k + 1), &[tokens]);
    let mut sum = None;
    for k in 0..top_k {
        let (found, taken) = row_of(b, rows, column(positions, k));
        let mut taken = b.convert(taken, F32);
        if let Some(weights) = weights {
            taken = b.mul(along(b, column(weights, k), &shape, 0), taken);
        }
        let taken = rows_where(b, found, taken);
        sum = Some(sum.map_or(taken, |sum| b.add(sum, taken)));
    }
    sum.unwrap_or_else(|| unreachable!("a token has a slot"))
}

/// Whether slots have a row, and the row, at `positions` \[n\]; any row where there is none.
pub(super) fn row_of(b: &Builder, rows: Value, positions: Value) -> (Value, Value) {
    let bound = b.shape(rows)[0];
    let words = words(b, positions);
    let found = b.lt(words, bound as f64);
    (found, b.take(rows, b.select(found, words, 0.0)))
}
