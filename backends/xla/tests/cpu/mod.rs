//! The CPU plugin, for tests that compile programs themselves. A program is compiled once: in memory for the
//! tests of a binary, and on disk between runs where `MOEBIUS_XLA_CACHE` names a folder.

use moebius_pjrt::{
    Client, CompileOptions, DiskCache, Environment, Error, LoadedExecutable, Platform, Plugin,
    Value,
};
use moebius_xla::stablehlo::Program;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub(crate) struct Cpu {
    pub(crate) client: Client,
    cache: Option<DiskCache>,
    /// By text, and by the devices that it is compiled for.
    programs: Mutex<HashMap<(String, usize), Arc<LoadedExecutable>>>,
}

impl Cpu {
    /// With the plugin's own options.
    pub(crate) fn new(options: &[(&str, Value)]) -> Self {
        let environment = Environment::from_process();
        let plugin = Plugin::open(Platform::Cpu, &environment);
        let plugin = plugin.unwrap_or_else(|error| panic!("{error}"));
        Self {
            client: Client::new(plugin, options).unwrap(),
            cache: DiskCache::of(&environment).unwrap(),
            programs: Mutex::default(),
        }
    }

    /// The program on so many devices.
    pub(crate) fn compile(
        &self,
        program: &Program,
        devices: usize,
    ) -> Result<Arc<LoadedExecutable>, Error> {
        let key = (program.text.clone(), devices);
        if let Some(known) = self.programs.lock().unwrap().get(&key) {
            return Ok(known.clone());
        }
        let options = CompileOptions::new(devices, 1)?;
        let inputs = program.inputs.clone();
        let text = &program.text;
        let compiled = Arc::new(match &self.cache {
            Some(cache) => {
                cache
                    .compile_cached(&self.client, text, &options, inputs)?
                    .0
            }
            None => self.client.compile(text, &options, inputs)?,
        });
        self.programs.lock().unwrap().insert(key, compiled.clone());
        Ok(compiled)
    }
}
