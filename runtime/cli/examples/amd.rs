//! An MI300X gets its wavefronts of 64 and, by name, its matrix instructions: in plans for a card that isn't here, and in the HIP C++.

use std::error::Error;

use burn::tensor::{DType, Device, Distribution, Tensor};
use moebius::moe::{Activation, MoeConfig, MoeLayer};
use moebius::{Capability, ErrorKind};
use moebius_device::Runtime;
use moebius_ops::{Element, distance};
use moebius_shaders::emit::{self, Target};
use moebius_shaders::experts;
use moebius_shaders::grouped_gemm::{Choice, Variant};

const TOKENS: usize = 64;
const HIDDEN: usize = 128;

/// The products by matrix instructions, which too little hardware of AMD's has run for plans to take them by themselves.
const NAMED: Variant = Variant::TensorCore;

/// What their code must have: an entry for launches, and the library of AMD's matrix instructions.
const PARTS: [&str; 2] = ["extern \"C\" __global__", "rocwmma"];

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let config = MoeConfig::new(HIDDEN, 256, 8)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let layer = config.init(device)?.with_variant(Some(NAMED));
    let problem = layer.problem(TOKENS, DType::F16)?;
    let properties = emit::properties(Target::HipCpp);
    let card = Capability::from_properties(Runtime::Rocm, &properties);
    let mut right = card.subgroup == Some((64, 64));
    let name = card.architecture.as_deref().unwrap_or_default();
    let mut figures = format!("{name}: wavefronts of {:?}", card.subgroup);
    for (how, choice, expected) in [
        ("by itself", Choice::default(), Variant::Unit),
        ("by name", Choice::of(NAMED), NAMED),
    ] {
        let plan = experts::plan(problem, &card, choice)?;
        let [up, down] = [plan.up.variant, plan.down.variant];
        right &= [up, down] == [expected; 2];
        figures += &format!("\na plan {how} takes {} and {}", up.name(), down.name());
    }

    let kernels = moebius_shaders::kernels();
    let named = kernels.iter().find(|kernel| {
        let products = kernel.family == "grouped_gemm" && kernel.variant == NAMED.name();
        products && kernel.element == Some(Element::F16)
    });
    let kernel = named.ok_or("no kernel of products by matrix instructions in f16")?;
    let text = String::from_utf8(emit::emit(kernel, Target::HipCpp)?.bytes)?;
    let parts = PARTS.map(|part| text.matches(part).count());
    let (name, lines) = (&kernel.name, text.lines().count());
    figures += &format!("\n\n{name} in HIP C++: {lines} lines");
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
    let takes = if right { "take" } else { "don't take" };
    let fact =
        format!("products {takes} an MI300X's matrix instructions by name, and by name only");
    Ok((figures, fact, right))
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
