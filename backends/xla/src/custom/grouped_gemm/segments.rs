//! Rows in the order of their experts, walked block by block, and the product of a block's rows.
//!
//! Row r of a sorted buffer \[R, …\] belongs to expert e if offsets\[e\] ≤ r < offsets\[e+1\]; the rows past the last
//! expert's belong to none. [`Segments::walk`] loops over the experts that have rows and, inside, over blocks of B
//! rows: an expert's matrices are taken from their stack once, and the work grows with the number of rows, not with
//! experts × rows. The number of rounds is known only on the device; B is a constant.
//!
//! B is [`BLOCK`] or [`BLOCK_OF_SUMS`] whatever the batch: a product of fixed shape gives a row the same bits wherever
//! the row lies in its block, so that an output doesn't depend on the other tokens. (Products of different shapes give
//! different bits: on the CPU plugin those of 1 to 100 rows and those of more differ in the last bit.)

use crate::custom::values::{along, element_at, pad_end, rows_where, starts};
use crate::stablehlo::{Along, Builder, DotDims, Reduction, Value};
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

/// The rows of a block, B: a multiple of every number of rows that the CPU plugin's products process at once, so that
/// there is no remainder, which would be summed in another order. oneDNN's kernels, which Eigen's products use, process
/// 6, 8, 16 or 48 rows depending on the processor, and Eigen splits products among threads at multiples of 24 or 48
/// rows; for a product with one column XLA itself processes 8 or 16 rows. With 128, the last two rows differ on
/// processors without AVX-512. On average, half of an expert's last block is wasted.
const BLOCK: usize = 96;

/// The rows of a block that also adds to sums: more than [`BLOCK`], because the sums are read and written once for each
/// block.
const BLOCK_OF_SUMS: usize = 144;

/// The largest number of blocks of `block` rows that `rows` rows in `segments` segments can need.
pub(in crate::custom) fn most_blocks(rows: usize, segments: usize, block: usize) -> usize {
    ((rows + segments * (block - 1)) / block).min(rows)
}

/// The segments of sorted rows that belong to the experts.
pub(in crate::custom) struct Segments<'b> {
    b: &'b Builder,
    rows: usize,
    experts: usize,
    /// Where each expert's rows begin, and the last one's end: i32 \[E+1\].
    offsets: Value,
}

/// A block of rows of one expert.
pub(in crate::custom) struct Block<'b> {
    b: &'b Builder,
    /// The number of rows, B.
    size: usize,
    /// The row where the block is read and written: moved back if the block would end past the last row.
    start: Value,
    /// Whether each row is the expert's, \[B\].
    valid: Value,
}

impl<'b> Segments<'b> {
    /// The segments of at most `rows` sorted rows, by `offsets` \[E+1\].
    pub(in crate::custom) fn new(b: &'b Builder, rows: usize, offsets: Value) -> Self {
        let experts = b.shape(offsets)[0] - 1;
        Self {
            b,
            rows,
            experts,
            offsets: b.convert(offsets, S32),
        }
    }

    /// The experts that have rows, in order, and their number.
    fn occupied(&self) -> (Value, Value) {
        let (b, e) = (self.b, self.experts);
        let first = b.slice_dim(self.offsets, 0, 0..e);
        let some = b.convert(b.gt(b.slice_dim(self.offsets, 0, 1..e + 1), first), S32);
        let upto = b.cumulative(Reduction::Sum, some, 0);
        let count = b.sum(some, &[0]);
        // The j-th occupied expert is preceded by every expert up to which at most j are occupied.
        let square = TensorType::new([e, e], S32);
        let before = b.le(along(b, upto, &square.shape, 1), b.iota(square, 0));
        (b.sum(b.convert(before, S32), &[1]), count)
    }

    /// Runs `body` on every block. `body` gets the expert's matrices from `stacks` \[E, …\], and returns the block's
    /// rows \[B, …\], then its sums, f32. The results are all rows \[R, …\], 0 where a row has no expert, then sums
    /// \[E, …\]. `rows` are the types of the rows, `sums` the types of the sums without the dimension of the experts.
    pub(in crate::custom) fn walk(
        &self,
        stacks: &[Value],
        rows: &[TensorType],
        sums: &[TensorType],
        body: impl FnOnce(&Block, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.walk_prepared(stacks, (rows, sums), |matrices| matrices, body)
    }

    /// As [`Segments::walk`], but `body` gets what `prepare` makes of an expert's matrices, once, before the expert's
    /// blocks.
    pub(in crate::custom) fn walk_prepared(
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
        // Make room for one block, however few rows there are.
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
            let expert = element_at(b, experts, j);
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

    /// The type of the stacked sums of all experts.
    fn stack(&self, ty: &TensorType) -> TensorType {
        ty.with_shape([&[self.experts], ty.shape.as_slice()].concat())
    }

    /// Runs `body` on the blocks of one expert, of `size` rows each; the first `rows` values of the state are rows, the
    /// others sums.
    fn blocks(
        &self,
        (size, rows, expert): (usize, usize, Value),
        state: &[Value],
        body: impl FnOnce(&Block) -> Vec<Value>,
    ) -> Vec<Value> {
        let b = self.b;
        let next = b.add(expert, b.scalar(1.0, S32));
        let (first, last) = (
            element_at(b, self.offsets, expert),
            element_at(b, self.offsets, next),
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

    /// The block that begins at row `start`, of an expert whose rows end before row `last`.
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
    /// The block's rows of `x` \[R, …\]; those that aren't the expert's hold anything.
    pub(in crate::custom) fn rows(&self, x: Value) -> Value {
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

    /// `rows` with 0 where a row isn't the expert's, as products that sum over rows need.
    pub(in crate::custom) fn masked(&self, rows: Value) -> Value {
        rows_where(self.b, self.valid, rows)
    }

    /// `x` \[R, …\] with the expert's rows of the block written.
    fn write(&self, x: Value, rows: Value) -> Value {
        let (b, old) = (self.b, self.rows(x));
        let shape = b.shape(rows);
        let rows = b.select(along(b, self.valid, &shape, 0), rows, old);
        b.dynamic_update_slice(x, rows, &starts(b, self.start, 0, shape.len()))
    }
}

/// Matrix `expert` of a stack.
fn matrix(b: &Builder, stack: Value, expert: Value) -> Value {
    let mut sizes = b.shape(stack);
    sizes[0] = 1;
    let one = b.dynamic_slice(stack, &starts(b, expert, 0, sizes.len()), &sizes);
    b.reshape(one, &sizes[1..])
}

/// A block's rows \[B,k\] times a matrix, f32 \[B,n\]; `dims` says how the matrix lies. The matrix is put on the left
/// and the rows become columns on its right, because on processors XLA's products of a few rows by a large matrix take
/// twice as long the other way round (84 and 158 GFLOP/s for 144 rows of 512 with 2048 × 512 on two Zen 4 cores);
/// without the barrier XLA would swap them back. A single output column gets a second one of zeros: XLA fuses a product
/// of a matrix and a vector into the loops around it, and sums in an order that depends on those.
pub(in crate::custom) fn product(b: &Builder, rows: Value, matrix: Value, dims: &DotDims) -> Value {
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

/// rows · Wᵀ + bias, in f32.
pub(in crate::custom) fn affine(b: &Builder, rows: Value, w: Value, bias: Option<Value>) -> Value {
    let sums = product(b, rows, w, &DotDims::matmul_transposed(0));
    match bias {
        Some(bias) => b.add(sums, Along(b.convert(bias, F32), [1])),
        None => sums,
    }
}
