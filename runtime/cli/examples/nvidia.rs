//! NVIDIA's cards get the matrix instructions of their generation: plans choose them for a card that isn't here, and the CUDA C++ has them.

use std::error::Error;

use burn::tensor::{DType, Device, Distribution, Tensor};
use moebius::moe::{Activation, MoeConfig, MoeLayer};
use moebius::{Capability, ErrorKind};
use moebius_device::{Limits, Runtime};
use moebius_ops::{Element, distance};
use moebius_shaders::emit::{self, Target};
use moebius_shaders::experts;
use moebius_shaders::grouped_gemm::{Choice, Variant};

const TOKENS: usize = 64;
const HIDDEN: usize = 128;

/// Kernels of products by Hopper's instructions, as `moebius emit --list --json` names their variant.
const OF_HOPPER: &str = "pipelined_wgmma";

/// What their code must have: an entry for launches, copies that run beside the products, and products of four warps.
const PARTS: [&str; 3] = ["extern \"C\" __global__", "cp.async", "wgmma.mma_async"];

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let config = MoeConfig::new(HIDDEN, 256, 8)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let layer = config.init(device)?;
    let problem = layer.problem(TOKENS, DType::F16)?;
    let mut figures = String::from("card                         first product  second product");
    let mut right = true;
    for (name, card, expected) in cards() {
        let plan = experts::plan(problem, &card, Choice::default())?;
        let [up, down] = [plan.up.variant, plan.down.variant];
        right &= [up, down] == [expected; 2];
        figures += &format!("\n{name:27}  {:13}  {}", up.name(), down.name());
    }

    let kernels = moebius_shaders::kernels();
    let of_hopper = kernels.iter().find(|kernel| {
        let products = kernel.family == "grouped_gemm" && kernel.variant == OF_HOPPER;
        products && kernel.element == Some(Element::F16)
    });
    let kernel = of_hopper.ok_or("no kernel of products by Hopper's instructions in f16")?;
    let text = String::from_utf8(emit::emit(kernel, Target::CudaCpp)?.bytes)?;
    let parts = PARTS.map(|part| text.matches(part).count());
    let (name, lines) = (&kernel.name, text.lines().count());
    figures += &format!("\n\n{name} in CUDA C++: {lines} lines");
    for (part, count) in PARTS.iter().zip(parts) {
        figures += &format!("\n{count:4} {part}");
    }
    right &= parts.iter().all(|count| *count > 0);

    let apart = computed(&layer, device)?;
    figures += &match apart {
        Some(apart) => format!("\n\nin f16 on this device: {apart:.0e} apart from f32"),
        None => "\n\nthis device has no such instructions, so that none ran".to_owned(),
    };
    right &= apart.is_none_or(|apart| apart <= 5e-3);
    let takes = if right { "take" } else { "don't all take" };
    let fact = format!("products {takes} the matrix instructions of an A100 and of an H100");
    Ok((figures, fact, right))
}

/// Cards with the variant that plans of products in f16 take on each.
fn cards() -> [(&'static str, Capability, Variant); 3] {
    let properties = emit::properties(Target::CudaCpp);
    let ampere = Capability::from_properties(Runtime::Cuda, &properties);
    let hopper = Capability {
        architecture: Some("sm_90".to_owned()),
        limits: Limits {
            max_shared_memory: 227 * 1024,
            ..ampere.limits
        },
        ..ampere.clone()
    };
    let older = Capability {
        mma: Vec::new(),
        ..ampere.clone()
    };
    [
        ("without matrix instructions", older, Variant::Unit),
        ("sm_80, an A100", ampere, Variant::TensorCore),
        ("sm_90, an H100", hopper, Variant::Pipelined),
    ]
}

/// How far the layer in f16 is from the same in f32 on a device whose plan has matrix instructions; `None` on other devices.
fn computed(layer: &MoeLayer, device: &Device) -> Result<Option<f64>, Box<dyn Error>> {
    let plan = match layer.plan(TOKENS, DType::F16, device) {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        plan => plan?,
    };
    if !plan.is_some_and(|plan| plan.up.variant.of_matrices()) {
        return Ok(None);
    }
    device.seed(1);
    let half = layer.clone().cast(DType::F16)?;
    let x = Tensor::<2>::random([TOKENS, HIDDEN], Distribution::Default, device).cast(DType::F16);
    let y: Vec<f32> = half.forward(x.clone())?.y.try_into_vec_as()?;
    // The same weights and tokens, so that routers agree.
    let whole = half.cast(DType::F32)?.with_variant(None);
    let expected: Vec<f32> = whole.forward(x.cast(DType::F32))?.y.try_into_vec_as()?;
    Ok(Some(distance(&y, &expected)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
