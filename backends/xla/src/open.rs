//! Opening a platform's devices for ordinary tensors, one by one or several together, the global settings of Burn that
//! these need, and the end of a step.

use crate::eager::{Activity, Recorder, serve};
use crate::machine::Machine;
use crate::stablehlo::{Mesh, Program};
use burn::remote::RemoteHost;
use burn::tensor::{DType, Device};
use burn_std::config::remote::RemoteConfig;
use burn_std::config::{BurnConfig, RuntimeConfig};
use moebius_pjrt::{Client, DiskCache, Environment, Error, Platform, Plugin, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a device can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The plugin is missing, can't be loaded, or has no such device.
    #[error(transparent)]
    Plugin(#[from] Error),
    /// The server inside the process didn't start.
    #[error("serving the XLA devices on the loopback interface: {0}")]
    Serve(#[from] std::io::Error),
    /// Burn's fusion is on, and its settings were made or read before this crate could change them.
    #[error(
        "Burn's fusion would send operations to XLA in graphs: expected the setting fusion.max_graph_size = 0; \
         call moebius_xla::configure() before any device is used, or write it to burn.toml"
    )]
    Settings,
    /// The server refused the connection.
    #[error("the server of the XLA devices: {0}")]
    Connect(#[from] burn::remote::ConnectError),
}

/// An open platform: its plugin's client, and the server of its devices.
#[derive(Clone)]
struct Opened {
    client: Client,
    recorders: Vec<Arc<Recorder>>,
    host: RemoteHost,
}

/// The open platforms. They stay open until the process ends, as their plugins do.
static OPENED: Mutex<BTreeMap<Platform, Opened>> = Mutex::new(BTreeMap::new());

/// The devices that [`open`] has returned, each once, with their platforms.
static RETURNED: Mutex<Vec<(Device, Platform)>> = Mutex::new(Vec::new());

/// Opens device `index` of a platform for Burn: for ordinary tensors and modules, with gradients after
/// [`Device::autodiff`]. Operations are recorded, and run as one program when a result is read ([`crate::eager`]).
/// Opening it again gives the same device.
///
/// The environment is read once for each platform: it says where the plugin is, and `MOEBIUS_XLA_CACHE` names a folder
/// that keeps up to 4 GiB of compiled programs between processes.
///
/// # Errors
///
/// [`OpenError`], before anything runs.
pub fn open(platform: Platform, index: usize) -> Result<Device, OpenError> {
    recorder(platform, index)?;
    let opened = opened(platform)?;
    let device = Device::remote_options(&opened.host)
        .device_index(index)
        .init()?;
    let mut returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
    if !returned.iter().any(|(known, _)| *known == device) {
        returned.push((device.clone(), platform));
    }
    Ok(device)
}

/// The platform of a device that [`open`] has returned, with gradients or without; `None` for every other device.
pub fn platform_of(device: &Device) -> Option<Platform> {
    let returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = returned.iter().find(|(known, _)| known == device);
    known.map(|(_, platform)| *platform)
}

/// The client of a platform, shared with its tensors.
///
/// # Errors
///
/// As for [`open`].
pub fn client(platform: Platform) -> Result<Client, OpenError> {
    Ok(opened(platform)?.client)
}

/// Counts what a device has done for ordinary tensors since it was opened. The counts show, e.g., whether a training
/// step is one program.
///
/// # Errors
///
/// As for [`open`].
pub fn activity(platform: Platform, index: usize) -> Result<Activity, OpenError> {
    Ok(recorder(platform, index)?.activity())
}

/// The programs that a device keeps for ordinary tensors, most recently used first. They show what a training step
/// became, and can be compiled for other hardware ([`moebius_pjrt::Topology`]).
///
/// # Errors
///
/// As for [`open`].
pub fn programs(platform: Platform, index: usize) -> Result<Vec<Arc<Program>>, OpenError> {
    Ok(recorder(platform, index)?.sources())
}

/// The recorder of a device's ordinary tensors.
pub(crate) fn recorder(platform: Platform, index: usize) -> Result<Arc<Recorder>, OpenError> {
    let opened = opened(platform)?;
    let device = opened.client.device(index)?;
    Ok(opened.recorders[device.index()].clone())
}

fn opened(platform: Platform) -> Result<Opened, OpenError> {
    let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = all.get(&platform) {
        return Ok(opened.clone());
    }
    let (environment, cache) = prepared()?;
    let client = Client::new(Plugin::open(platform, &environment)?, &[])?;
    let recorder = |device| Ok(recording(Machine::new(device)?, cache.as_ref()));
    let recorders = client.devices().into_iter().map(recorder);
    let recorders: Vec<Arc<Recorder>> = recorders.collect::<Result<_, Error>>()?;
    let opened = Opened {
        host: serve(&recorders)?,
        recorders,
        client,
    };
    all.insert(platform, opened.clone());
    Ok(opened)
}

/// Makes the settings that ordinary tensors need, and returns the environment and the folder of programs that it names.
fn prepared() -> Result<(Environment, Option<DiskCache>), OpenError> {
    configure();
    if !operations_travel_alone() {
        return Err(OpenError::Settings);
    }
    let environment = Environment::from_process();
    let cache = DiskCache::of(&environment)?;
    Ok((environment, cache))
}

/// The recorder of a machine that keeps its programs in `cache`.
fn recording(machine: Machine, cache: Option<&DiskCache>) -> Arc<Recorder> {
    let machine = cache
        .cloned()
        .into_iter()
        .fold(machine, Machine::with_cache);
    Arc::new(Recorder::new(machine))
}

/// Several devices of a platform that are one device for Burn: XLA divides its programs among them ([`place`]).
#[derive(Clone)]
pub struct Placed {
    device: Device,
    mesh: Mesh,
    recorder: Arc<Recorder>,
}

/// The devices that were opened together, by platform, first device and mesh. They stay open until the process ends.
static PLACED: Mutex<BTreeMap<(Platform, usize, Mesh), Placed>> = Mutex::new(BTreeMap::new());

/// Opens the devices of `mesh` for Burn as one device, from device `first` of a platform on. Stacks of experts, and what is
/// made of them, are divided among the places of experts; every device has all of any other tensor. Results are those of
/// one device, up to the order of sums. Opening the same devices again gives the same device.
///
/// A tensor's values stay on the host until a program reads them first.
///
/// A processor offers any number of devices, which share its threads and are meant for trials.
///
/// # Errors
///
/// [`OpenError`], before anything runs; [`Error::NoSuchDevice`] when the platform has fewer devices.
pub fn place(platform: Platform, first: usize, mesh: Mesh) -> Result<Placed, OpenError> {
    let end = first.saturating_add(mesh.devices());
    let (environment, cache) = prepared()?;
    let mut all = PLACED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(placed) = all.get(&(platform, first, mesh)) {
        return Ok(placed.clone());
    }
    let client = match platform {
        Platform::Cpu => {
            let devices = ("cpu_device_count", Value::Int(end as i64));
            Client::new(Plugin::open(platform, &environment)?, &[devices])?
        }
        Platform::Tpu | Platform::Cuda => client(platform)?,
    };
    let devices = client.devices();
    let devices = devices.get(first..end).ok_or(Error::NoSuchDevice {
        index: end - 1,
        count: devices.len(),
    })?;
    let recorder = recording(Machine::placed(devices.to_vec(), mesh)?, cache.as_ref());
    let host = serve(std::slice::from_ref(&recorder))?;
    let placed = Placed {
        device: Device::remote_options(&host).device_index(0).init()?,
        mesh,
        recorder,
    };
    all.insert((platform, first, mesh), placed.clone());
    Ok(placed)
}

/// The mesh of a device that [`place`] has opened; `None` for every other device.
pub fn mesh_of(device: &Device) -> Option<Mesh> {
    let all = PLACED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = all.values();
    let placed = all.find(|placed| placed.device == *device);
    placed.map(|placed| placed.mesh)
}

impl Placed {
    /// The device for Burn: for ordinary tensors and modules, with gradients after [`Device::autodiff`].
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// As [`activity`].
    pub fn activity(&self) -> Activity {
        self.recorder.activity()
    }

    /// As [`programs`].
    pub fn programs(&self) -> Vec<Arc<Program>> {
        self.recorder.sources()
    }

    /// As [`mark_step`].
    ///
    /// # Errors
    ///
    /// As for [`mark_step`].
    pub fn mark_step(&self) -> Result<(), StepError> {
        end_step(&self.device, &self.recorder)
    }
}

/// The reason why a step can't be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Operations recorded before the end of the step couldn't be sent.
    #[error("operations of the step: {0}")]
    Unsent(String),
}

