//! Parts that all calls share: access to the device, cancellation, reading results, and promises.

use std::cell::RefCell;
use std::fmt::Display;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use burn::tensor::{TensorData, Transaction};
use js_sys::{Function, Object, Promise, Reflect};
use moebius_device::browser::BrowserDevice;
use moebius_device::{MemoryUse, memory_in_use};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::{JsFuture, future_to_promise, spawn_local};

use crate::failure::{Code, Failure};
use crate::objects::Options;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = performance, js_name = now)]
    fn clock() -> Result<f64, JsValue>;

    #[wasm_bindgen(catch, js_name = setTimeout)]
    fn set_timeout(then: &Function, milliseconds: i32) -> Result<JsValue, JsValue>;
}

/// Milliseconds after which a browser has reported everything about a failure.
const AFTERMATH: i32 = 100;

/// A browser's device, with Burn's handle of it.
pub(crate) struct Gpu {
    pub(crate) browser: BrowserDevice,
    pub(crate) burn: burn::tensor::Device,
}

impl Gpu {
    /// Fails if the device is gone, before any work begins.
    pub(crate) fn alive(&self) -> Result<(), Failure> {
        match self.browser.loss() {
            Some(loss) => Err(Failure::new(Code::DEVICE_LOST, loss)),
            None => Ok(()),
        }
    }

    /// The outcome, or else the device's error. After a failure, waits for later errors that follow from it, which the
    /// next call would otherwise receive.
    async fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let told = self.browser.check();
        if outcome.is_ok() && told.is_ok() {
            return outcome;
        }
        pause(AFTERMATH).await;
        let later = self.browser.check();
        told?;
        // The loss of the device may be reported only after the read that failed because of it.
        later?;
        outcome
    }

    /// The outcome of `work`, or the loss of the device if that comes first; an error of the device takes precedence
    /// over the outcome.
    pub(crate) async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.settle(Ok(())).await?;
        let (mut work, mut lost) = (pin!(work), pin!(self.browser.lost()));
        let outcome = std::future::poll_fn(|context| {
            if let Poll::Ready(outcome) = work.as_mut().poll(context) {
                return Poll::Ready(outcome);
            }
            let lost = lost.as_mut().poll(context);
            lost.map(|loss| Err(Failure::new(Code::DEVICE_LOST, loss)))
        })
        .await;
        self.settle(outcome).await
    }

    /// Reads several tensors from the device at once.
    pub(crate) async fn read(&self, tensors: Transaction) -> Result<Vec<TensorData>, Failure> {
        let read = async {
            let data = tensors.execute_async().await;
            data.map_err(|error| Failure::new(Code::DEVICE, format!("{error:?}")))
        };
        self.run(read).await
    }

    /// Waits for all work on the device.
    pub(crate) async fn finish(&self) -> Result<(), Failure> {
        let client = self.browser.opened().client();
        let finish = async {
            match client {
                Some(client) => client
                    .sync()
                    .await
                    .map_err(|error| Failure::new(Code::DEVICE, error)),
                None => Ok(()),
            }
        };
        self.run(finish).await
    }

    /// Refuses a tensor that is larger than one buffer, before its memory is allocated. `got` describes its shape in
    /// the error.
    pub(crate) fn holds(
        &self,
        what: &str,
        shape: [usize; 4],
        got: impl Display,
    ) -> Result<(), Failure> {
        let bytes = shape.iter().try_fold(4_usize, |all, n| all.checked_mul(*n));
        let most = self.browser.opened().capability.limits.max_binding_bytes;
        if bytes.is_some_and(|bytes| bytes as u64 <= most) {
            return Ok(());
        }
        let message = format!("{what}: expected at most {most} bytes, got {got} f32s");
        Err(Failure::new(Code::OUT_OF_MEMORY, message))
    }

    /// Memory held on the device, after all work.
    pub(crate) async fn memory(&self) -> Result<MemoryUse, Failure> {
        self.finish().await?;
        let client = self.browser.opened().client();
        Ok(client.map_or_else(MemoryUse::default, |client| memory_in_use(&client)))
    }
}

/// An object of ours that JavaScript holds until it is disposed of.
pub(crate) struct Held<T> {
    what: &'static str,
    value: RefCell<Option<Rc<T>>>,
}

