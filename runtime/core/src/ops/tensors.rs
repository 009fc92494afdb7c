//! Operands and results of calls: any number of tensors of floats or words.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    ExtensionType, TensorMetadata,
};
use burn::tensor::{Bool, DType, Int, Tensor};
use moebius_ops::{Element, Scalar};

/// A tensor of floats or of words.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Value<B: Backend> {
    /// A tensor of floats.
    Float(FloatTensor<B>),
    /// A tensor of 32-bit words.
    Word(IntTensor<B>),
}

impl<B: Backend> Value<B> {
    pub(crate) fn float(self) -> FloatTensor<B> {
        match self {
            Self::Float(tensor) => tensor,
            Self::Word(_) => unreachable!("the operation is described with floats here"),
        }
    }

    pub(crate) fn word(self) -> IntTensor<B> {
        match self {
            Self::Word(tensor) => tensor,
            Self::Float(_) => unreachable!("the operation is described with words here"),
        }
    }
}

/// A tensor of Burn's dispatch backend, whose device a program chooses when it runs.
pub(crate) type DeviceValue = Value<Dispatch>;

impl<const D: usize> From<Tensor<D>> for DeviceValue {
    fn from(tensor: Tensor<D>) -> Self {
        Self::Float(tensor.into_dispatch())
    }
}

impl<const D: usize> From<Tensor<D, Int>> for DeviceValue {
    /// Casts to 32-bit words, because a device may be configured for other integers.
    fn from(tensor: Tensor<D, Int>) -> Self {
        let tensor = match tensor.dtype() {
            DType::I32 | DType::U32 => tensor,
            _ => tensor.cast(DType::I32),
        };
        Self::Word(tensor.into_dispatch())
    }
}

impl<const D: usize> From<Tensor<D, Bool>> for DeviceValue {
    fn from(tensor: Tensor<D, Bool>) -> Self {
        tensor.int().into()
    }
}

impl From<&Self> for DeviceValue {
    fn from(value: &Self) -> Self {
        value.clone()
    }
}

impl DeviceValue {
    pub(crate) fn floats<const D: usize>(self) -> Tensor<D> {
        Tensor::from_dispatch(self.float())
    }

    pub(crate) fn words<const D: usize>(self) -> Tensor<D, Int> {
        Tensor::from_dispatch(self.word())
    }
}

/// The operands or results of an operation, in the order of its description.
#[derive(Clone, Debug)]
pub(crate) struct Tensors<B: Backend>(pub(crate) Vec<Value<B>>);

impl<B: Backend> Tensors<B> {
    /// The device of the operands of a call.
    pub(super) fn device(&self) -> B::Device {
        match self.0.first() {
            Some(Value::Float(tensor)) => tensor.device(),
            Some(Value::Word(tensor)) => tensor.device(),
            None => unreachable!("an operation has an operand"),
        }
    }
}

impl<B: Backend> ExtensionType<B> for Tensors<B> {
    type Target = Tensors<Dispatch>;

    fn map_to_dispatch<F>(self, map_kind: F, autodiff: DispatchAutodiffContext) -> Self::Target
    where
        F: Fn(BackendTensor<B>) -> DispatchTensorKind,
    {
        let value = |value: Value<B>| value.map_to_dispatch(&map_kind, autodiff);
        Tensors(self.0.into_iter().map(value).collect())
    }

    fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
    where
        F: Fn(DispatchTensor) -> BackendTensor<B>,
    {
        let value = |value| Value::map_from_dispatch(value, &unwrap_kind);
        Self(target.0.into_iter().map(value).collect())
    }

    fn routing_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.iter().find_map(Value::<B>::routing_tensor)
    }

    fn routing_float_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.iter().find_map(Value::<B>::routing_float_tensor)
    }

    fn autodiff_context(target: &Self::Target) -> DispatchAutodiffContext {
        let contexts = target.0.iter().map(Value::<B>::autodiff_context);
        contexts.fold(DispatchAutodiffContext::Disabled, |merged, context| {
            merged.merge(context)
        })
    }
}

/// Tensors by their names in an operation's description.
#[derive(Clone, Debug)]
pub(crate) struct Named<V>(Vec<(&'static str, V)>);

impl<V: Clone> Named<V> {
    pub(crate) fn new(
        names: impl IntoIterator<Item = &'static str>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self(names.into_iter().zip(values).collect())
    }

    /// Returns the tensor, or `None` if the operation doesn't have it.
    pub(crate) fn maybe(&self, name: &str) -> Option<V> {
        let found = self.0.iter().find(|(named, _)| *named == name);
        found.map(|(_, value)| value.clone())
    }

    pub(crate) fn get(&self, name: &str) -> V {
        let value = self.maybe(name);
        value.unwrap_or_else(|| unreachable!("{name} is a tensor of the operation"))
    }

    /// Removes and returns a tensor that nothing else reads.
    #[cfg(feature = "flex")]
    pub(crate) fn take(&mut self, name: &str) -> V {
        let value = self.maybe_take(name);
        value.unwrap_or_else(|| unreachable!("{name} is a tensor of the operation"))
    }

    /// Removes and returns a tensor that nothing else reads, or returns `None` if the operation doesn't have it.
    #[cfg(feature = "flex")]
    pub(crate) fn maybe_take(&mut self, name: &str) -> Option<V> {
        let at = self.0.iter().position(|(named, _)| *named == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Keeps only the tensors with these names.
    #[cfg(feature = "autodiff")]
    pub(crate) fn only(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| names.contains(name));
        self
    }
}

/// Returns the dtype of a described type.
pub(crate) fn dtype(scalar: Scalar) -> DType {
    match scalar {
        Scalar::Float(Element::F32) => DType::F32,
        Scalar::Float(Element::F16) => DType::F16,
        Scalar::Float(Element::Bf16) => DType::BF16,
        Scalar::Word => DType::I32,
    }
}
