//! Errors of plugins and of this crate's checks.

use std::fmt;
use std::path::PathBuf;

use crate::locate::NotFound;
use crate::types::TensorType;

macro_rules! codes {
    ($($variant:ident $code:literal $name:literal)*) => {
        /// The kind of a plugin's error: the status codes of Abseil, which PJRT uses.
        #[allow(missing_docs, reason = "the names are the definitions, at abseil.io/docs/cpp/guides/status-codes")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant),* }

        impl Code {
            /// The code with this number; [`Code::Unknown`] for a number that Abseil does not name.
            pub(crate) fn from_number(number: i32) -> Self {
                match number { $($code => Self::$variant,)* _ => Self::Unknown }
            }
        }

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

codes! {
    Ok 0 "ok"
    Cancelled 1 "cancelled"
    Unknown 2 "unknown"
    InvalidArgument 3 "invalid argument"
    DeadlineExceeded 4 "deadline exceeded"
    NotFound 5 "not found"
    AlreadyExists 6 "already exists"
    PermissionDenied 7 "permission denied"
    ResourceExhausted 8 "resource exhausted"
    FailedPrecondition 9 "failed precondition"
    Aborted 10 "aborted"
    OutOfRange 11 "out of range"
    Unimplemented 12 "unimplemented"
    Internal 13 "internal"
    Unavailable 14 "unavailable"
    DataLoss 15 "data loss"
    Unauthenticated 16 "unauthenticated"
}

/// An error of a plugin, or of a check before one is called.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plugin reported an error.
    #[error("{function}: {code}: {message}")]
    Plugin {
        /// The function of the C API that failed.
        function: &'static str,
        /// The kind of the error.
        code: Code,
        /// The plugin's own words.
        message: String,
    },
    /// No plugin was found.
    #[error(transparent)]
    NotFound(Box<NotFound>),
    /// A file cannot be loaded as a plugin.
    #[error("loading {}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the system's loader says, or what is missing in the file.
        reason: String,
    },
    /// A plugin has a version of the API that is not supported.
    #[error("{} has version {}.{} of the PJRT API, {}.{} or later of the same major version is needed",
        path.display(), version.0, version.1, needed.0, needed.1)]
    Version {
        /// The plugin's file.
        path: PathBuf,
        /// The plugin's major and minor version.
        version: (i32, i32),
        /// The oldest version that is accepted.
        needed: (i32, i32),
    },
    /// A plugin is too old to have a function of the API.
    #[error("{function} is not in this plugin of version {}.{}: its table has {entries} functions, this is number {needed}",
        plugin_version.0, plugin_version.1)]
    Missing {
        /// The missing function.
        function: &'static str,
        /// The plugin's major and minor version.
        plugin_version: (i32, i32),
        /// The number of functions in the plugin's table.
        entries: usize,
        /// The number of functions that the table must have.
        needed: usize,
    },
    /// An option of a client or a topology cannot be passed on.
    #[error("option {0}")]
    ClientOption(String),
    /// A client has no devices that this process can use; holds the platform's name.
    #[error("platform {0:?} has no device")]
    NoDevices(String),
    /// There is no device with this index.
    #[error("device {index} does not exist: there are {count}")]
    NoSuchDevice {
        /// The index that was asked for.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// The compile options are invalid.
    #[error("compile options: {0}")]
    CompileOptions(String),
    /// A program is refused before the plugin sees it.
    #[error("program: {0}")]
    Program(String),
    /// The name or options of a topology would make the plugin end the process.
    #[error("topology {0}")]
    Topology(String),
    /// A plugin uses an element type that [`crate::ElementType`] does not have; holds its number in the API.
    #[error("element type {0} of the PJRT API is not supported")]
    UnknownElementType(i32),
    /// A tensor is larger than the API can address.
    #[error("{0} is too large to be addressed")]
    TooLarge(TensorType),
    /// Host memory doesn't have the size of the tensor.
    #[error("{spec} takes {expected} bytes, got {got}")]
    HostBytes {
        /// The tensor's type.
        spec: TensorType,
        /// The tensor's size in bytes.
        expected: usize,
        /// The size of the memory in bytes.
        got: usize,
    },
    /// The number of arguments differs from the program's signature.
    #[error("the program takes {expected} arguments, got {got}")]
    ArgumentCount {
        /// The number of arguments in the signature.
        expected: usize,
        /// The number of arguments passed.
        got: usize,
    },
    /// An argument's shape or element type differs from the program's signature.
    #[error("argument {index}: expected {expected}, got {got}")]
    Argument {
        /// The argument's index.
        index: usize,
        /// The type in the signature.
        expected: TensorType,
        /// The type of the argument passed.
        got: TensorType,
    },
    /// An argument is on another device than the one that the program runs on.
    #[error("argument {index} is on device {got}, the program runs on device {expected}")]
    ArgumentDevice {
        /// The argument's index.
        index: usize,
        /// The index of the program's device in the client's list.
        expected: usize,
        /// The index of the argument's device in the client's list.
        got: usize,
    },
    /// A buffer or device belongs to another client.
    #[error("{0} belongs to another client")]
    OtherClient(&'static str),
    /// Arguments were passed for the wrong number of devices.
    #[error("the program runs on {expected} devices, arguments were passed for {got}")]
    DeviceCount {
        /// The number of devices that the program was compiled for.
        expected: usize,
        /// The number of devices that arguments were passed for.
        got: usize,
    },
    /// A buffer was donated to an earlier execution, which wrote a result in its place.
    #[error("the buffer {0} was donated to an earlier execution")]
    Donated(TensorType),
    /// The bytes are not an executable that this plugin can load; holds the reason.
    #[error("not an executable of this plugin: {0}")]
    Serialized(&'static str),
    /// A plugin violates the contract of the C API.
    #[error("{function}: {reason}")]
    Contract {
        /// The function of the C API.
        function: &'static str,
        /// What the plugin did.
        reason: &'static str,
    },
    /// A file of the disk cache cannot be written or read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's message.
        reason: String,
    },
}

impl Error {
    /// The code of a plugin's error; `None` for the other errors.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Plugin { code, .. } => Some(*code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_abseils() {
        assert_eq!(Code::from_number(3), Code::InvalidArgument);
        assert_eq!(Code::from_number(16), Code::Unauthenticated);
        assert_eq!(Code::from_number(17), Code::Unknown);
        assert_eq!(Code::from_number(-1), Code::Unknown);
    }
}
