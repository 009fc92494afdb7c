//! Constants and iota.

use super::{Builder, Value};
use moebius_pjrt::{ElementType, TensorType};

impl Builder {
    /// A tensor of `ty` that holds `value` everywhere, rounded to the element type; booleans are
    /// true where it isn't 0.
    pub fn splat(&self, value: f64, ty: TensorType) -> Value {
        let literal = literal(value, ty.element);
        self.of_type(format_args!("stablehlo.constant dense<{literal}>"), ty)
    }

    /// A tensor of `ty` that holds an integer everywhere; unlike [`Builder::splat`], exact for 64 bits.
    pub fn splat_int(&self, value: i128, ty: TensorType) -> Value {
        if ty.element.is_float() || ty.element == ElementType::Pred {
            return self.splat(value as f64, ty);
        }
        self.of_type(format_args!("stablehlo.constant dense<{value}>"), ty)
    }

    /// A scalar.
    pub fn scalar(&self, value: f64, element: ElementType) -> Value {
        self.splat(value, TensorType::scalar(element))
    }

    /// A tensor like `value` that holds `number` everywhere.
    pub fn splat_like(&self, number: f64, value: Value) -> Value {
        self.splat(number, self.ty(value))
    }

    /// A vector of integers.
    pub fn integers(&self, values: &[i64], element: ElementType) -> Value {
        let ty = TensorType::new([values.len()], element);
        let text = match values {
            [] => String::new(),
            _ => super::lists::list(values),
        };
        self.of_type(format_args!("stablehlo.constant dense<{text}>"), ty)
    }

    /// 0, 1, 2, … along dimension `dim`.
    pub fn iota(&self, ty: TensorType, dim: usize) -> Value {
        self.of_type(format_args!("stablehlo.iota dim = {dim}"), ty)
    }
}

/// `value` as MLIR reads it for `element`. Floats that decimal text can't hold are written as bits.
fn literal(value: f64, element: ElementType) -> String {
    match element {
        ElementType::Pred => (value != 0.0).to_string(),
        element if !element.is_float() => format!("{}", value as i128),
        _ if value.is_finite() => decimal(value),
        ElementType::F64 => format!("0x{:016X}", value.to_bits()),
        ElementType::F32 => format!("0x{:08X}", (value as f32).to_bits()),
        ElementType::F16 => format!("0x{:04X}", half::f16::from_f64(value).to_bits()),
        ElementType::BF16 => format!("0x{:04X}", half::bf16::from_f64(value).to_bits()),
        // No infinity in E4M3: NaN with the sign, as an overflow without saturation gives.
        ElementType::F8E4M3FN if value.is_sign_negative() => "0xFF".to_owned(),
        ElementType::F8E4M3FN => "0x7F".to_owned(),
        _ if value.is_nan() => "0x7E".to_owned(),
        _ if value < 0.0 => "0xFC".to_owned(),
        _ => "0x7C".to_owned(),
    }
}

/// The shortest decimal that reads back as `value`; MLIR wants a point in it.
fn decimal(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}
