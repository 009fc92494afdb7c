//! Buffers, which are tensors in the memory of devices, and events, which stand for work that a plugin has begun.

use std::sync::Arc;

use crate::client::{Client, Device};
use crate::error::Error;
use crate::ffi::{self, BufferObject, EventObject};
use crate::plugin::Owned;
use crate::types::{ElementType, TensorType};

/// The value of `PJRT_HostBufferSemantics_kImmutableOnlyDuringCall`: the plugin copies host memory before its call
/// returns.
const COPY_DURING_CALL: i32 = 0;

/// A tensor on a device. Clones share its memory, which is freed with the last of them. The work that fills a buffer
/// may still run; whatever reads the buffer waits for it.
#[derive(Clone, Debug)]
pub struct Buffer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    object: Owned<ffi::BufferDestroy>,
    client: Client,
    device: usize,
    spec: Arc<TensorType>,
}

impl Buffer {
    /// Takes ownership of a buffer of the client's plugin.
    ///
    /// # Safety
    ///
    /// `object` is a live buffer of `client` on its device of that index, holds a tensor of `spec`, and is freed by nothing else.
    pub(crate) unsafe fn new(
        client: Client,
        object: *mut BufferObject,
        device: usize,
        spec: Arc<TensorType>,
    ) -> Self {
        // SAFETY: the caller's promise, and the client lives as long as the buffer.
        let object = unsafe { Owned::new(client.plugin(), object) };
        let inner = Inner {
            object,
            client,
            device,
            spec,
        };
        Self {
            inner: inner.into(),
        }
    }

    /// Copies `bytes` to a device: the elements in row-major order, in this machine's byte order.
    ///
    /// # Errors
    ///
    /// [`Error::HostBytes`] when `bytes` doesn't have the size of `spec`, [`Error::TooLarge`] when `spec` can't be
    /// addressed, and [`Error::Plugin`].
    pub fn from_host(device: &Device, spec: &TensorType, bytes: &[u8]) -> Result<Self, Error> {
        check_bytes(spec, bytes.len())?;
        let client = device.client();
        // Checked above: extents that don't fit an `i64` have been refused.
        let dims: Vec<i64> = spec.shape.iter().map(|&extent| extent as i64).collect();
        let mut upload = ffi::ClientBufferFromHostBuffer::of(client.object());
        upload.data = bytes.as_ptr().cast();
        upload.r#type = spec.element.code();
        upload.dims = dims.as_ptr();
        upload.num_dims = dims.len();
        upload.host_buffer_semantics = COPY_DURING_CALL;
        upload.device = device.object();
        // SAFETY: the client and the device are alive, the dimensions live until the call returns, no strides and no layout mean
        // row by row, and the bytes are as many as `spec` takes, with which the plugin is done when the call returns. Buffer
        // and event are ours.
        unsafe {
            let upload = client.plugin().ask(upload)?;
            drop(Event::new(client.clone(), upload.done_with_host_buffer));
            let spec = Arc::new(spec.clone());
            Ok(Self::new(
                client.clone(),
                upload.buffer,
                device.index(),
                spec,
            ))
        }
    }

    /// The element type and the dimensions of the tensor.
    pub fn spec(&self) -> &TensorType {
        &self.inner.spec
    }

    /// The type of the tensor's elements.
    pub fn element(&self) -> ElementType {
        self.inner.spec.element
    }

    /// The dimensions of the tensor.
    pub fn dims(&self) -> &[usize] {
        &self.inner.spec.shape
    }

    /// The client that owns the buffer.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The device that holds the buffer.
    pub fn device(&self) -> Device {
        Device::new(self.inner.client.clone(), self.inner.device)
    }

    pub(crate) fn device_index(&self) -> usize {
        self.inner.device
    }

    pub(crate) fn object(&self) -> *mut BufferObject {
        self.inner.object.get()
    }

    /// Copies the elements to `bytes`, in row-major order, and waits until the copy is done.
    ///
    /// # Errors
    ///
    /// [`Error::HostBytes`] when `bytes` doesn't have the tensor's size, [`Error::Donated`] when an execution took the
    /// buffer, and [`Error::Plugin`], also when the execution that should have filled the buffer failed.
    pub fn to_host(&self, bytes: &mut [u8]) -> Result<(), Error> {
        check_bytes(self.spec(), bytes.len())?;
        // SAFETY: `bytes` is as large as the tensor and borrowed until the event has come.
        let event = unsafe { self.start_read(bytes.as_mut_ptr(), bytes.len()) };
        event
            .and_then(|event| event.wait())
            .map_err(|error| self.explain(error))
    }

