//! Tests of the PJRT layer with the CPU plugin, which offers eight devices on one processor.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod buffers;
mod execution;
mod programs;

use std::sync::OnceLock;

use moebius_pjrt::{
    Buffer, Client, Code, CompileOptions, Device, ElementType, Environment, Error,
    LoadedExecutable, Platform, Plugin, TensorType, Value, locate,
};

const DEVICES: i64 = 8;

fn plugin() -> Plugin {
    let plugin = Plugin::open(Platform::Cpu, &Environment::from_process());
    plugin.unwrap_or_else(|error| panic!("{error}"))
}

fn new_client() -> Client {
    Client::new(plugin(), &[("cpu_device_count", Value::Int(DEVICES))]).unwrap()
}

/// The client that tests share unless they need one of their own.
fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(new_client)
}

fn device() -> Device {
    client().device(0).unwrap()
}

fn f32s(dims: impl Into<Vec<usize>>) -> TensorType {
    TensorType::new(dims, ElementType::F32)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    let chunks = bytes.chunks_exact(4);
    chunks
        .map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()))
        .collect()
}

/// Copies a vector to the first device.
fn vector(of: &[f32]) -> Buffer {
    Buffer::from_host(&device(), &f32s([of.len()]), &bytes(of)).unwrap()
}

fn read(buffer: &Buffer) -> Vec<f32> {
    values(&buffer.read().unwrap())
}

fn compile(text: &str, inputs: impl Into<Vec<TensorType>>) -> LoadedExecutable {
    let options = CompileOptions::default();
    client().compile(text, &options, inputs.into()).unwrap()
}

/// A program that adds two vectors of four, with `attribute` on the first argument.
fn sum_text(attribute: &str) -> String {
    format!(
        "func.func public @main(%a: tensor<4xf32> {attribute}, %b: tensor<4xf32>) -> tensor<4xf32> {{
           %0 = stablehlo.add %a, %b : tensor<4xf32>
           return %0 : tensor<4xf32>
         }}"
    )
}

fn sum() -> LoadedExecutable {
    compile(&sum_text(""), [f32s([4]), f32s([4])])
}

/// A sum of two vectors of four, whose result may replace the first argument.
fn donating_sum() -> LoadedExecutable {
    compile(
        &sum_text("{tf.aliasing_output = 0 : i32}"),
        [f32s([4]), f32s([4])],
    )
}

const ONE_TO_FOUR: [f32; 4] = [1.0, 2.0, 3.0, 4.0];

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    let error = result.unwrap_err();
    error
        .code()
        .unwrap_or_else(|| panic!("not the plugin's: {error}"))
}

#[test]
fn a_plugin_is_loaded_once_and_says_what_it_is() {
    let plugin = plugin();
    assert_eq!(plugin.platform(), Platform::Cpu);
    assert!(plugin.version() >= (0, 54));
    let names: Vec<&str> = plugin
        .attributes()
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(names.contains(&"stablehlo_current_version"), "{names:?}");
    assert!(!plugin.extensions().is_empty());
    let environment = Environment::default().with_plugin(Platform::Cpu, plugin.path());
    assert_eq!(Plugin::open(Platform::Cpu, &environment).unwrap(), plugin);
}

#[test]
fn files_that_are_no_plugins_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    // The C library of this process is a shared library but no plugin.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut mapped = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let libc = mapped.find(|path| path.contains("libc.so") || path.contains("libc-"));
    let libc = libc.unwrap();
    for path in [
        text.as_path(),
        libc.as_ref(),
        &folder.path().join("missing.so"),
    ] {
        let loaded = Plugin::load(Platform::Cpu, path, &Environment::default());
        assert!(
            matches!(loaded, Err(Error::Load { .. })),
            "{}",
            path.display()
        );
    }
    // libtpu must be prepared before it is loaded, or it takes minutes to fail.
    let libtpu = folder.path().join("libtpu.so");
    std::fs::write(&libtpu, "").unwrap();
    let misplaced = Plugin::load(Platform::Cpu, &libtpu, &Environment::default());
    let misplaced = misplaced.unwrap_err().to_string();
    assert!(misplaced.contains("libtpu drives TPUs"), "{misplaced}");
    let named = Environment::default().with_plugin(Platform::Cpu, folder.path().join("none"));
    let missing = Plugin::open(Platform::Cpu, &named).unwrap_err();
    assert!(matches!(missing, Error::NotFound(_)), "{missing}");
    assert!(locate(Platform::Cpu, &Environment::default()).is_err());
}

#[test]
fn a_client_has_the_devices_that_were_asked_for() {
    let client = client();
    assert_eq!(client.platform_name(), "cpu");
    assert_eq!(client.process_index(), 0);
    let devices = client.devices();
    assert_eq!(devices.len(), DEVICES as usize);
    for (index, device) in devices.iter().enumerate() {
        assert_eq!((device.index(), device.id()), (index, index as i32));
        assert_eq!(device.kind(), "cpu");
        assert!(
            device.description().name.contains("Cpu"),
            "{:?}",
            device.description()
        );
    }
    let none = client.device(DEVICES as usize).unwrap_err();
    assert!(matches!(none, Error::NoSuchDevice { index: 8, count: 8 }));
}

#[test]
fn options_that_end_the_process_or_name_nothing_are_refused() {
    for value in [
        Value::Int(0),
        Value::Int(-1),
        Value::Int(1 << 40),
        Value::Bool(true),
    ] {
        let refused = Client::new(plugin(), &[("cpu_device_count", value)]);
        assert!(matches!(refused, Err(Error::ClientOption { .. })));
    }
    let unnamed = Client::new(plugin(), &[("", Value::Int(1))]);
    assert!(matches!(unnamed, Err(Error::ClientOption { .. })));
}
