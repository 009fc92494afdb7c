//! Flex's tensors as slices, and the products its operations are made of.

use super::tensors::{Named, Value};
use burn::backend::ops::FloatTensorOps;
use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, Slice, TensorData};

pub(super) type Rows = FloatTensor<Flex>;
pub(super) type Words = IntTensor<Flex>;

/// The operands of a call by their names.
pub(super) type Operands = Named<Value<Flex>>;

impl Operands {
    pub(super) fn float(&mut self, name: &str) -> Rows {
        self.take(name).float()
    }

    pub(super) fn word(&mut self, name: &str) -> Words {
        self.take(name).word()
    }

    pub(super) fn maybe_float(&mut self, name: &str) -> Option<Rows> {
        self.maybe(name).map(Value::float)
    }

    pub(super) fn maybe_word(&mut self, name: &str) -> Option<Words> {
        self.maybe(name).map(Value::word)
    }
}

pub(super) fn floats(tensor: Rows) -> Vec<f32> {
    let tensor = Flex::float_cast(tensor, FloatDType::F32).to_contiguous();
    tensor.storage::<f32>().to_vec()
}

/// The 32-bit words of an integer tensor.
pub(super) fn words(tensor: Words) -> Vec<u32> {
    let tensor = tensor.to_contiguous();
    match tensor.dtype() {
        DType::I64 => tensor.storage::<i64>().iter().map(|w| *w as u32).collect(),
        DType::U32 => tensor.storage::<u32>().to_vec(),
        _ => tensor.storage::<i32>().iter().map(|w| *w as u32).collect(),
    }
}

pub(super) fn int_tensor(words: &[u32], shape: &[usize]) -> Words {
    let words: Vec<i32> = words.iter().map(|w| *w as i32).collect();
    Flex::int_from_data(TensorData::new(words, shape.to_vec()), &Default::default())
}

pub(super) fn float_tensor(values: Vec<f32>, shape: &[usize]) -> Rows {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &Default::default())
}

/// Values in another tensor's dtype.
pub(super) fn cast_like(values: Rows, dtype: DType) -> Rows {
    let to = match dtype {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => FloatDType::F32,
    };
    if values.dtype() == dtype {
        return values;
    }
    Flex::float_cast(values, to)
}

pub(super) fn to_f32(tensor: Rows) -> Rows {
    cast_like(tensor, DType::F32)
}

/// Rows below which Flex's matmul may sum in another order than above.
///
/// Its gemm crate turns one row into a matrix-vector product, sums products of at most 16 × 16
/// outputs across the vector lanes, and cuts k > 512 differently when rows and columns are at most
/// 64. Padding keeps a token's output independent of its batch.
fn fewest_rows(columns: usize, k: usize) -> usize {
    let beyond_small = 256 / columns + 1;
    let beyond_blocks = if columns <= 64 && k > 512 { 65 } else { 2 };
    beyond_small.max(beyond_blocks)
}

/// a · b, a row's result independent of the other rows.
pub(super) fn matmul(a: Rows, b: Rows) -> Rows {
    let (rows, k, columns) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let padding = fewest_rows(columns, k).saturating_sub(rows);
    if padding == 0 {
        return Flex::float_matmul(a, b);
    }
    let zeros = Flex::float_zeros(Shape::from([padding, k]), &a.device(), FloatDType::F32);
    let product = Flex::float_matmul(Flex::float_cat(vec![a, zeros], 0), b);
    rows_of(product, 0, rows)
}

/// a · bᵀ.
pub(super) fn matmul_transposed(a: Rows, b: Rows) -> Rows {
    matmul(a, transpose(b))
}

pub(super) fn transpose(a: Rows) -> Rows {
    Flex::float_swap_dims(a, 0, 1)
}

pub(super) fn rows_of(matrix: Rows, from: usize, to: usize) -> Rows {
    Flex::float_slice(matrix, &[Slice::from(from..to), Slice::full()])
}

pub(super) fn columns_of(matrix: Rows, from: usize, to: usize) -> Rows {
    Flex::float_slice(matrix, &[Slice::full(), Slice::from(from..to)])
}

pub(super) fn select_rows(matrix: Rows, rows: &[u32]) -> Rows {
    Flex::float_select(matrix, 0, int_tensor(rows, &[rows.len()]))
}

/// Matrix `e` of a stack, in f32.
pub(super) fn expert(stack: Rows, e: usize) -> Rows {
    let shape = stack.shape();
    let one = Slice::from(e..e + 1);
    let matrix = Flex::float_slice(stack, &[one, Slice::full(), Slice::full()]);
    to_f32(Flex::float_reshape(
        matrix,
        Shape::from([shape[1], shape[2]]),
    ))
}

/// Row `e` of a matrix of biases, in f32.
pub(super) fn expert_row(biases: &Option<Rows>, e: usize) -> Option<Rows> {
    biases.clone().map(|b| to_f32(rows_of(b, e, e + 1)))
}

pub(super) fn add_bias(rows: Rows, bias: Option<Rows>) -> Rows {
    match bias {
        Some(bias) => Flex::float_add(rows, bias),
        None => rows,
    }
}