/// Ends a step: what this thread recorded on the device since the last step runs as one program, without waiting for
/// it.
///
/// A loop whose rounds read a result, wait or seed has such a boundary already. Any other loop calls this at the end of
/// each round; otherwise its rounds are recorded one after the other, up to 16384 operations, and compiled together.
///
/// # Errors
///
/// [`StepError`]. An error of the program itself shows when a result is read.
pub fn mark_step(platform: Platform, index: usize) -> Result<(), StepError> {
    let recorder = recorder(platform, index)?;
    end_step(&open(platform, index)?, &recorder)
}

fn end_step(device: &Device, recorder: &Recorder) -> Result<(), StepError> {
    let flushed = device.flush();
    flushed.map_err(|error| StepError::Unsent(format!("{error:?}")))?;
    // Burn's fusion holds operations back until a flush, and burn-remote until a request needs a reply, as this cheap
    // one does.
    device.supports_dtype(DType::F32);
    recorder.flush();
    Ok(())
}

/// The number of operations sent together; each frame wakes two threads.
const FRAME: usize = 64;
/// The largest size of fusion's graphs: none of several operations.
const GRAPH: usize = 0;

/// Changes two of Burn's settings, unless the process has made or read them before: operations are sent in frames of
/// 64, unless `burn.toml` sets another number than Burn's default; and Burn's fusion sends no graphs, which would name
/// Moebius's operations without their descriptions.
///
/// [`open`](crate::open) calls this. A program with Burn's fusion that uses another device first must call this before
/// that; `moebius::open` does.
pub fn configure() {
    let settings = BurnConfig::from_current_dir().override_from_env();
    let frame = match settings.remote().flush_threshold {
        default if default == RemoteConfig::default().flush_threshold => FRAME,
        chosen => chosen,
    };
    let changed = serde_json::to_value(&settings).and_then(|mut settings| {
        settings["remote"]["flush_threshold"] = frame.into();
        settings["fusion"]["max_graph_size"] = GRAPH.into();
        serde_json::from_value(settings)
    });
    if let Ok(settings) = changed {
        BurnConfig::try_set(settings);
    }
}

/// Whether operations reach XLA one by one, as they must.
fn operations_travel_alone() -> bool {
    !cfg!(feature = "fusion") || BurnConfig::get().fusion().max_graph_size == Some(GRAPH)
}
