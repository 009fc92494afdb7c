use super::*;
use proptest::prelude::*;

fn any_device() -> impl Strategy<Value = Device> {
    (0usize..10, proptest::option::of(any::<u32>())).prop_map(|(kind, index)| match kind {
        0 => Device::Auto,
        1 => Device::Wgpu(index),
        2 => Device::Vulkan(index),
        3 => Device::Cuda(index),
        4 => Device::Rocm(index),
        5 => Device::Cpu,
        6 => Device::Flex,
        more => Device::Xla(XlaPlatform::ALL[more - 7], index),
    })
}

proptest! {
    #[test]
    fn text_and_json_round_trip(device in any_device()) {
        prop_assert_eq!(device.to_string().parse::<Device>(), Ok(device));
        let json = serde_json::to_string(&device).unwrap();
        prop_assert_eq!(&json, &format!("\"{device}\""));
        prop_assert_eq!(serde_json::from_str::<Device>(&json).unwrap(), device);
    }

    #[test]
    fn arbitrary_text_parses_or_explains_itself(text in "\\PC{0,40}") {
        match text.parse::<Device>() {
            Ok(device) => prop_assert_eq!(device.to_string().parse::<Device>(), Ok(device)),
            Err(error) => prop_assert!(error.to_string().contains(&text)),
        }
    }
}

#[test]
fn a_wrong_name_gets_the_nearest_one() {
    for (got, meant) in [
        ("wgup", "wgpu"),
        ("Cuda", "cuda"),
        ("vulcan:1", "vulkan"),
        ("hip", "rocm"),
        ("webgpu", "wgpu"),
        ("metal", "wgpu"),
        ("fles", "flex"),
        ("tpu", "xla:tpu"),
        ("xla", "xla:cpu"),
        ("xla:cupa:1", "xla:cuda"),
    ] {
        let error = got.parse::<Device>().unwrap_err().to_string();
        assert!(
            error.contains(&format!("did you mean `{meant}`?")),
            "{error}"
        );
        assert!(error.contains(&format!("got `{got}`")), "{error}");
    }
    let error = "quantum".parse::<Device>().unwrap_err().to_string();
    assert!(!error.contains("did you mean"), "{error}");
    assert!(error.contains(Device::EXPECTED), "{error}");
}

#[test]
fn indices_are_checked() {
    assert_eq!("wgpu".parse(), Ok(Device::Wgpu(None)));
    assert_eq!("wgpu:0".parse(), Ok(Device::Wgpu(Some(0))));
    for text in [
        "wgpu:",
        "wgpu:+1",
        "wgpu:-1",
        "wgpu:x",
        "cuda:4294967296",
        "rocm:1:2",
        "xla:tpu:",
        "xla:cuda:0:1",
    ] {
        assert!(
            matches!(
                text.parse::<Device>(),
                Err(ParseDeviceError::BadIndex { .. })
            ),
            "{text}"
        );
    }
    for text in ["cpu:0", "auto:1", "flex:"] {
        assert!(
            matches!(
                text.parse::<Device>(),
                Err(ParseDeviceError::UnexpectedIndex { .. })
            ),
            "{text}"
        );
    }
    assert!("".parse::<Device>().is_err());
}

#[test]
fn display_honours_width() {
    assert_eq!(format!("{:<9}|", Device::Cuda(Some(1))), "cuda:1   |");
}
