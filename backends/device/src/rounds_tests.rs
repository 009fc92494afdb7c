use super::*;
use crate::Device;

/// Mesa's constant is 65,535, for Vulkan and OpenGL; SwiftShader has no limit, and a GPU is never asked.
#[test]
fn llvmpipe_has_its_limit_and_others_have_none() {
    for found in crate::discover() {
        let Ok(capability) = found.status else {
            continue;
        };
        let expected = capability.name.contains("llvmpipe").then_some(65_535);
        assert_eq!(capability.loop_rounds, expected, "{}", capability.name);
    }
}

/// A device that another crate has started is asked by its name.
#[test]
fn a_client_tells_what_its_adapter_told() {
    let Ok(opened) = crate::open(&Device::Wgpu(None)) else {
        return;
    };
    let client = opened.client().unwrap();
    let told = crate::capability_of(crate::Runtime::Wgpu, &client);
    assert_eq!(told.loop_rounds, opened.capability.loop_rounds);
}

#[test]
fn a_limit_is_kept_by_name() {
    remember("an adapter of this test", Some(7));
    remember("an adapter of this test", None);
    assert_eq!(recall("an adapter of this test"), Some(None));
    assert_eq!(recall("another adapter of this test"), None);
}
