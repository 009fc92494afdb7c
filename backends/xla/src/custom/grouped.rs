//! Rows in the order of their experts, walked block by block.
//!
//! Row r of a sorted buffer \[R, …\] belongs to expert e if offsets\[e\] ≤ r < offsets\[e+1\]; the rows
//! past the last expert's belong to none. [`Segments::walk`] is a loop over the experts that have
//! rows, and in it one over blocks of B rows: an expert's matrices are taken from their stack once,
//! and what is computed grows with the rows that are there, not with experts × rows. The number of
//! rounds is the device's to know; only B is a constant.
//!
//! B is [`BLOCK`] whatever the batch: products of one shape give a row the same bits wherever it lies in a
//! block of that many rows, so that an output doesn't depend on the other tokens. (Of other shapes they
//! don't: on the CPU plugin products of 1 to 100 rows and those of more differ in the last bit.)

use super::fp8::pad_end;
use super::{along, rows_where, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, DotDims, Reduction, TensorType, Value};

/// Rows of a block B: a multiple of every number of rows that the CPU plugin's products take at once, so that
/// it leaves no rest, which would be summed in another order. oneDNN's kernels, of which Eigen makes
/// products, take 6, 8, 16 or 48 by the processor, and Eigen cuts products for threads at multiples of 24
/// or 48; of a product with one column XLA itself takes 8 or 16 rows. With 128, the last two rows differ
/// on processors without AVX-512.
const BLOCK: usize = 144;

/// The most blocks of `block` rows that `rows` rows in so many `segments` can need.
pub(super) fn most_blocks(rows: usize, segments: usize, block: usize) -> usize {
    ((rows + segments * (block - 1)) / block).min(rows)
}

/// The experts' segments of sorted rows.
pub(super) struct Segments {
    rows: usize,
    experts: usize,
    /// i32 \[E+1\].
    offsets: Value,
}

/// A block of rows of one expert.
pub(super) struct Block {
    /// Where it is read and written: moved inside if it would end outside.
    start: Value,
    /// \[B\]: whether a row is the expert's.
    valid: Value,
}

/// What a walk reads and writes.
pub(super) struct Pass<'a> {
    /// Stacks \[E, …\], of which a block gets its expert's matrix.
    pub(super) stacks: &'a [Value],
    /// Sorted rows \[R, …\] that it writes; rows without an expert are 0.
    pub(super) rows: &'a [TensorType],
    /// What it sums over the rows of an expert, without the dimension of the experts.
    pub(super) sums: &'a [TensorType],
}

impl Segments {
    /// Segments of `rows` sorted rows at most, by `offsets` \[E+1\].
    pub(super) fn new(b: &mut Builder, rows: usize, offsets: Value) -> Self {
        let experts = b.shape(offsets)[0] - 1;
        Self {
            rows,
            experts,
            offsets: b.convert(offsets, ElementType::S32),
        }
    }

    /// The first rows of a vector of slots.
    pub(super) fn of_rows(&self, b: &mut Builder, slots: Value) -> Value {
        b.slice_dim(slots, 0, 0..self.rows)
    }

    /// The experts that have rows, in order, and how many they are.
    fn occupied(&self, b: &mut Builder) -> (Value, Value) {
        let e = self.experts;
        let first = b.slice_dim(self.offsets, 0, 0..e);
        let last = b.slice_dim(self.offsets, 0, 1..e + 1);
        let some = b.compare(Compare::Gt, last, first);
        let some = b.convert(some, ElementType::S32);
        let upto = b.cumulative(Reduction::Sum, some, 0);
        let count = b.reduce(Reduction::Sum, some, &[0]);
        // The j-th has as many experts before it as have at most j occupied ones up to themselves.
        let square = TensorType::new([e, e], ElementType::S32);
        let upto = along(b, upto, &square.shape, 1);
        let j = b.iota(square, 0);
        let before = b.compare(Compare::Le, upto, j);
        let before = b.convert(before, ElementType::S32);
        (b.reduce(Reduction::Sum, before, &[1]), count)
    }

