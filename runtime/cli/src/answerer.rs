//! The engine of a command: a published model on its device, with who proposes tokens to it.

use moebius::attention::CacheFormat;
use moebius_device::Device;
use moebius_engine::{Engine, EngineOptions};

use crate::args::EngineArgs;
use crate::error::CliError;
use crate::published::{Source, ready, shown};
use crate::screen::Screen;
use crate::speculation::Speculation;

/// An engine that answers on its device.
pub(crate) struct Answerer {
    pub(crate) engine: Engine,
    pub(crate) name: Device,
    pub(crate) device: burn::tensor::Device,
    pub(crate) load_s: f64,
    pub(crate) cache_format: CacheFormat,
    /// Whether tokens are proposed to it.
    pub(crate) speculates: bool,
}

impl Answerer {
    /// Reads who proposes tokens, and then opens the device, loads the models and makes their engine with these options.
    pub(crate) fn open(
        args: &EngineArgs,
        source: &Source,
        room: EngineOptions,
        screen: &mut Screen,
    ) -> Result<Self, CliError> {
        let speculation = Speculation::open(args, source, screen)?;
        let room = args.room(room);
        let ready = ready(&source.files, &args.place, Some(room), screen)?;
        let mut engine = Engine::new(ready.model, room, &ready.device)?;
        if let Some(speculation) = &speculation {
            let place = (room, &ready.device);
            shown(screen, |progress| {
                speculation.begin(&mut engine, place, progress)
            })?;
        }
        Ok(Self {
            engine,
            name: ready.name,
            device: ready.device,
            load_s: ready.load_s,
            cache_format: room.format,
            speculates: speculation.is_some(),
        })
    }
}
