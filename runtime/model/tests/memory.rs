//! Memory of a layer before and after its conversion, as the system counts it, in a process of its own.
#![cfg(target_os = "linux")] // where the memory can be read
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::fs;

use burn::module::Param;
use burn::tensor::{Device, Distribution, Tensor};
use moebius::fp8::{Fp8Conversion, Fp8Format, Granularity, Quantizer};
use moebius::nn::Linear;

/// The value in bytes of the line `field` of the process's status.
fn status(field: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.unwrap().trim().split(' ').next().unwrap();
    kib.parse::<usize>().unwrap() << 10
}

/// Flex has no allocator to ask; matrices as large as these go back to the system when they are dropped.
#[test]
fn a_layer_on_flex_takes_a_quarter() {
    let device = Device::flex();
    let conversion = Fp8Conversion::new(Quantizer::new(Fp8Format::E4M3, Granularity::Row));
    let measured = |edge: usize| {
        let before = status("VmRSS:");
        let weight = Tensor::random([edge, edge], Distribution::Default, &device);
        let layer = Linear::new(Param::from_tensor(weight), None).unwrap();
        let float = status("VmRSS:") - before;
        let (layer, _) = conversion.convert(layer, &device).unwrap();
        let converted = status("VmRSS:").saturating_sub(before);
        drop(layer);
        (float, converted)
    };
    measured(128);
    let edge = 6144;
    let (float, converted) = measured(edge);
    println!("{float} bytes in f32, {converted} in FP8");
    assert!(float >= edge * edge * 4, "{float} bytes in f32");
    assert!(
        converted as f64 <= 0.27 * float as f64,
        "{converted} of {float}"
    );
}
