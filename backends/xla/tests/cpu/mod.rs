//! The CPU plugin, for tests that compile programs themselves. Each program is compiled once: it is kept in memory for
//! the tests of a binary, and on disk between runs if `MOEBIUS_XLA_CACHE` names a folder.

use moebius_pjrt::{
    Buffer, Client, CompileOptions, DiskCache, Donate, Environment, Error, LoadedExecutable,
    Platform, Plugin, TensorType, Value,
};
use moebius_xla::stablehlo::Program;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub(crate) struct Cpu {
    client: Client,
    cache: Option<DiskCache>,
    /// The compiled programs, by text and number of devices.
    programs: Mutex<HashMap<(String, usize), Arc<LoadedExecutable>>>,
}

impl Cpu {
    /// Opens the plugin with its own options.
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

    /// Compiles a program that is divided among `devices` devices, or returns it if it has been compiled.
    pub(crate) fn compile(
        &self,
        program: &Program,
        devices: usize,
    ) -> Result<Arc<LoadedExecutable>, Error> {
        let key = (program.text.clone(), devices);
        if let Some(known) = self.programs.lock().unwrap().get(&key) {
            return Ok(known.clone());
        }
        let options = match devices {
            1 => CompileOptions::default(),
            _ => CompileOptions::new(1, devices)?.with_shardy(),
        };
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

    /// Runs a program: `arguments` and the results are bytes, by device, then by argument or result.
    pub(crate) fn execute(
        &self,
        program: &Program,
        arguments: &[Vec<Vec<u8>>],
    ) -> Result<Vec<Vec<Vec<u8>>>, String> {
        let failed = |error: Error| error.to_string();
        let executable = self.compile(program, arguments.len()).map_err(failed)?;
        let upload = |(device, arguments): (_, &Vec<Vec<u8>>)| -> Result<Vec<Buffer>, Error> {
            assert_eq!(arguments.len(), program.inputs.len());
            let arguments = program.inputs.iter().zip(arguments);
            let buffers = arguments.map(|(ty, bytes)| Buffer::from_host(device, ty, bytes));
            buffers.collect()
        };
        let devices = executable.devices();
        let buffers = devices.iter().zip(arguments).map(upload);
        let buffers: Vec<Vec<Buffer>> = buffers.collect::<Result<_, Error>>().map_err(failed)?;
        let lists: Vec<Vec<&Buffer>> = buffers.iter().map(|list| list.iter().collect()).collect();
        let results = executable.execute_sharded(&lists, Donate::Nothing);
        let read = |(ty, buffer): (&TensorType, &Buffer)| {
            if buffer.spec() != ty {
                return Err(format!("expected {ty}, got {:?}", buffer.spec()));
            }
            buffer.read().map_err(failed)
        };
        let of_device = |buffers: Vec<Buffer>| -> Result<Vec<Vec<u8>>, String> {
            program.outputs.iter().zip(&buffers).map(read).collect()
        };
        let results = results.map_err(failed)?.into_iter();
        results.map(of_device).collect()
    }
}
