//! Weights of experts in host memory against those of a device.

use moebius::fp8::{Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity, Weight};
use moebius::moe::switching::{HostCodes, HostWeight};
use moebius_ops::scaling::HostScales;

/// Two matrices of 140 rows in two parts, each of which leaves part of a panel empty, and of 42 columns, which leave half of a word empty.
const SHAPE: [usize; 3] = [2, 140, 42];

/// Codes that a device lays out are those that the host does, with scales of both kinds.
#[test]
fn codes_lie_on_the_host_as_on_a_device() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let [count, n, k] = SHAPE;
    let codes: Vec<u8> = (0..count * n * k).map(|at| (at % 119) as u8).collect();
    for granularity in [Granularity::Row, Granularity::Tensor, Granularity::Mx] {
        let scheme = Fp8Scheme {
            format: Fp8Format::E4M3,
            granularity,
        };
        let [down, across] = scheme.grid(n, k);
        let each = down * across;
        let some = |first: usize, many: usize| match granularity {
            Granularity::Mx => HostScales::E8M0((first..first + many).map(|at| at as u8).collect()),
            _ => HostScales::F32((first..first + many).map(|at| at as f32).collect()),
        };
        let layout = |shape| Fp8Layout { shape, scheme };
        let all = some(0, count * each);
        let stack = Fp8Tensor::from_codes(&codes, &all, layout(SHAPE), &device).unwrap();
        let weight = Weight::<3>::from_fp8(stack, 2).unwrap();
        assert_eq!(weight.bytes() as u64, layout(SHAPE).weight_bytes(2));
        for expert in 0..count {
            let codes = &codes[expert * n * k..][..n * k];
            let scales = some(expert * each, each);
            let one = HostCodes::new(codes, &scales, layout([1, n, k]), 2).unwrap();
            let read = HostWeight::read(&weight, expert).unwrap();
            assert_eq!(read.bytes(), layout([1, n, k]).weight_bytes(2));
            assert_eq!(HostWeight::from(one), read, "{granularity:?}");
        }
    }
    let none = HostScales::F32(Vec::new());
    let scheme = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    };
    let shape = [1, n, k];
    let refused = HostCodes::new(&codes[..n * k], &none, Fp8Layout { shape, scheme }, 2);
    assert!(refused.is_err());
}
