//! Conversions between Flex's tensors and slices.

use super::dtype;
use super::tensors::{Named, Value};
use burn::backend::ops::FloatTensorOps;
use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, TensorData};
use moebius_host::casts;
use moebius_host::permute::Segments;
use moebius_host::{Matrices, Values};
use moebius_ops::TensorInfo;
use std::borrow::Cow;

pub(super) type Rows = FloatTensor<Flex>;
pub(super) type Words = IntTensor<Flex>;

/// The operands of a call, by name.
pub(super) type Operands = Named<Value<Flex>>;

impl Operands {
    pub(super) fn float(&mut self, name: &str) -> Rows {
        self.take(name).float()
    }

    pub(super) fn word(&mut self, name: &str) -> Words {
        self.take(name).word()
    }

    pub(super) fn maybe_float(&mut self, name: &str) -> Option<Rows> {
        self.maybe_take(name).map(Value::float)
    }

    pub(super) fn maybe_word(&mut self, name: &str) -> Option<Words> {
        self.maybe_take(name).map(Value::word)
    }
}

/// Contiguous f32 values, or no values.
pub(super) struct Floats(Option<Rows>);

impl Floats {
    pub(super) fn of(b: &mut Operands, name: &str) -> Self {
        let tensor = b.maybe_float(name);
        Self(tensor.map(|tensor| contiguous(to_f32(tensor))))
    }

    pub(super) fn values(&self) -> &[f32] {
        self.maybe().unwrap_or_default()
    }

    pub(super) fn maybe(&self) -> Option<&[f32]> {
        self.0.as_ref().map(|tensor| tensor.storage::<f32>())
    }
}

/// Returns a tensor whose memory holds its values, in order and nothing else; only another one is copied. Burn's own `to_contiguous` makes a
/// second handle of the tensor in either case.
pub(super) fn contiguous(tensor: Rows) -> Rows {
    let layout = tensor.layout();
    let bytes = layout.num_elements() * tensor.dtype().size();
    if layout.is_contiguous() && layout.start_offset() == 0 && tensor.bytes().len() == bytes {
        return tensor;
    }
    tensor.to_contiguous()
}

pub(super) fn floats(tensor: Rows) -> Vec<f32> {
    let tensor = contiguous(to_f32(tensor));
    tensor.storage::<f32>().to_vec()
}

/// Returns the words of an integer tensor as u32.
pub(super) fn words(tensor: Words) -> Vec<u32> {
    let tensor = contiguous(tensor);
    match tensor.dtype() {
        DType::I64 => tensor.storage::<i64>().iter().map(|w| *w as u32).collect(),
        DType::U32 => tensor.storage::<u32>().to_vec(),
        _ => tensor.storage::<i32>().iter().map(|w| *w as u32).collect(),
    }
}

/// Returns the words of a contiguous tensor; borrows them if they are i32, as Burn's integers are here.
pub(super) fn signed_words(tensor: &Words) -> Cow<'_, [i32]> {
    match tensor.dtype() {
        DType::I32 => Cow::Borrowed(tensor.storage::<i32>()),
        _ => words(tensor.clone())
            .iter()
            .map(|word| *word as i32)
            .collect(),
    }
}

/// A result computed on slices.
pub(super) enum Computed {
    Floats(Vec<f32>),
    Words(Vec<u32>),
    /// The tensor of an operand that was changed in place.
    Changed(Words),
}

impl From<Vec<f32>> for Computed {
    fn from(values: Vec<f32>) -> Self {
        Self::Floats(values)
    }
}

impl From<Vec<u32>> for Computed {
    fn from(words: Vec<u32>) -> Self {
        Self::Words(words)
    }
}

impl Computed {
    /// Returns the result as a tensor of the shape and type of its description.
    pub(super) fn into_tensor(self, info: &TensorInfo) -> Value<Flex> {
        match self {
            Self::Floats(values) => {
                let values = float_tensor(values, &info.shape);
                Value::Float(cast_like(values, dtype(info.scalar)))
            }
            Self::Words(words) => {
                let words: Vec<i32> = words.into_iter().map(|word| word as i32).collect();
                let data = TensorData::new(words, info.shape.iter().copied());
                Value::Word(Flex::int_from_data(data, &Default::default()))
            }
            Self::Changed(tensor) => Value::Word(tensor),
        }
    }
}

pub(super) fn float_tensor(values: Vec<f32>, shape: &[usize]) -> Rows {
    let data = TensorData::new(values, shape.iter().copied());
    Flex::float_from_data(data, &Default::default())
}

/// Casts values to `dtype`, which is f32, f16 or bf16. Burn's own casts take one value after the other.
pub(super) fn cast_like(values: Rows, dtype: DType) -> Rows {
    if values.dtype() == dtype {
        return values;
    }
    let values = contiguous(values);
    let shape = values.shape();
    let data = match (values.dtype(), dtype) {
        (DType::F32, DType::F16) => TensorData::new(casts::to_f16(values.storage()), shape),
        (DType::F32, DType::BF16) => TensorData::new(casts::to_bf16(values.storage()), shape),
        (DType::F16 | DType::BF16, DType::F32) => {
            TensorData::new(casts::widened(numbers(&values)), shape)
        }
        _ => return Flex::float_cast(values, dtype.into()),
    };
    Flex::float_from_data(data, &Default::default())
}

/// The numbers of a contiguous tensor.
fn numbers(tensor: &Rows) -> Values<'_> {
    match tensor.dtype() {
        DType::F16 => Values::F16(tensor.storage()),
        DType::BF16 => Values::Bf16(tensor.storage()),
        _ => Values::F32(tensor.storage()),
    }
}

pub(super) fn to_f32(tensor: Rows) -> Rows {
    cast_like(tensor, DType::F32)
}

/// A contiguous tensor as a matrix or a stack of matrices.
pub(super) fn matrices(tensor: &Rows) -> Matrices<'_> {
    let shape = tensor.shape();
    let last = shape.num_dims() - 1;
    Matrices {
        values: numbers(tensor),
        rows: shape[last - 1],
        columns: shape[last],
    }
}

/// The sort of a call, or a single segment of `rows` rows if there is no sort.
pub(super) fn segments(b: &mut Operands, rows: usize) -> Segments {
    let sort = ["order", "offsets", "positions"].map(|name| b.maybe_word(name).map(words));
    Segments::new(sort, rows)
}
