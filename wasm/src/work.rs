//! What every call shares: who may still use a device, cancelling, reading results, and promises.

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

/// Milliseconds within which a browser has told everything about a failure.
const AFTERMATH: i32 = 100;

/// A device with the handle Burn knows it by.
pub(crate) struct Gpu {
    pub(crate) browser: BrowserDevice,
    pub(crate) burn: burn::tensor::Device,
}

impl Gpu {
    /// Refuses to begin anything on a device that is gone.
    pub(crate) fn alive(&self) -> Result<(), Failure> {
        match self.browser.loss() {
            Some(loss) => Err(Failure::new(Code::DEVICE_LOST, loss)),
            None => Ok(()),
        }
    }

    /// What the device reports, with all that follows from it: that is told later, and would else be
    /// told to the call that comes next.
    async fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let told = self.browser.check();
        if outcome.is_ok() && told.is_ok() {
            return outcome;
        }
        pause(AFTERMATH).await;
        let later = self.browser.check();
        told?;
        // The loss of the device may be reported after the read that failed by it.
        later?;
        outcome
    }

    /// The outcome of `work`, or the loss of the device if that comes first; the device's own
    /// complaints count more than what they did to the outcome.
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

    /// Reads tensors in one go.
    pub(crate) async fn read(&self, tensors: Transaction) -> Result<Vec<TensorData>, Failure> {
        let read = async {
            let data = tensors.execute_async().await;
            data.map_err(|error| Failure::new(Code::DEVICE, format!("{error:?}")))
        };
        self.run(read).await
    }

    /// Waits for all work.
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

    /// Refuses a tensor before memory is asked for: each is one buffer. `got` is what the error calls its shape.
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

    /// What is held on the device, after all work.
    pub(crate) async fn memory(&self) -> Result<MemoryUse, Failure> {
        self.finish().await?;
        let client = self.browser.opened().client();
        Ok(client.map_or_else(MemoryUse::default, |client| memory_in_use(&client)))
    }
}

/// Something of ours that JavaScript holds, until it disposes of it.
pub(crate) struct Held<T> {
    what: &'static str,
    value: RefCell<Option<Rc<T>>>,
}

impl<T> Held<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        let value = RefCell::new(Some(Rc::new(value)));
        Self { what, value }
    }

    /// Shares it: work that has begun ends, whatever becomes of the holder.
    pub(crate) fn get(&self) -> Result<Rc<T>, Failure> {
        let what = self.what;
        let gone = || Failure::new(Code::DISPOSED, format!("this {what} was disposed of"));
        self.value.borrow().clone().ok_or_else(gone)
    }

    pub(crate) fn dispose(&self) {
        self.value.borrow_mut().take();
    }
}

/// An `AbortSignal`, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Signal(Option<JsValue>);

impl Signal {
    /// Takes `signal` out of the options.
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

    /// Of options that hold nothing else.
    pub(crate) fn only(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("options", options)?;
        let signal = Self::take(&mut options)?;
        options.finish()?;
        Ok(signal)
    }

    /// Refuses to go on once it is aborted.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.as_ref().and_then(aborted) {
            Some(true) => Err(Failure::cancelled()),
            _ => Ok(()),
        }
    }
}

/// The end of a signal's patience, for as many waits as there are.
pub(crate) struct Aborted(Option<JsFuture>);

impl Signal {
    /// Listens to it, once for all waits.
    pub(crate) fn aborted(&self) -> Aborted {
        let promise = self.0.as_ref().map(|signal| {
            Promise::new(&mut |resolve, _| {
                let once = Object::new();
                // Both are what an `AbortSignal` has; one that refuses is never heard, and looked at between steps.
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
    /// The outcome of `work`, or that it was cancelled, at once. What the device has begun ends by itself.
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
        // A read that is dropped would leave its buffer mapped.
        spawn_local(async move { drop(work.await) });
        Err(Failure::cancelled())
    }
}

fn aborted(signal: &JsValue) -> Option<bool> {
    Reflect::get(signal, &"aborted".into()).ok()?.as_bool()
}

/// A promise of what `work` ends with.
pub(crate) fn promise<T: Into<JsValue>>(
    work: impl Future<Output = Result<T, Failure>> + 'static,
) -> Promise {
    future_to_promise(async move { work.await.map(Into::into).map_err(Into::into) })
}

/// Waits, and lets the page go on meanwhile.
async fn pause(milliseconds: i32) {
    let promise = Promise::new(&mut |resolve, _| {
        // Where nothing can be waited for, nothing is.
        if set_timeout(&resolve, milliseconds).is_err() {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    });
    // It never rejects.
    let _ = wait(promise).await;
}

/// What a promise resolves with.
pub(crate) async fn wait(promise: Promise) -> Result<JsValue, JsValue> {
    JsFuture::from(promise).await
}

/// Milliseconds of a clock that only goes forward.
pub(crate) fn now() -> f64 {
    // A place without `performance` is no browser, worker, Node or Deno.
    clock().unwrap_or(f64::NAN)
}
