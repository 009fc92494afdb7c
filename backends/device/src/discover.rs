//! What this build and this machine have.

use crate::located::Found;
use crate::{Capability, Device, OpenError, choose, runtimes};

/// Every device of every runtime in this build, and one entry for each runtime that is left out
/// or has no device, with the reason.
///
/// In the order `cuda`, `rocm`, `vulkan`, `wgpu`, `cpu`, `flex`, each by index. The same GPU is
/// listed once for every runtime that reaches it. Reads adapter descriptions; only `rocm` and
/// `cpu` start their runtime, which can't be asked otherwise. Never panics.
pub fn discover() -> Vec<Found> {
    [
        Device::Cuda(None),
        Device::Rocm(None),
        Device::Vulkan(None),
        Device::Wgpu(None),
        Device::Cpu,
        Device::Flex,
    ]
    .into_iter()
    .flat_map(|runtime| match runtimes::list(runtime) {
        Ok(found) => found,
        Err(error) => vec![Found {
            device: runtime,
            status: Err(error),
        }],
    })
    .collect()
}

/// What `device` can do.
///
/// For wgpu and flex nothing is started; `cuda`, `rocm` and `cpu` start their runtime, because
/// only the started runtime knows which types and matrix shapes its compiler takes. `auto` is the
/// device [`choose`] picks.
///
/// # Errors
///
/// [`OpenError`] as from [`open`](crate::open).
pub fn probe(device: &Device) -> Result<Capability, OpenError> {
    let named = match device {
        Device::Auto => choose(&discover())?.device,
        named => *named,
    };
    runtimes::locate(named)?.capability()
}

#[cfg(test)]
mod tests {
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
}
