//! Errors as JavaScript sees them: an `Error` with a `code`.

use js_sys::Reflect;
use moebius::ErrorKind;
use moebius_device::OpenError;
use moebius_device::browser::DeviceFailure;
use wasm_bindgen::{JsCast, JsValue};

/// What a caller can tell errors apart by; the names are those of `ErrorCode` in `types.d.ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    NoWebGpu,
    DeviceLost,
    OutOfMemory,
    BadFile,
    Shape,
    Unsupported,
    Cancelled,
    Disposed,
    Device,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Self::NoWebGpu => "no-webgpu",
            Self::DeviceLost => "device-lost",
            Self::OutOfMemory => "out-of-memory",
            Self::BadFile => "bad-file",
            Self::Shape => "shape",
            Self::Unsupported => "unsupported",
            Self::Cancelled => "cancelled",
            Self::Disposed => "disposed",
            Self::Device => "device",
        }
    }
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

    /// A value that doesn't fit.
    pub(crate) fn expected(what: &str, expected: impl ToString, got: impl ToString) -> Self {
        let (expected, got) = (expected.to_string(), got.to_string());
        Self::new(
            Code::Shape,
            format!("{what}: expected {expected}, got {got}"),
        )
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(Code::Cancelled, "cancelled by its signal")
    }
}

impl From<moebius::Error> for Failure {
    fn from(error: moebius::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Shape => Code::Shape,
            ErrorKind::Unsupported => Code::Unsupported,
            _ => Code::Device,
        };
        Self::new(code, error)
    }
}

impl From<moebius_model::Error> for Failure {
    fn from(error: moebius_model::Error) -> Self {
        match error {
            moebius_model::Error::Moebius(error) => error.into(),
            moebius_model::Error::Config { .. } => Self::new(Code::Shape, error),
            other => Self::new(Code::Device, other),
        }
    }
}

impl From<moebius_cases::Error> for Failure {
    fn from(error: moebius_cases::Error) -> Self {
        let code = if error.is_file() {
            Code::BadFile
        } else {
            Code::Device
        };
        Self::new(code, error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::NoDriver { .. } => Code::NoWebGpu,
            _ => Code::Device,
        };
        Self::new(code, error)
    }
}

impl From<DeviceFailure> for Failure {
    fn from(failure: DeviceFailure) -> Self {
        let code = match failure {
            DeviceFailure::Lost(_) => Code::DeviceLost,
            DeviceFailure::OutOfMemory(_) => Code::OutOfMemory,
            _ => Code::Device,
        };
        Self::new(code, failure)
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        let error = js_sys::Error::new(&failure.message);
        error.set_name("MoebiusError");
        let error: JsValue = error.unchecked_into();
        // An error is an ordinary object: nothing keeps it from taking a property.
        let _ = Reflect::set(&error, &"code".into(), &failure.code.name().into());
        error
    }
}
