//! Tensors that a captured function takes and gives.

use burn::backend::{BackendTensor, DispatchTensorKind};
use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Float, Shape, Tensor, TensorData};
use burn_ir::TensorId;
use std::marker::PhantomData;

/// Shape and dtype of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec<const D: usize, K = Float> {
    shape: [usize; D],
    dtype: DType,
    kind: PhantomData<K>,
}

impl<const D: usize, K> Spec<D, K> {
    /// An argument of this shape and dtype, which must be one of the kind `K`.
    pub fn new(shape: [usize; D], dtype: DType) -> Self {
        Self {
            shape,
            dtype,
            kind: PhantomData,
        }
    }
}

/// What a captured function takes: a tensor, a tuple of up to six, or a list.
pub trait Arguments: Sized {
    /// Their shapes and dtypes.
    type Specs;

    /// Tensors of these shapes on the capturing device.
    fn placeholders(specs: &Self::Specs, device: &Device) -> Self;

    /// Their names in the graph, of those that are in it.
    fn ids(&self) -> Vec<Option<TensorId>>;
}

impl<const D: usize, K: Basic> Arguments for Tensor<D, K> {
    type Specs = Spec<D, K>;

    fn placeholders(spec: &Self::Specs, device: &Device) -> Self {
        let shape = Shape::from(spec.shape);
        let bytes = vec![0; shape.num_elements() * spec.dtype.size()];
        let zeros = TensorData::from_bytes_vec(bytes, shape, spec.dtype);
        Self::from_data(zeros, (device, spec.dtype))
    }

    fn ids(&self) -> Vec<Option<TensorId>> {
        use BackendTensor::{Bool, Float, Int};
        vec![match self.clone().into_dispatch().kind {
            DispatchTensorKind::Capture(Float(t) | Int(t) | Bool(t)) => Some(t.id()),
            _ => None,
        }]
    }
}

impl<A: Arguments> Arguments for Vec<A> {
    type Specs = Vec<A::Specs>;

    fn placeholders(specs: &Self::Specs, device: &Device) -> Self {
        specs
            .iter()
            .map(|spec| A::placeholders(spec, device))
            .collect()
    }

    fn ids(&self) -> Vec<Option<TensorId>> {
        self.iter().flat_map(A::ids).collect()
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Arguments),+> Arguments for ($($name,)+) {
            type Specs = ($($name::Specs,)+);

            fn placeholders(specs: &Self::Specs, device: &Device) -> Self {
                ($($name::placeholders(&specs.$index, device),)+)
            }

            fn ids(&self) -> Vec<Option<TensorId>> {
                [$(self.$index.ids()),+].concat()
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
