//! Matrix products and convolutions.

use super::builder::list;
use super::{Builder, Value};
use moebius_pjrt::{ElementType, TensorType};

/// The dimensions that a [`Builder::dot`] pairs. The result has the batch dimensions, then the other dimensions of the
/// left side, then those of the right side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// Batch dimensions of the left side.
    pub lhs_batch: Vec<usize>,
    /// Batch dimensions of the right side, in the same order.
    pub rhs_batch: Vec<usize>,
    /// Dimensions of the left side that are summed over.
    pub lhs_contract: Vec<usize>,
    /// Dimensions of the right side that are summed over.
    pub rhs_contract: Vec<usize>,
}

impl DotDims {
    /// The dimensions of a matrix product \[…, m, k\] × \[…, k, n\] with `batch` leading dimensions.
    pub fn matmul(batch: usize) -> Self {
        Self::batched(batch, batch + 1, batch)
    }

    /// The dimensions of a matrix product \[…, m, k\] × \[…, n, k\]ᵀ with `batch` leading dimensions.
    pub fn matmul_transposed(batch: usize) -> Self {
        Self::batched(batch, batch + 1, batch + 1)
    }

    /// The dimensions of a product with `batch` leading dimensions, summed over dimension `lhs` of the left and `rhs`
    /// of the right side.
    pub fn batched(batch: usize, lhs: usize, rhs: usize) -> Self {
        Self {
            lhs_batch: (0..batch).collect(),
            rhs_batch: (0..batch).collect(),
            lhs_contract: vec![lhs],
            rhs_contract: vec![rhs],
        }
    }
}

/// The settings of a convolution of \[batch, channels, spatial…\] with \[out, channels / groups, spatial…\]; the lists
/// have an entry for each spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The distance from one window to the next, in elements.
    pub stride: Vec<usize>,
    /// The number of zeros before and after the input; negative numbers remove elements.
    pub padding: Vec<(i64, i64)>,
    /// The distance between elements of the input: 1 + the number of zeros inserted between them.
    pub lhs_dilation: Vec<usize>,
    /// The distance between the elements of a window.
    pub rhs_dilation: Vec<usize>,
    /// The number of groups of channels.
    pub groups: usize,
}

impl Builder {
    /// Sums products over the contracted dimensions; the result has type `element`. f32 is multiplied in full
    /// precision, while a TPU's default would be bf16.
    pub fn dot(&self, lhs: Value, rhs: Value, dims: &DotDims, element: ElementType) -> Value {
        let (left, right) = (self.ty(lhs), self.ty(rhs));
        let to = TensorType::new(dot_shape(&left, &right, dims), element);
        let depth: usize = dims.lhs_contract.iter().map(|d| left.shape[*d]).product();
        let more = 2 * (to.elements() * depth) as u64;
        self.flops.update(|flops| flops + more);
        let (lhs_batch, rhs_batch) = (list(&dims.lhs_batch), list(&dims.rhs_batch));
        let batch = if dims.lhs_batch.is_empty() {
            String::new()
        } else {
            format!("batching_dims = {lhs_batch} x {rhs_batch}, ")
        };
        let (contract, with) = (list(&dims.lhs_contract), list(&dims.rhs_contract));
        let precision = match left.element {
            ElementType::F32 => ", precision = [HIGHEST, HIGHEST]",
            _ => "",
        };
        let operation = format_args!(
            "stablehlo.dot_general {lhs}, {rhs}, {batch}contracting_dims = {contract} x {with}\
             {precision}"
        );
        self.typed(operation, &[lhs, rhs], to)
    }

    /// The convolution of `x` with `w`, in the element type of `x`.
    pub fn convolution(&self, x: Value, w: Value, conv: &Convolution) -> Value {
        let (from, weights) = (self.ty(x), self.ty(w));
        let spatial = from.rank() - 2;
        let extent = |d: usize| {
            let input = (from.shape[d + 2].saturating_sub(1) * conv.lhs_dilation[d]
                + usize::from(from.shape[d + 2] > 0)) as i64;
            let padded = input + conv.padding[d].0 + conv.padding[d].1;
            let span = ((weights.shape[d + 2] - 1) * conv.rhs_dilation[d] + 1) as i64;
            ((padded - span).div_euclid(conv.stride[d] as i64) + 1).max(0) as usize
        };
        let mut shape = vec![from.shape[0], weights.shape[0]];
        shape.extend((0..spatial).map(extent));
        let to = from.with_shape(shape);
        let window: usize = weights.shape[1..].iter().product();
        let more = 2 * (to.elements() * window) as u64;
        self.flops.update(|flops| flops + more);
        let numbers = (0..spatial).map(|d| format!(", {d}")).collect::<String>();
        let (stride, pads) = (list(&conv.stride), conv.padding.iter());
        let pads = list(pads.map(|(low, high)| format!("[{low}, {high}]")));
        let (lhs, rhs) = (list(&conv.lhs_dilation), list(&conv.rhs_dilation));
        let (forward, groups) = (list(vec!["false"; spatial]), conv.groups);
        let operation = format_args!(
            "stablehlo.convolution({x}, {w}) dim_numbers = [b, f{numbers}]x[o, i{numbers}]->[b, f{numbers}], \
             window = {{stride = {stride}, pad = {pads}, lhs_dilate = {lhs}, rhs_dilate = {rhs}, reverse = {forward}}} \
             {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64, \
             precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}}"
        );
        self.typed(operation, &[x, w], to)
    }
}

fn dot_shape(left: &TensorType, right: &TensorType, dims: &DotDims) -> Vec<usize> {
    let free = |ty: &TensorType, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        let free = (0..ty.rank()).filter(|d| !batch.contains(d) && !contract.contains(d));
        free.map(|d| ty.shape[d]).collect()
    };
    let mut shape: Vec<usize> = dims.lhs_batch.iter().map(|d| left.shape[*d]).collect();
    shape.extend(free(left, &dims.lhs_batch, &dims.lhs_contract));
    shape.extend(free(right, &dims.rhs_batch, &dims.rhs_contract));
    shape
}
