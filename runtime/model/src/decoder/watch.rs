//! Passes that wait for the device behind each of their parts, to tell what these take.

use std::time::Instant;

use burn::tensor::Device;

use crate::error::Error;

/// What the parts of a pass have taken so far.
pub(crate) struct Watch {
    /// When the part began that is computed now.
    begun: Instant,
    parts: Vec<Taken>,
}

/// What a part of a pass took.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// Seconds from the end of the part before until the device was done.
    pub(crate) seconds: f64,
    /// Bytes of live buffers on the device then, where its allocator tells.
    pub(crate) memory_bytes: Option<u64>,
}

impl Watch {
    /// A watch of a pass that begins now, on a device without other work.
    pub(super) fn begin(device: &Device) -> Result<Self, Error> {
        device.sync().map_err(Error::device)?;
        Ok(Self {
            begun: Instant::now(),
            parts: Vec::new(),
        })
    }

    /// Waits for a part, and begins with the next one.
    pub(super) fn ended(&mut self, device: &Device) -> Result<(), Error> {
        device.sync().map_err(Error::device)?;
        let seconds = self.begun.elapsed().as_secs_f64();
        self.parts.push(Taken {
            seconds,
            memory_bytes: moebius::memory_in_use(device)?,
        });
        self.begun = Instant::now();
        Ok(())
    }

    /// What all parts took, in their order.
    pub(super) fn taken(self) -> Vec<Taken> {
        self.parts
    }
}

/// Tells a watch, if there is one, that a part has been launched.
pub(super) fn ended(watch: Option<&mut Watch>, device: &Device) -> Result<(), Error> {
    watch.map_or(Ok(()), |watch| watch.ended(device))
}
