//! Errors of the package; in JavaScript, each is an `Error` with a `code`.

use js_sys::Reflect;
use js_sys::WebAssembly::RuntimeError;
use moebius::ErrorKind;
use moebius_device::OpenError;
use moebius_device::browser::DeviceFailure;
use moebius_engine::EngineError;
use moebius_ops::Mismatch;
use moebius_weights::WeightsError;
use wasm_bindgen::{JsCast, JsValue};

use crate::console;

/// Code by which callers can tell errors apart; the names are those of `ErrorCode` in `types.d.ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(&'static str);

impl Code {
    pub(crate) const NO_WEBGPU: Self = Self("no-webgpu");
    pub(crate) const DEVICE_LOST: Self = Self("device-lost");
    pub(crate) const OUT_OF_MEMORY: Self = Self("out-of-memory");
    pub(crate) const BAD_FILE: Self = Self("bad-file");
    pub(crate) const SHAPE: Self = Self("shape");
    pub(crate) const STATE: Self = Self("state");
    pub(crate) const UNSUPPORTED: Self = Self("unsupported");
    pub(crate) const CANCELLED: Self = Self("cancelled");
    pub(crate) const DISPOSED: Self = Self("disposed");
    pub(crate) const DEVICE: Self = Self("device");
}

/// An error on its way to JavaScript.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    /// An error for a value that doesn't fit.
    pub(crate) fn expected(what: &str, expected: impl ToString, got: impl ToString) -> Self {
        let (expected, got) = (expected.to_string(), got.to_string());
        Self::new(
            Code::SHAPE,
            format!("{what}: expected {expected}, got {got}"),
        )
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(Code::CANCELLED, "cancelled by its signal")
    }
}

impl From<moebius::Error> for Failure {
    fn from(error: moebius::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Shape | ErrorKind::Config => Code::SHAPE,
            ErrorKind::State => Code::STATE,
            ErrorKind::Unsupported => Code::UNSUPPORTED,
            _ => Code::DEVICE,
        };
        Self::new(code, error)
    }
}

impl From<moebius_model::Error> for Failure {
    fn from(error: moebius_model::Error) -> Self {
        match error {
            moebius_model::Error::Moebius(error) => error.into(),
            moebius_model::Error::Config { .. } => Self::new(Code::SHAPE, error),
            moebius_model::Error::Weights(WeightsError::OutOfMemory(_))
            | moebius_model::Error::NoRoom(_) => Self::new(Code::OUT_OF_MEMORY, error),
            moebius_model::Error::Misfits(_) | moebius_model::Error::Weights(_) => {
                Self::new(Code::BAD_FILE, error)
            }
            other => Self::new(Code::DEVICE, other),
        }
    }
}

impl From<moebius_cases::Error> for Failure {
    fn from(error: moebius_cases::Error) -> Self {
        let code = match &error {
            moebius_cases::Error::Op(moebius_cases::OpError::Device(refused))
                if refused.kind() == ErrorKind::Unsupported =>
            {
                Code::UNSUPPORTED
            }
            error if error.is_file() => Code::BAD_FILE,
            _ => Code::DEVICE,
        };
        Self::new(code, error)
    }
}

/// Converts an error thrown by the module of words. A trap leaves that module in an unknown state, so it is thrown on as an
/// uncaught error; the page then starts another worker.
impl From<JsValue> for Failure {
    fn from(thrown: JsValue) -> Self {
        if thrown.is_instance_of::<RuntimeError>() {
            wasm_bindgen::throw_val(thrown);
        }
        let text = |key: &str| Reflect::get(&thrown, &key.into()).ok()?.as_string();
        let code = match text("code").as_deref() {
            Some("shape") => Code::SHAPE,
            Some("bad-file") => Code::BAD_FILE,
            _ => Code::DEVICE,
        };
        Self::new(
            code,
            text("message").unwrap_or_else(|| format!("{thrown:?}")),
        )
    }
}

impl From<Mismatch> for Failure {
    fn from(error: Mismatch) -> Self {
        Self::new(Code::SHAPE, error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Model(error) => error.into(),
            EngineError::Unfit(_) | EngineError::Refused(_) => Self::new(Code::SHAPE, error),
            _ => Self::new(Code::DEVICE, error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::NoDriver { .. } => Code::NO_WEBGPU,
            _ => Code::DEVICE,
        };
        Self::new(code, error)
    }
}

impl From<DeviceFailure> for Failure {
    fn from(failure: DeviceFailure) -> Self {
        let code = match failure {
            DeviceFailure::Lost(_) => Code::DEVICE_LOST,
            DeviceFailure::OutOfMemory(_) => Code::OUT_OF_MEMORY,
            _ => Code::DEVICE,
        };
        Self::new(code, failure)
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        console::error(failure.code.0, &failure.message)
    }
}
