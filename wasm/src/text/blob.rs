//! Bytes of a file that the browser has: read a piece at a time, so that a file is never in the module's memory as a whole.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;

use js_sys::{ArrayBuffer, Function, Reflect, Uint8Array};
use moebius_weights::ReadAt;
use wasm_bindgen::{JsCast, JsValue};

use crate::failure::{Code, Failure};
use crate::work::wait;

/// Bytes that are asked of the browser at a time: each piece is an `ArrayBuffer` of its own until it is collected.
const PIECE: u64 = 4 << 20;

/// Bytes of a file that is read as a whole: a tokenizer or a configuration.
const WHOLE: u64 = 64 << 20;

thread_local! {
    /// The blobs that are read, and what reads them, by number: values of JavaScript belong to one thread, and readers of weights to any.
    static BLOBS: RefCell<HashMap<u32, (JsValue, JsValue)>> = RefCell::default();
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

/// A `Blob` whose bytes are there at once, as they are in workers alone.
#[derive(Debug)]
pub(super) struct BlobSource {
    number: u32,
    size: u64,
}

impl BlobSource {
    /// Reads `blob`, which [`is_blob`] has seen.
    pub(super) fn new(blob: &JsValue) -> Result<Self, Failure> {
        let make = Reflect::get(&js_sys::global(), &"FileReaderSync".into());
        let make = make.ok().and_then(|make| make.dyn_into::<Function>().ok());
        let Some(make) = make else {
            let message = "weights in a Blob: expected a worker, where their bytes can be read piece by piece, got a page; give a Uint8Array here";
            return Err(Failure::new(Code::UNSUPPORTED, message));
        };
        let reader = Reflect::construct(&make, &js_sys::Array::new());
        let reader = reader.map_err(|error| unreadable(&error))?;
        let size = size(blob)?;
        let number = NEXT.replace(NEXT.get().wrapping_add(1));
        BLOBS.with_borrow_mut(|blobs| blobs.insert(number, (blob.clone(), reader)));
        Ok(Self { number, size })
    }
}

impl Drop for BlobSource {
    fn drop(&mut self) {
        // Where the thread ends, its blobs have ended, too.
        let _ = BLOBS.try_with(|blobs| blobs.borrow_mut().remove(&self.number));
    }
}

impl ReadAt for BlobSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let found = BLOBS.with_borrow(|blobs| blobs.get(&self.number).cloned());
        let elsewhere = || io::Error::other("a Blob is read in the worker that it was given to");
        let (blob, reader) = found.ok_or_else(elsewhere)?;
        let mut at = at;
        for out in out.chunks_mut(PIECE as usize) {
            let piece = piece(&blob, &reader, at, out.len() as u64);
            let piece = piece.map_err(|error| io::Error::other(told(&error)))?;
            if piece.length() as usize != out.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.copy_to(out);
            at += out.len() as u64;
        }
        Ok(())
    }
}

/// `count` bytes from byte `at` on, or fewer where there are no more.
fn piece(blob: &JsValue, reader: &JsValue, at: u64, count: u64) -> Result<Uint8Array, JsValue> {
    let slice: Function = Reflect::get(blob, &"slice".into())?.dyn_into()?;
    let slice = slice.call2(blob, &(at as f64).into(), &((at + count) as f64).into())?;
    let read: Function = Reflect::get(reader, &"readAsArrayBuffer".into())?.dyn_into()?;
    let buffer: ArrayBuffer = read.call1(reader, &slice)?.dyn_into()?;
    Ok(Uint8Array::new(&buffer))
}

/// Whether a value is a `Blob`, as a `File` is.
pub(super) fn is_blob(value: &JsValue) -> bool {
    let known = Reflect::get(&js_sys::global(), &"Blob".into());
    let known = known
        .ok()
        .and_then(|known| known.dyn_into::<Function>().ok());
    known.is_some_and(|blob| {
        let prototype = Reflect::get(&blob, &"prototype".into());
        let prototype = prototype.ok().and_then(|found| found.dyn_into().ok());
        prototype.is_some_and(|of: js_sys::Object| of.is_prototype_of(value))
    })
}

/// All bytes of a small `Blob`, on pages, too.
pub(super) async fn whole(name: &str, blob: &JsValue) -> Result<Vec<u8>, Failure> {
    let size = size(blob)?;
    if size > WHOLE {
        return Err(Failure::expected(
            &format!("bytes of {name}"),
            format!("at most {WHOLE}"),
            size,
        ));
    }
    let read = async {
        let read: Function = Reflect::get(blob, &"arrayBuffer".into())?.dyn_into()?;
        let buffer: ArrayBuffer = wait(read.call0(blob)?.dyn_into()?).await?.dyn_into()?;
        Ok(Uint8Array::new(&buffer).to_vec())
    };
    let read: Result<_, JsValue> = read.await;
    read.map_err(|error| unreadable(&error))
}

fn size(blob: &JsValue) -> Result<u64, Failure> {
    let size = Reflect::get(blob, &"size".into()).ok();
    let size = size.and_then(|size| size.as_f64());
    let size = size.filter(|size| (0.0..=9e15).contains(size));
    let missing = || Failure::expected("a Blob", "a size", "none");
    size.map(|size| size as u64).ok_or_else(missing)
}

/// That the browser doesn't give the bytes of a file: it was changed or removed after it was chosen.
fn unreadable(error: &JsValue) -> Failure {
    let message = format!("a file can't be read: {}", told(error));
    Failure::new(Code::BAD_FILE, message)
}

/// What an exception says.
fn told(error: &JsValue) -> String {
    let message = Reflect::get(error, &"message".into()).ok();
    let message = message.and_then(|message| message.as_string());
    message.unwrap_or_else(|| format!("{error:?}"))
}
