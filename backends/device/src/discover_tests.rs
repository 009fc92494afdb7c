use super::*;

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
