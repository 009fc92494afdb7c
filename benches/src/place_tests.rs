use super::*;

const XLA_CPU: Device = Device::Xla(XlaPlatform::Cpu, None);

fn found(held: Simd, widest: Simd, narrow: bool) -> Found {
    Found {
        held,
        widest,
        narrow_flex: narrow,
        narrow_xla: narrow,
    }
}

#[test]
fn the_widest_is_what_runs_where_nothing_is_asked_for() {
    for widest in [Simd::Avx512, Simd::Avx2, Simd::Neon, Simd::Portable] {
        let found = found(widest, widest, false);
        for device in [Device::Cpu, Device::Flex, XLA_CPU] {
            assert_eq!(found.of(&device, true), Ok(Some(widest)));
        }
        assert_eq!(found.of(&Device::Cuda(None), false), Ok(None));
        assert_eq!(found.of(&Device::Wgpu(None), true), Ok(None));
    }
}

#[test]
fn what_takes_more_than_was_asked_for_is_refused() {
    let wide_build = found(Simd::Avx2, Simd::Avx512, false);
    for device in [Device::Cpu, Device::Flex, XLA_CPU, Device::Wgpu(None)] {
        let error = wide_build.of(&device, true).expect_err("it takes AVX-512");
        assert_eq!((error.device, error.held), (device, Simd::Avx2));
        let said = error.to_string();
        assert!(
            said.contains("can't be held to avx2 on a processor with avx512"),
            "{said}"
        );
    }
    // Burn's products have no use for instructions of bf16.
    let plain = found(Simd::Avx512, Simd::Avx512Bf16, false);
    assert_eq!(plain.of(&Device::Flex, true), Ok(Some(Simd::Avx512)));
    assert!(plain.of(&Device::Cpu, true).is_err());
    // A GPU doesn't use the processor's vector instructions.
    assert_eq!(wide_build.of(&Device::Cuda(None), false), Ok(None));
}

#[test]
fn a_build_without_avx_512_and_a_flag_of_xlas_hold_two_devices() {
    let narrow = found(Simd::Avx2, Simd::Avx512, true);
    assert_eq!(narrow.of(&Device::Flex, true), Ok(Some(Simd::Avx2)));
    assert_eq!(narrow.of(&XLA_CPU, true), Ok(Some(Simd::Avx2)));
    assert!(narrow.of(&Device::Cpu, true).is_err());
    for held in [Simd::Portable, Simd::Neon] {
        let below = found(held, Simd::Avx2, true);
        assert!(below.of(&Device::Flex, true).is_err());
        assert!(below.of(&XLA_CPU, true).is_err());
    }
}
