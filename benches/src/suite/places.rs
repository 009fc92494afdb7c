//! The devices of a run, including those that are missing.

use moebius_device::{Capability, Device, Found, OpenError, choose, probe};
use serde::Serialize;

/// A device that was asked for, or that this build supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Name of the device on the command line, e.g. `wgpu:0`.
    pub device: Device,
    /// Name of the device by its driver; `None` if the device is missing.
    pub adapter: Option<String>,
    /// Why the machine lacks the device; `None` if it can be measured.
    pub missing: Option<String>,
}

/// The devices of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The devices in the order in which they are measured, each once.
    pub all: Vec<Place>,
    /// Devices of runtimes that this build leaves out.
    pub not_built: Vec<Device>,
}

/// Why a run has no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// A device was asked for that this build leaves out.
    #[error("{reason}; there are {}", names(.available))]
    NotBuilt {
        /// The device, and what adds it to a build.
        reason: String,
        /// Devices that can be asked for instead.
        available: Vec<Device>,
    },
    /// `auto` found no device.
    #[error(transparent)]
    Auto(OpenError),
}

/// Names of devices, separated by commas.
fn names(devices: &[Device]) -> String {
    let names: Vec<String> = devices.iter().map(Device::to_string).collect();
    names.join(", ")
}

/// Function that probes a device that isn't among the discovered ones.
type Look<'a> = &'a dyn Fn(&Device) -> Result<Capability, OpenError>;

impl Places {
    /// Finds the devices in `asked`, or all devices of this build if `asked` is empty.
    ///
    /// # Errors
    /// [`NoPlace`] for a device that this build leaves out, and for `auto` if there is no device. A device that the
    /// machine lacks is no error, but a place that says why.
    pub fn find(asked: &[Device]) -> Result<Self, NoPlace> {
        Self::among(&moebius::discover(), asked, &probe)
    }

    fn among(found: &[Found], asked: &[Device], look: Look) -> Result<Self, NoPlace> {
        let (out, built): (Vec<&Found>, Vec<&Found>) = found
            .iter()
            .partition(|found| matches!(found.status, Err(OpenError::NotBuilt { .. })));
        let mut places = Self {
            all: Vec::new(),
            not_built: out.iter().map(|found| found.device).collect(),
        };
        if asked.is_empty() {
            let all = built.iter().map(|found| Place::of(found));
            places.all = all.collect();
            return Ok(places);
        }
        for device in asked {
            let place = Place::of(&named(*device, found, look)?);
            let known = places.all.iter().any(|one| same(one.device, place.device));
            if !known {
                places.all.push(place);
            }
        }
        Ok(places)
    }

    /// The devices that can be measured.
    pub fn present(&self) -> impl Iterator<Item = &Place> {
        self.all.iter().filter(|place| place.missing.is_none())
    }
}

impl Place {
    fn of(found: &Found) -> Self {
        let status = found.status.as_ref();
        Self {
            device: found.device,
            adapter: status.ok().map(|capability| capability.name.clone()),
            missing: status.err().map(ToString::to_string),
        }
    }
}

/// The device that was asked for, possibly missing.
fn named(asked: Device, found: &[Found], look: Look) -> Result<Found, NoPlace> {
    let device = match asked {
        Device::Auto => choose(found).map_err(NoPlace::Auto)?.device,
        named => named,
    };
    let known = found.iter().find(|found| same(found.device, device));
    let place = known.cloned().unwrap_or_else(|| Found {
        device,
        status: look(&device),
    });
    if let Err(error @ OpenError::NotBuilt { .. }) = &place.status {
        let usable = found.iter().filter(|found| found.status.is_ok());
        return Err(NoPlace::NotBuilt {
            reason: error.to_string(),
            available: usable.map(|found| found.device).collect(),
        });
    }
    Ok(place)
}

/// Whether two names are of the same device; no index means the first.
fn same(one: Device, other: Device) -> bool {
    let index = |device: Device| device.index().unwrap_or(0);
    one.name() == other.name() && index(one) == index(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_profiles as profiles;

    fn found() -> Vec<Found> {
        let there = |device, capability| Found {
            device,
            status: Ok(capability),
        };
        let not = |status| Found {
            device: Device::Cuda(None),
            status: Err(status),
        };
        vec![
            not(OpenError::NoDriver {
                device: Device::Cuda(None),
                library: "a driver",
                reason: "none".to_owned(),
            }),
            there(Device::Wgpu(Some(0)), profiles::lavapipe()),
            Found {
                device: Device::Rocm(None),
                status: Err(OpenError::NotBuilt {
                    device: Device::Rocm(None),
                    feature: "rocm",
                }),
            },
            there(Device::Flex, profiles::cpu_2core_avx512()),
        ]
    }

    fn among(asked: &[Device]) -> Result<Places, NoPlace> {
        let none = |device: &Device| {
            Err(OpenError::NoSuchDevice {
                device: *device,
                available: Vec::new(),
            })
        };
        Places::among(&found(), asked, &none)
    }

    fn devices<'a>(places: impl Iterator<Item = &'a Place>) -> Vec<Device> {
        places.map(|place| place.device).collect()
    }

    #[test]
    fn without_a_wish_all_of_the_build_are_measured_and_the_missing_are_named() {
        let places = among(&[]).unwrap();
        let (wgpu, flex) = (Device::Wgpu(Some(0)), Device::Flex);
        assert_eq!(devices(places.all.iter()), [Device::Cuda(None), wgpu, flex]);
        assert_eq!(devices(places.present()), [wgpu, flex]);
        assert_eq!(places.not_built, [Device::Rocm(None)]);
        let cuda = &places.all[0];
        let missing = cuda.missing.as_ref().unwrap();
        assert!(missing.contains("`cuda` has no driver here"), "{missing}");
        assert_eq!(cuda.adapter, None);
        assert_eq!(places.all[1].adapter, Some(profiles::lavapipe().name));
    }

    #[test]
    fn each_device_that_was_asked_for_is_measured_once() {
        let asked = ["flex", "wgpu", "wgpu:0", "wgpu:1", "flex"];
        let asked = asked.map(|name| name.parse().unwrap());
        let places = among(&asked).unwrap();
        let (first, second) = (Device::Wgpu(Some(0)), Device::Wgpu(Some(1)));
        assert_eq!(devices(places.all.iter()), [Device::Flex, first, second]);
        assert_eq!(devices(places.present()), [Device::Flex, first]);
        let auto = among(&[Device::Auto]).unwrap();
        assert_eq!(devices(auto.all.iter()), [Device::Flex]);
    }

    #[test]
    fn a_device_that_the_build_leaves_out_is_an_error_with_what_there_is() {
        let error = among(&[Device::Flex, Device::Rocm(None)]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cargo feature `rocm`"), "{error}");
        assert!(error.ends_with("; there are wgpu:0, flex"), "{error}");
    }
}