    /// Reads the elements, in row-major order.
    ///
    /// # Errors
    ///
    /// As for [`Self::to_host`].
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        self.read_async()?.wait()
    }

    /// Begins to copy the elements to the host and returns at once.
    ///
    /// # Errors
    ///
    /// As for [`Self::to_host`].
    pub fn read_async(&self) -> Result<PendingRead, Error> {
        let mut bytes = vec![0; host_bytes(self.spec())?];
        // SAFETY: `bytes` is as large as the tensor, and the pending read frees it after the event has come.
        let event = unsafe { self.start_read(bytes.as_mut_ptr(), bytes.len()) };
        let event = event.map_err(|error| self.explain(error))?;
        Ok(PendingRead {
            event,
            bytes,
            buffer: self.clone(),
        })
    }

    /// Begins to copy the elements to `to`.
    ///
    /// # Safety
    ///
    /// `to` has `size` bytes, the size of the tensor, and is neither read nor freed before the event has come.
    unsafe fn start_read(&self, to: *mut u8, size: usize) -> Result<Event, Error> {
        let order: Vec<i64> = (0..self.dims().len() as i64).rev().collect();
        // Ask for row-major order: otherwise the elements come in the device's order, which compilers choose.
        let mut layout = ffi::MemoryLayout::new();
        layout.tiled = ffi::TiledLayout::new();
        layout.tiled.minor_to_major = order.as_ptr();
        layout.tiled.minor_to_major_size = order.len();
        let mut read = ffi::BufferToHostBuffer::of(self.object());
        read.host_layout = &mut layout;
        read.dst = to.cast();
        read.dst_size = size;
        // SAFETY: the buffer is alive, the layout lives until the call returns, and the memory is the caller's promise.
        unsafe {
            let read = self.inner.client.plugin().ask(read)?;
            Ok(Event::new(self.inner.client.clone(), read.event))
        }
    }

    /// Returns an event that comes when the tensor is computed, with the error of the execution if it failed.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails to give the event.
    pub fn ready(&self) -> Result<Event, Error> {
        // SAFETY: the buffer is alive, and the event is ours.
        unsafe {
            let ready = self.inner.object.ask(ffi::BufferReadyEvent::of)?;
            Ok(Event::new(self.inner.client.clone(), ready.event))
        }
    }

    /// The bytes that the tensor takes on the device, with the padding of the device's layout.
    ///
    /// # Errors
    ///
    /// [`Error::Donated`] when an execution took the buffer, and [`Error::Plugin`].
    pub fn device_bytes(&self) -> Result<usize, Error> {
        self.check_alive()?;
        // SAFETY: the buffer is alive.
        let size = unsafe { self.inner.object.ask(ffi::BufferOnDeviceSizeInBytes::of) };
        let size = size.map_err(|error| self.explain(error))?;
        Ok(size.on_device_size_in_bytes)
    }

    /// The tensor's address in memory, as a number to compare: a result has the address of the donated argument that it
    /// replaced.
    ///
    /// # Errors
    ///
    /// [`Error::Donated`] when an execution took the buffer, and [`Error::Plugin`], e.g. when the plugin's memory has
    /// no addresses.
    pub fn address(&self) -> Result<usize, Error> {
        self.check_alive()?;
        self.ready()?.wait()?;
        // SAFETY: the buffer is alive; the address is not followed.
        let pointer = unsafe { self.inner.object.ask(ffi::BufferUnsafePointer::of) };
        let pointer = pointer.map_err(|error| self.explain(error))?;
        Ok(pointer.buffer_pointer)
    }

    /// Copies the tensor to another device of the same client.
    ///
    /// # Errors
    ///
    /// [`Error::OtherClient`] when `device` belongs to another client, [`Error::Donated`] when an execution took the
    /// buffer, and [`Error::Plugin`].
    pub fn copy_to(&self, device: &Device) -> Result<Self, Error> {
        if *device.client() != self.inner.client {
            return Err(Error::OtherClient("the device"));
        }
        self.check_alive()?;
        let mut copy = ffi::BufferCopyToDevice::of(self.object());
        copy.dst_device = device.object();
        // SAFETY: the buffer and the device are alive and of one client; the new buffer is ours.
        unsafe {
            let copied = self.inner.client.plugin().ask(copy);
            let copied = copied.map_err(|error| self.explain(error))?;
            let (client, spec) = (self.inner.client.clone(), self.inner.spec.clone());
            Ok(Self::new(client, copied.dst_buffer, device.index(), spec))
        }
    }

    /// Whether the tensor is gone, because it was donated to an execution.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        // SAFETY: the buffer object is alive, even where its memory is not.
        unsafe { Ok(self.inner.object.ask(ffi::BufferIsDeleted::of)?.is_deleted) }
    }

    /// Returns [`Error::Donated`] when an execution took the tensor.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        if self.is_deleted()? {
            Err(Error::Donated(self.spec().clone()))
        } else {
            Ok(())
        }
    }

    /// Replaces a plugin's error by [`Error::Donated`] when the cause is that the tensor was donated.
    fn explain(&self, error: Error) -> Error {
        self.check_alive().err().unwrap_or(error)
    }
}

