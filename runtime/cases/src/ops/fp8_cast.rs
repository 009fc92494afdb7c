//! `fp8_cast {format, saturate}`: `x` of any shape → `codes` (one byte each) and `decoded`.

use burn::tensor::{Device, Tensor};
use moebius::fp8::{self, Fp8Format, Overflow};
use serde::Deserialize;

use super::inputs::Inputs;
use super::{OpError, Produced, Values, download, download_ints, upload};
use crate::case_file::CaseFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    format: Fp8Format,
    saturate: bool,
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Params { format, saturate } = case.params()?;
    let overflow = if saturate {
        Overflow::Saturate
    } else {
        Overflow::Ieee
    };
    let mut inputs = Inputs::new(case);
    let x = inputs.required("x")?;
    inputs.finish()?;
    let values = x.floats()?;
    let len = values.len();
    let x_device: Tensor<1> = upload(values, [len], device);
    let words = fp8::encode(x_device, format, overflow)?;
    let decoded = fp8::decode(words.clone(), len, format)?;
    let codes = unpack(&download_ints("codes", words).await?, len);
    let decoded = Produced {
        shape: x.shape().to_vec(),
        ..download("decoded", decoded).await?
    };
    Ok(vec![
        Produced::new("codes", x.shape(), Values::Int(codes)),
        decoded,
    ])
}

/// The four codes of each word, lane 0 in the low byte; the last word may hold fewer.
fn unpack(words: &[i64], len: usize) -> Vec<i64> {
    let lanes = |&word: &i64| [0, 8, 16, 24].map(|shift| (word >> shift) & 0xFF);
    words.iter().flat_map(lanes).take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn lane_0_is_the_low_byte_and_padding_is_dropped() {
        // A device that keeps words in i32 returns the second one as a negative number.
        let words = [0x0403_0201, i64::from(0x8877_6655_u32 as i32)];
        assert_eq!(unpack(&words, 7), [1, 2, 3, 4, 0x55, 0x66, 0x77]);
        assert_eq!(unpack(&words, 8)[7], 0x88);
        assert_eq!(unpack(&[], 0), [0_i64; 0]);
    }
}
