//! The rounds of loops that a software adapter lets one invocation make.
//!
//! Mesa's llvmpipe, which lavapipe and its OpenGL drivers run shaders on, counts the rounds of all loops of a shader together
//! (`LP_MAX_TGSI_LOOP_ITERATIONS`, 65,535, in `gallivm`). The count is kept for each group of invocations that run as one
//! vector, isn't reset between loops, and includes the round that finds a loop's end. At the limit every loop ends without an
//! error, and later ones run a single round. GPUs and SwiftShader have no such limit. Instead of knowing drivers by their names, a
//! kernel with one long loop counts, once for each software adapter of a process.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use wgpu::util::{BufferInitDescriptor, DeviceExt};
use wgpu::{BufferUsages, MapMode, PollType};

/// The rounds that the kernel is asked for: twice the only limit that is known.
const ASKED: u32 = 1 << 17;

/// The limit of an adapter that gives no count; llvmpipe's, because no driver is known with a lower one.
pub(crate) const LEAST: u32 = 65_535;

/// Bytes of the kernel's only buffer: the rounds to make, then the rounds made.
const BYTES: u64 = 8;

/// The kernel. The number of rounds comes from a buffer, so that no compiler knows it.
const KERNEL: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(1)
fn count() {
    let rounds = words[0];
    var made = 0u;
    for (var i = 0u; i < rounds; i++) {
        made += 1u;
    }
    words[1] = made;
}
";

/// The limits of the software adapters of this process by their names; `None` for an adapter without a limit.
static KNOWN: Mutex<Vec<(String, Option<u32>)>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<(String, Option<u32>)>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limit of the adapter called `name`, if a measurement has told it.
pub(crate) fn recall(name: &str) -> Option<Option<u32>> {
    let known = known();
    let found = known.iter().find(|(of, _)| of == name);
    found.map(|(_, limit)| *limit)
}

/// Keeps the limit of the adapter called `name`.
pub(crate) fn remember(name: &str, limit: Option<u32>) {
    let mut known = known();
    known.retain(|(of, _)| of != name);
    known.push((name.to_owned(), limit));
}

/// The limit of a software adapter, measured by the first call for its name.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn of(adapter: &wgpu::Adapter, name: &str) -> Option<u32> {
    if let Some(limit) = recall(name) {
        return limit;
    }
    let limit = cubecl::future::block_on(async {
        let descriptor = wgpu::DeviceDescriptor {
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let Ok((device, queue)) = adapter.request_device(&descriptor).await else {
            return Some(LEAST);
        };
        // A failure leaves the count at 0; without a listener wgpu would panic.
        device.on_uncaptured_error(Arc::new(|_: wgpu::Error| ()));
        measure(&device, &queue).await
    });
    remember(name, limit);
    limit
}

/// Runs the kernel; returns the limit that it met, or `None` if it met none.
pub(crate) async fn measure(device: &wgpu::Device, queue: &wgpu::Queue) -> Option<u32> {
    match count(device, queue).await {
        Some(ASKED) => None,
        Some(made) if made > 0 => Some(made),
        _ => Some(LEAST),
    }
}

async fn count(device: &wgpu::Device, queue: &wgpu::Queue) -> Option<u32> {
    let [low, b, c, high] = ASKED.to_ne_bytes();
    let words = device.create_buffer_init(&BufferInitDescriptor {
        label: None,
        contents: &[low, b, c, high, 0, 0, 0, 0],
        usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC,
    });
    let read = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: BYTES,
        usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(KERNEL)),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("count"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: words.as_entire_binding(),
        }],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&words, 0, &read, 0, BYTES);
    queue.submit([encoder.finish()]);
    mapped(device, &read).await.then_some(())?;
    let bytes = read.get_mapped_range(..).ok()?;
    let made = <[u8; 4]>::try_from(bytes.get(4..8)?).ok()?;
    Some(u32::from_ne_bytes(made))
}

/// What the callback of a mapping leaves behind.
#[derive(Default)]
struct Mapping {
    ended: Option<bool>,
    waiting: Option<Waker>,
}

/// Maps a buffer to be read, after the work before it; returns whether that succeeded.
async fn mapped(device: &wgpu::Device, buffer: &wgpu::Buffer) -> bool {
    let mapping = Arc::new(Mutex::new(Mapping::default()));
    let told = mapping.clone();
    buffer.map_async(MapMode::Read, .., move |result| {
        let mut mapping = told.lock().unwrap_or_else(PoisonError::into_inner);
        mapping.ended = Some(result.is_ok());
        let waiting = mapping.waiting.take();
        // A waker may poll at once, and polling locks the mapping.
        drop(mapping);
        if let Some(waker) = waiting {
            waker.wake();
        }
    });
    // A browser returns at once and calls back later.
    let polled = device.poll(PollType::wait_indefinitely());
    let waits = cfg!(target_family = "wasm");
    poll_fn(move |context| {
        let mut mapping = mapping.lock().unwrap_or_else(PoisonError::into_inner);
        match mapping.ended {
            Some(mapped) => Poll::Ready(mapped && (waits || polled.is_ok())),
            // Nothing would ever wake a native caller.
            None if !waits => Poll::Ready(false),
            None => {
                mapping.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