/// A copy to the host that has begun. Dropping it waits for the copy to end.
#[derive(Debug)]
pub struct PendingRead {
    event: Event,
    bytes: Vec<u8>,
    buffer: Buffer,
}

impl PendingRead {
    /// Whether the copy is done.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin fails.
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.event.is_ready()
    }

    /// Waits for the copy and returns the elements, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the copy, or the execution that should have filled the buffer, failed.
    pub fn wait(mut self) -> Result<Vec<u8>, Error> {
        match self.event.wait() {
            Ok(()) => Ok(std::mem::take(&mut self.bytes)),
            Err(error) => Err(self.buffer.explain(error)),
        }
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        // The plugin writes to the bytes until the event has come.
        let _ = self.event.wait();
    }
}

/// The bytes that a tensor of `spec` takes in host memory.
fn host_bytes(spec: &TensorType) -> Result<usize, Error> {
    let bytes = spec.checked_bytes();
    bytes.ok_or_else(|| Error::TooLarge(spec.clone()))
}

/// Returns [`Error::HostBytes`] when `got` is not the tensor's size in bytes.
fn check_bytes(spec: &TensorType, got: usize) -> Result<(), Error> {
    let expected = host_bytes(spec)?;
    if expected == got {
        return Ok(());
    }
    Err(Error::HostBytes {
        spec: spec.clone(),
        expected,
        got,
    })
}

/// Work that a plugin has begun and that may still run.
#[derive(Debug)]
pub struct Event {
    /// The plugin's event; null for work that is done.
    object: Owned<ffi::EventDestroy>,
    /// Keeps the client alive: its threads do the work.
    _client: Client,
}

impl Event {
    /// Takes ownership of an event of `client`; null stands for an event that has come.
    ///
    /// # Safety
    ///
    /// `object` is null or a live event of the client's plugin that nothing else frees.
    pub(crate) unsafe fn new(client: Client, object: *mut EventObject) -> Self {
        // SAFETY: the caller's promise, and the client lives as long as the event.
        let object = unsafe { Owned::new(client.plugin(), object) };
        Self {
            object,
            _client: client,
        }
    }

    /// Waits until the work is done. May be called again, with the same result.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the work failed.
    pub fn wait(&self) -> Result<(), Error> {
        if self.object.get().is_null() {
            return Ok(());
        }
        // SAFETY: the event is alive until it is dropped.
        unsafe { self.object.ask(ffi::EventAwait::of) }.map(drop)
    }

    /// Whether the work is done or has failed.
    ///
    /// # Errors
    ///
    /// [`Error::Plugin`] when the plugin cannot say.
    pub fn is_ready(&self) -> Result<bool, Error> {
        if self.object.get().is_null() {
            return Ok(true);
        }
        // SAFETY: the event is alive until it is dropped.
        unsafe { Ok(self.object.ask(ffi::EventIsReady::of)?.is_ready) }
    }
}
