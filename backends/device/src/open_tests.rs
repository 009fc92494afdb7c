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
    // What is free changes from one look to the next.
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