    /// Runs `body` on every block. It gets the expert's matrices and returns the block's rows \[B, …\],
    /// then its sums, f32. The results are all rows \[R, …\], then sums \[E, …\].
    pub(super) fn walk(
        &self,
        b: &mut Builder,
        pass: &Pass,
        body: impl FnOnce(&mut Builder, &Block, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.walk_prepared(b, pass, |_, matrices| matrices, body)
    }

    /// The same with what `prepare` makes of an expert's matrices, once, before its blocks.
    pub(super) fn walk_prepared(
        &self,
        b: &mut Builder,
        pass: &Pass,
        prepare: impl FnOnce(&mut Builder, Vec<Value>) -> Vec<Value>,
        body: impl FnOnce(&mut Builder, &Block, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        if self.rows == 0 {
            let rows = pass.rows.iter().cloned();
            let sums = pass.sums.iter().map(|ty| self.stack(ty));
            return rows.chain(sums).map(|ty| b.splat(0.0, ty)).collect();
        }
        // Room for a block, however few rows there are.
        let roomy = pass.rows.iter().map(|ty| {
            let mut shape = ty.shape.clone();
            shape[0] = shape[0].max(BLOCK);
            ty.with_shape(shape)
        });
        let sums = pass.sums.iter().map(|ty| self.stack(ty));
        let state: Vec<Value> = roomy.chain(sums).map(|ty| b.splat(0.0, ty)).collect();
        let (experts, count) = self.occupied(b);
        let rows = pass.rows.len();
        let mut results = b.for_loop(count, &state, |b, j, state| {
            let expert = element(b, experts, j);
            let sums: Vec<Value> = pass
                .sums
                .iter()
                .map(|ty| b.splat(0.0, ty.clone()))
                .collect();
            let inner = [&state[..rows], &sums].concat();
            let matrices = pass.stacks.iter().map(|s| matrix(b, *s, expert));
            let matrices = matrices.collect();
            let matrices = prepare(b, matrices);
            let mut results = self.blocks(b, (rows, expert), &inner, |b, block| {
                body(b, block, &matrices)
            });
            for (result, stack) in results[rows..].iter_mut().zip(&state[rows..]) {
                let shape = [&[1], b.shape(*result).as_slice()].concat();
                let one = b.reshape(*result, &shape);
                let starts = starts(b, expert, shape.len());
                *result = b.dynamic_update_slice(*stack, one, &starts);
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

    /// The blocks of one expert; the first `rows` values of the state are of rows.
    fn blocks(
        &self,
        b: &mut Builder,
        (rows, expert): (usize, Value),
        state: &[Value],
        body: impl FnOnce(&mut Builder, &Block) -> Vec<Value>,
    ) -> Vec<Value> {
        let one = b.scalar(1.0, ElementType::S32);
        let next = b.add(expert, one);
        let (first, last) = (
            element(b, self.offsets, expert),
            element(b, self.offsets, next),
        );
        let length = b.sub(last, first);
        let length = b.binary_scalar(Binary::Add, length, (BLOCK - 1) as f64);
        let count = b.binary_scalar(Binary::Divide, length, BLOCK as f64);
        let most = most_blocks(self.rows, self.experts, BLOCK) as u64;
        b.counted(most, |b| {
            b.for_loop(count, state, |b, i, state| {
                let before = b.binary_scalar(Binary::Multiply, i, BLOCK as f64);
                let start = b.add(first, before);
                let block = self.block(b, start, last);
                let mut results = body(b, &block);
                for (at, result) in results.iter_mut().enumerate() {
                    *result = match at < rows {
                        true => block.write(b, state[at], *result),
                        false => b.add(state[at], *result),
                    };
                }
                results
            })
        })
    }

    /// The block from row `start`, of an expert whose rows end at `last`.
    fn block(&self, b: &mut Builder, start: Value, last: Value) -> Block {
        let most = b.scalar(self.rows.saturating_sub(BLOCK) as f64, ElementType::S32);
        let inside = b.min(start, most);
        let ty = TensorType::new([BLOCK], ElementType::S32);
        let row = b.iota(ty.clone(), 0);
        let inside_row = b.broadcast(inside, &ty.shape, &[]);
        let row = b.add(row, inside_row);
        let (start, last) = (
            b.broadcast(start, &ty.shape, &[]),
            b.broadcast(last, &ty.shape, &[]),
        );
        let from = b.compare(Compare::Ge, row, start);
        let to = b.compare(Compare::Lt, row, last);
        Block {
            start: inside,
            valid: b.and(from, to),
        }
    }
}

impl Block {
    /// The block's rows of x \[R, …\]; those that aren't the expert's hold anything.
    pub(super) fn rows(&self, b: &mut Builder, x: Value) -> Value {
        let mut sizes = b.shape(x);
        let missing = BLOCK.saturating_sub(sizes[0]);
        sizes[0] = BLOCK;
        let mut x = x;
        if missing > 0 {
            let mut more = sizes.clone();
            more[0] = missing;
            let ty = b.ty(x).with_shape(more);
            let more = b.splat(0.0, ty);
            x = b.concatenate(&[x, more], 0);
        }
        let starts = starts(b, self.start, sizes.len());
        b.dynamic_slice(x, &starts, &sizes)
    }

    /// The rows, 0 where they aren't the expert's: a product that sums over rows needs it.
    pub(super) fn masked(&self, b: &mut Builder, rows: Value) -> Value {
        rows_where(b, self.valid, rows)
    }

    /// x \[R, …\] with the expert's rows of the block written.
    fn write(&self, b: &mut Builder, x: Value, rows: Value) -> Value {
        let old = self.rows(b, x);
        let shape = b.shape(rows);
        let valid = along(b, self.valid, &shape, 0);
        let rows = b.select(valid, rows, old);
        let starts = starts(b, self.start, shape.len());
        b.dynamic_update_slice(x, rows, &starts)
    }
}

/// A block's rows \[B,k\] times a matrix, f32 \[B,n\]; `dims` says which way the matrix lies. A single column gets
/// one of zeros beside it: XLA makes the product of a matrix and a vector part of the loops around it, by
/// what these are, and sums in another order there.
pub(super) fn product(b: &mut Builder, rows: Value, matrix: Value, dims: &DotDims) -> Value {
    let columns = 1 - dims.rhs_contract[0];
    let single = b.shape(matrix)[columns] == 1;
    let zero = b.scalar(0.0, b.element(matrix));
    let matrix = pad_end(b, matrix, zero, columns, usize::from(single));
    let product = b.dot(rows, matrix, dims, ElementType::F32);
    match single {
        true => b.slice_dim(product, 1, 0..1),
        false => product,
    }
}

/// `first` and zeros: where a slice of a tensor of `rank` dimensions begins.
fn starts(b: &mut Builder, first: Value, rank: usize) -> Vec<Value> {
    let zero = b.scalar(0.0, ElementType::S32);
    let mut starts = vec![zero; rank];
    starts[0] = first;
    starts
}

/// Element `at` of a vector, a scalar.
pub(super) fn element(b: &mut Builder, x: Value, at: Value) -> Value {
    let one = b.dynamic_slice(x, &[at], &[1]);
    b.reshape(one, &[])
}

/// Matrix `expert` of a stack.
fn matrix(b: &mut Builder, stack: Value, expert: Value) -> Value {
    let mut sizes = b.shape(stack);
    sizes[0] = 1;
    let starts = starts(b, expert, sizes.len());
    let one = b.dynamic_slice(stack, &starts, &sizes);
    b.reshape(one, &sizes[1..])
}

/// y \[T, …\] f32: Σ_k w_tk · rows\[positions(t,k)\], in slot order; weights \[T,K\] are 1 if `None`. Slots
/// without a row add nothing, whatever their weight.
pub(super) fn combine(
    b: &mut Builder,
    rows: Value,
    positions: Value,
    weights: Option<Value>,
    [tokens, top_k]: [usize; 2],
) -> Value {
    let mut shape = b.shape(rows);
    let bound = shape[0];
    shape[0] = tokens;
    if bound == 0 || tokens == 0 {
        return b.splat(0.0, TensorType::new(shape, ElementType::F32));
    }
    let positions = b.reshape(positions, &[tokens, top_k]);
    let weights = weights.map(|weights| b.convert(weights, ElementType::F32));
    let column = |b: &mut Builder, x: Value, k: usize| {
        let column = b.slice_dim(x, 1, k..k + 1);
        b.reshape(column, &[tokens])
    };
    let mut sum = None;
    for k in 0..top_k {
        let position = column(b, positions, k);
        let (found, taken) = row_of(b, rows, position);
        let mut taken = b.convert(taken, ElementType::F32);
        if let Some(weights) = weights {
            let weight = column(b, weights, k);
            let weight = along(b, weight, &shape, 0);
            taken = b.mul(weight, taken);
        }
        let taken = rows_where(b, found, taken);
        sum = Some(sum.map_or(taken, |sum| b.add(sum, taken)));
    }
    sum.unwrap_or_else(|| unreachable!("a token has a slot"))
}

/// Whether slots have a row, and the row, at `positions` \[n\]; any row where there is none.
pub(super) fn row_of(b: &mut Builder, rows: Value, positions: Value) -> (Value, Value) {
    let bound = b.shape(rows)[0];
    let words = words(b, positions);
    let found = b.compare_scalar(Compare::Lt, words, bound as f64);
    let zero = b.splat_like(0.0, words);
    let inside = b.select(found, words, zero);
    (found, b.take(rows, inside))
}
