//! The values of calls as tensors of Burn's fusion.

use super::tensors::{Tensors, Value, ValueMetadata};
use burn::backend::fusion::custom::{FusionValueAdapter, HandleContainer, TensorIr};
use burn::backend::fusion::{ExecutionError, Fusion, FusionBackend, FusionRuntime, FusionTensor};

type Handles<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;
type One<B> = Value<B>;

impl<B: FusionBackend> FusionValueAdapter<B> for Tensors<B> {
    type Metadata = Vec<ValueMetadata>;
    type Input = Vec<<One<B> as FusionValueAdapter<B>>::Input>;
    type Output = Vec<<One<B> as FusionValueAdapter<B>>::Output>;
    type Inner = Self;
    type Fused = Tensors<Fusion<B>>;

    fn to_metadata(value: &Self::Fused) -> Self::Metadata {
        value.0.iter().map(One::<B>::to_metadata).collect()
    }

    fn visit_fused_tensors(
        value: &Self::Fused,
        visit: &mut impl FnMut(&FusionTensor<B::FusionRuntime>),
    ) {
        for value in &value.0 {
            One::<B>::visit_fused_tensors(value, visit);
        }
    }

    fn tensor_count(meta: &Self::Metadata) -> usize {
        meta.len()
    }

    fn append_input_ir(value: Self::Fused, inputs: &mut Vec<TensorIr>) -> Self::Input {
        let input = |value| One::<B>::append_input_ir(value, inputs);
        value.0.into_iter().map(input).collect()
    }

    fn resolve_inputs(input: &Self::Input, handles: &mut Handles<B>) -> Self {
        let value = |input| One::<B>::resolve_inputs(input, handles);
        Self(input.iter().map(value).collect())
    }

    fn append_output_ir(
        meta: &Self::Metadata,
        out: &mut Vec<TensorIr>,
        create: &mut impl FnMut() -> burn::backend::fusion::custom::TensorId,
    ) -> Self::Output {
        let output = |value| One::<B>::append_output_ir(value, out, create);
        meta.iter().map(output).collect()
    }

    fn validate_outputs(
        value: &Self,
        output: &Self::Output,
        device: Option<&B::Device>,
    ) -> Result<(), ExecutionError> {
        let mut values = value.0.iter().zip(output);
        values.try_for_each(|(value, output)| One::<B>::validate_outputs(value, output, device))
    }

    fn register_output_handles(value: Self, output: &Self::Output, handles: &mut Handles<B>) {
        for (value, output) in value.0.into_iter().zip(output) {
            One::<B>::register_output_handles(value, output, handles);
        }
    }

    fn build_fused_output(
        meta: &Self::Metadata,
        tensors: &mut std::vec::IntoIter<FusionTensor<B::FusionRuntime>>,
    ) -> Self::Fused {
        let value = |value| One::<B>::build_fused_output(value, tensors);
        Tensors(meta.iter().map(value).collect())
    }
}
