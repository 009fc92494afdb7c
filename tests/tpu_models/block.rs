//! A transformer block of Burn's modules, captured.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use moebius_pjrt::ElementType;
use moebius_xla::Arguments;
use moebius_xla::lower::graph;
use moebius_xla::stablehlo::Program;

/// Parameters of another type.
struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}

/// 8 sequences of 512 tokens of 512 columns, 8 heads, 2048 hidden columns.
pub(crate) fn program(element: ElementType) -> Program {
    let dtype = match element {
        ElementType::BF16 => DType::BF16,
        _ => DType::F32,
    };
    let config = TransformerEncoderConfig::new(512, 2048, 8, 1).with_dropout(0.0);
    let block = config.init(&Device::flex()).map(&mut Cast(dtype));
    let shape = Shape::from([8, 512, 512]);
    let bytes = vec![0; shape.num_elements() * dtype.size()];
    let zeros = TensorData::from_bytes_vec(bytes, shape, dtype);
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let x = Tensor::<3>::from_data(zeros, (&device, dtype));
        let y = block
            .fork(&device)
            .forward(TransformerEncoderInput::new(x.clone()));
        scope.complete(x.ids().into_iter().flatten(), y.ids().into_iter().flatten())
    });
    let captured = captured.unwrap_or_else(|error| panic!("{error:?}"));
    let lowered = graph(&captured).unwrap_or_else(|error| panic!("{error}"));
    lowered.program
}
