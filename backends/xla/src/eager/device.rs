//! Devices of the router: numbers of opened sessions.

use super::recorder::Recorder;
use burn_backend::{BoolStore, DType, DeviceId, DeviceOps, DeviceSettings};
use burn_std::device::Device;
use std::sync::{Arc, Mutex, PoisonError};

/// A device whose tensors are recorded and run by XLA; a number that opening it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XlaDevice {
    index: u16,
}

/// Recorders of all devices that were opened; they live as long as the process, as the plugins do.
static OPENED: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

/// Burn's own backends take small numbers; its server passes ours through.
const TYPE_ID: u16 = 0x584c;

impl XlaDevice {
    pub(super) fn open(recorder: Arc<Recorder>) -> Self {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push(recorder);
        Self {
            index: (opened.len() - 1) as u16,
        }
    }

    /// The device's recorder; there is none for a number that wasn't given.
    pub(super) fn recorder(self) -> Option<Arc<Recorder>> {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get(self.index as usize).cloned()
    }
}

impl Device for XlaDevice {
    fn from_id(id: DeviceId) -> Self {
        Self { index: id.index_id }
    }

    fn to_id(&self) -> DeviceId {
        DeviceId {
            type_id: TYPE_ID,
            index_id: self.index,
        }
    }
}

impl DeviceOps for XlaDevice {
    fn defaults(&self) -> DeviceSettings {
        DeviceSettings::new(
            DType::F32,
            DType::I32,
            DType::Bool(BoolStore::Native),
            Default::default(),
        )
    }
}
