//! A layer becomes one program for a TPU: StableHLO that sorts, loops over experts and multiplies, and calls nothing from outside.

use std::error::Error;

use burn::tensor::Device;

/// Computes the figures, the fact that they show, and whether it holds.
#[cfg(feature = "xla")]
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    use burn::module::Module;
    use burn::tensor::{DType, Tensor, TensorData};
    use moebius::moe::{Activation, MoeConfig};
    use moebius_xla::{Arguments, lower};

    const TOKENS: usize = 64;
    const HIDDEN: usize = 128;
    let config = MoeConfig::new(HIDDEN, 256, 8)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let layer = config.init(device)?;
    let here = layer.forward(Tensor::<2>::ones([TOKENS, HIDDEN], device))?;
    let shape = here.y.dims();

    // What happens to tensors of this device is noted, and not computed.
    let recorder = Device::capture();
    let mut refused = None;
    let captured = recorder.capture_scope(|scope| {
        let zeros = TensorData::new(vec![0.0f32; TOKENS * HIDDEN], shape);
        let x = Tensor::<2>::from_data(zeros, (&recorder, DType::F32));
        let out = layer.fork(&recorder).forward(x.clone());
        let made = out.as_ref().map_or_else(|_| Vec::new(), |out| out.y.ids());
        let done = scope.complete(x.ids().into_iter().flatten(), made.into_iter().flatten());
        refused = out.err();
        done
    });
    if let Some(error) = refused {
        return Err(error.into());
    }
    let program = lower::graph(&captured.map_err(|error| error.to_string())?)?.program;

    let count = |operation: &str| program.text.matches(operation).count();
    let (inputs, outputs) = (&program.inputs, &program.outputs);
    let mut figures = format!(
        "lines of StableHLO: {}\narguments: {}, the first {:?}\nresult: {:?}\nmillions of operations in products: {}",
        program.text.lines().count(),
        inputs.len(),
        inputs.first().map(|input| &input.shape),
        outputs.first().map(|output| &output.shape),
        program.flops / 1_000_000
    );
    let parts = ["sort", "while", "dot_general"].map(|part| format!("stablehlo.{part}"));
    for part in &parts {
        figures += &format!("\n{:4} {part}", count(part));
    }
    let holds = outputs.len() == 1
        && outputs[0].shape == shape
        && inputs.first().is_some_and(|input| input.shape == shape)
        && parts.iter().all(|part| count(part) > 0)
        && count("custom_call") == 0;
    let is = if holds { "is" } else { "is not" };
    let fact =
        format!("the layer {is} one program of XLA's own operations, with y in the shape of x");
    Ok((figures, fact, holds))
}

/// Refuses: a build without XLA has nothing that writes StableHLO.
#[cfg(not(feature = "xla"))]
pub(crate) fn run(_: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let needs = "a build with the cargo feature xla";
    let refused = moebius_shaders::Unsupported::new("StableHLO", needs, "one without");
    Err(moebius::Error::from(refused).into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
