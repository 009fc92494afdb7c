use super::*;

#[test]
#[cfg(feature = "flex")]
fn flex_opens_without_cubecl() {
    let opened = open(&Device::Flex).unwrap();
    assert_eq!(opened.device, Device::Flex);
    assert_eq!(opened.cubecl(), None);
    assert!(opened.client().is_none());
}

#[test]
#[cfg(feature = "cpu")]
fn cpu_opens_and_gives_a_client() {
    let opened = open(&Device::Cpu).unwrap();
    assert_eq!(opened.client().unwrap().name(), "cpu");
    // Drop free memory, which changes from one reading to the next.
    let lasting = |capability: Capability| Capability {
        memory: capability.memory.map(|memory| crate::MemoryFigures {
            free: None,
            ..memory
        }),
        ..capability
    };
    let probed = crate::probe(&Device::Cpu).map(lasting);
    assert_eq!(Ok(lasting(opened.capability)), probed);
}

#[test]
#[cfg(any(feature = "cpu", feature = "flex"))]
fn auto_opens_something_definite() {
    let opened = open(&Device::Auto).unwrap();
    assert_ne!(opened.device, Device::Auto);
    assert_eq!(
        crate::choose(&crate::discover()).unwrap().device,
        opened.device
    );
}

#[test]
fn an_index_past_the_end_is_an_error() {
    for name in ["wgpu:4000", "vulkan:4000", "cuda:4000", "rocm:4000"] {
        let device: Device = name.parse().unwrap();
        let error = open(&device).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn every_runtime_answers_and_keeps_to_its_name() {
    let started = std::time::Instant::now();
    let found = discover();
    println!("discover took {:?}", started.elapsed());
    for name in ["cuda", "rocm", "vulkan", "wgpu", "cpu", "flex"] {
        assert!(found.iter().any(|found| found.device.name() == name));
    }
    for Found { device, status } in &found {
        println!("{device}: {status:#?}");
        match status {
            Ok(capability) => {
                assert!(!capability.name.is_empty(), "{device}");
                assert!(capability.limits.max_binding_bytes > 0, "{device}");
            }
            Err(error) => assert!(error.to_string().contains(device.name()), "{error}"),
        }
    }
}

#[test]
fn what_is_not_built_names_its_feature() {
    for (name, built) in [
        ("cuda", cfg!(feature = "cuda")),
        ("rocm", cfg!(feature = "rocm")),
        ("vulkan", cfg!(feature = "vulkan")),
        ("wgpu", cfg!(feature = "wgpu")),
        ("cpu", cfg!(feature = "cpu")),
        ("flex", cfg!(feature = "flex")),
    ] {
        let device: Device = name.parse().unwrap();
        let expected = OpenError::NotBuilt {
            device,
            feature: name,
        };
        let reported = discover().contains(&Found {
            device,
            status: Err(expected.clone()),
        });
        assert_eq!(reported, !built, "{name}");
        if !built {
            assert_eq!(crate::probe(&device), Err(expected));
        }
    }
}

#[test]
fn probing_agrees_with_the_list() {
    for Found { device, status } in discover() {
        match status {
            Ok(listed) => {
                let mut probed = crate::probe(&device).unwrap();
                // Free memory changes from one moment to the next.
                probed.memory = listed.memory;
                assert_eq!(probed, listed, "{device}");
            }
            Err(error) => assert_eq!(crate::probe(&device).unwrap_err(), error),
        }
    }
}

#[test]
#[cfg(feature = "wgpu")]
fn a_software_adapter_has_the_limit_that_it_told_or_else_the_least() {
    let named = |name: &str| {
        with_loop_rounds(Capability {
            name: name.to_owned(),
            kind: crate::DeviceKind::Cpu,
            ..Capability::webgpu_default()
        })
    };
    crate::rounds::remember("an adapter that ends no loop", None);
    assert_eq!(named("an adapter that ends no loop").loop_rounds, None);
    let unknown = named("an adapter that told nothing");
    assert_eq!(unknown.loop_rounds, Some(65_535));
    let gpu = with_loop_rounds(Capability::webgpu_default());
    assert_eq!(gpu.loop_rounds, None);
}