impl<T> Held<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        let value = RefCell::new(Some(Rc::new(value)));
        Self { what, value }
    }

    /// The shared object, which work in progress keeps alive after a disposal; fails once the object is disposed of.
    pub(crate) fn get(&self) -> Result<Rc<T>, Failure> {
        let what = self.what;
        let gone = || Failure::new(Code::DISPOSED, format!("this {what} was disposed of"));
        self.value.borrow().clone().ok_or_else(gone)
    }

    pub(crate) fn dispose(&self) {
        self.value.borrow_mut().take();
    }
}

/// An optional `AbortSignal`.
#[derive(Clone, Default)]
pub(crate) struct Signal(Option<JsValue>);

impl Signal {
    /// Takes the property `signal` out of the options.
    pub(crate) fn take(options: &mut Options) -> Result<Self, Failure> {
        let signal = options.value("signal");
        if let Some(signal) = &signal
            && aborted(signal).is_none()
        {
            return Err(Failure::expected(
                "signal",
                "an AbortSignal",
                "something else",
            ));
        }
        Ok(Self(signal))
    }

    /// The signal of options that have no other property.
    pub(crate) fn only(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("options", options)?;
        let signal = Self::take(&mut options)?;
        options.finish()?;
        Ok(signal)
    }

    /// Fails with 'cancelled' if the signal is aborted.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.as_ref().and_then(aborted) {
            Some(true) => Err(Failure::cancelled()),
            _ => Ok(()),
        }
    }
}

/// A signal's abort as a future, for any number of waits.
pub(crate) struct Aborted(Option<JsFuture>);

impl Signal {
    /// Listens to the signal, once for all waits.
    pub(crate) fn aborted(&self) -> Aborted {
        let promise = self.0.as_ref().map(|signal| {
            Promise::new(&mut |resolve, _| {
                let once = Object::new();
                // Both calls succeed on any `AbortSignal`; if not, the signal is still checked between steps.
                let _ = Reflect::set(&once, &"once".into(), &true.into());
                let _ = Reflect::get(signal, &"addEventListener".into()).map(|listen| {
                    Function::from(listen).call3(signal, &"abort".into(), &resolve, &once)
                });
            })
        });
        Aborted(promise.map(JsFuture::from))
    }
}

impl Aborted {
    /// The outcome of `work`, or the error 'cancelled' as soon as the signal is aborted; work that the device has begun
    /// ends by itself.
    pub(crate) async fn or<T: 'static>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>> + 'static,
    ) -> Result<T, Failure> {
        let mut work = Box::pin(work);
        let outcome = std::future::poll_fn(|context| {
            if let Poll::Ready(outcome) = work.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            match &mut self.0 {
                Some(aborted) => Pin::new(aborted).poll(context).map(|_| None),
                None => Poll::Pending,
            }
        });
        if let Some(outcome) = outcome.await {
            return outcome;
        }
        self.0 = None;
        // A dropped read would leave its buffer mapped.
        spawn_local(async move { drop(work.await) });
        Err(Failure::cancelled())
    }
}

fn aborted(signal: &JsValue) -> Option<bool> {
    Reflect::get(signal, &"aborted".into()).ok()?.as_bool()
}

/// A promise that settles with the outcome of `work`.
pub(crate) fn promise<T: Into<JsValue>>(
    work: impl Future<Output = Result<T, Failure>> + 'static,
) -> Promise {
    future_to_promise(async move { work.await.map(Into::into).map_err(Into::into) })
}

/// Waits without blocking the page.
async fn pause(milliseconds: i32) {
    let promise = Promise::new(&mut |resolve, _| {
        // Without timers, there is no wait.
        if set_timeout(&resolve, milliseconds).is_err() {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    });
    // This promise never rejects.
    let _ = wait(promise).await;
}

/// Waits for a promise; returns the value it resolves with.
pub(crate) async fn wait(promise: Promise) -> Result<JsValue, JsValue> {
    JsFuture::from(promise).await
}

/// Milliseconds of a monotonic clock.
pub(crate) fn now() -> f64 {
    // Browsers, workers, Node and Deno all have `performance`.
    clock().unwrap_or(f64::NAN)
}
