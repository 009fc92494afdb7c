//! Words and numbers that a command's options accept.

use burn::tensor::DType;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use moebius::fp8::Fp8Format;
use moebius_ops::{Element, Fault, Mismatch};
use moebius_shaders::grouped_gemm::Variant;

/// A word of an option, its help, and the value that it stands for.
pub type Named<T> = (&'static str, &'static str, T);

/// Formats of FP8 codes.
pub const FORMATS: [Named<Fp8Format>; 2] = [
    ("e4m3", "3 bits of mantissa", Fp8Format::E4M3),
    ("e5m2", "2 bits of mantissa", Fp8Format::E5M2),
];

/// The variants of grouped products.
pub(crate) const VARIANTS: [Named<Variant>; 6] = [
    ("unit", "Multiply-adds, on tiles of 64 rows", Variant::Unit),
    ("gemv", "Multiply-adds, on tiles of 4 rows", Variant::Gemv),
    ("cpu", "One task for each core of a processor", Variant::Cpu),
    ("tensor_core", "Matrix instructions", Variant::TensorCore),
    (
        "pipelined",
        "Matrix instructions fed by asynchronous copies, on CUDA",
        Variant::Pipelined,
    ),
    ("naive", "One invocation for each value", Variant::Naive),
];

/// Element types of a benchmark.
pub(crate) const DTYPES: [Named<DType>; 3] = [
    ("f32", "32-bit float", DType::F32),
    ("f16", "IEEE half", DType::F16),
    ("bf16", "bfloat16", DType::BF16),
];

/// The kernels' element type for a Burn type.
pub(crate) fn element(dtype: DType) -> Result<Element, Mismatch> {
    match dtype {
        DType::F32 => Ok(Element::F32),
        DType::F16 => Ok(Element::F16),
        DType::BF16 => Ok(Element::Bf16),
        other => {
            let got = format!("{other:?}");
            Err(Fault::Config.error("dtype", "f32, f16 or bf16", got))
        }
    }
}

/// Parser that accepts one of `words` and returns its value.
pub fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [Named<T>; N],
) -> impl TypedValueParser<Value = T> {
    let values = words.map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(values).map(move |given| {
        let named = words.iter().find(|(word, ..)| *word == given);
        named.unwrap_or(&words[0]).2
    })
}

/// Parses a whole number of at least 1.
///
/// # Errors
/// A description of what is expected, for any other text.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("expected a whole number".to_owned()),
    }
}
