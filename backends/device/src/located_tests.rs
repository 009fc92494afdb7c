use super::*;

#[test]
fn errors_say_what_to_do() {
    let device = Device::Wgpu(Some(7));
    let cases = [
        (
            OpenError::NotBuilt {
                device: Device::Cuda(None),
                feature: "cuda",
            },
            "`cuda` is not part of this build: build with the cargo feature `cuda`",
        ),
        (
            OpenError::NoSuchDevice {
                device,
                available: vec![Device::Wgpu(Some(0)), Device::Wgpu(Some(1))],
            },
            "no device `wgpu:7`: expected one of `wgpu:0`, `wgpu:1`, got `wgpu:7`",
        ),
        (
            OpenError::NoSuchDevice {
                device: Device::Auto,
                available: vec![],
            },
            "no device `auto`: expected any device, and this build finds none \
             (build with the cargo feature `flex`), got `auto`",
        ),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
    }
}
