//! What can go wrong between us and a plugin.

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
            /// The code of that number; one that Abseil has no name for is [`Code::Unknown`].
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

/// What can go wrong between us and a plugin.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plugin reports an error.
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
    /// A plugin speaks another version of the API.
    #[error("{} has version {}.{} of the PJRT API, {}.{} or later of the same major version is needed",
        path.display(), version.0, version.1, needed.0, needed.1)]
    Version {
        /// The plugin's file.
        path: PathBuf,
        /// Its major and minor version.
        version: (i32, i32),
        /// The oldest that is accepted.
        needed: (i32, i32),
    },
    /// A plugin is too old to have a function.
    #[error("{function} is not in this plugin of version {}.{}: its table has {entries} functions, this is number {needed}",
        plugin_version.0, plugin_version.1)]
    Missing {
        /// The function of the C API.
        function: &'static str,
        /// The plugin's major and minor version.
        plugin_version: (i32, i32),
        /// How many functions its table has.
        entries: usize,
        /// How many it must have.
        needed: usize,
    },
    /// An option of a client or a topology cannot be passed on.
    #[error("option {0}")]
    ClientOption(String),
    /// A client has no device that this process can use.
    #[error("platform {0:?} has no device")]
    NoDevices(String),
    /// There is no device of that number.
    #[error("device {index} does not exist: there are {count}")]
    NoSuchDevice {
        /// The place in the list of devices.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Options that no program can be compiled with.
    #[error("compile options: {0}")]
    CompileOptions(String),
    /// A program that no plugin is given.
    #[error("program: {0}")]
    Program(String),
    /// A name of a topology that would end the process.
    #[error("topology {0}")]
    Topology(String),
    /// A plugin uses an element type that we do not.
    #[error("element type {0} of the PJRT API is not supported")]
    UnknownElementType(i32),
    /// A tensor is larger than can be addressed.
    #[error("{0} is too large to be addressed")]
    TooLarge(TensorType),
    /// Host memory has not the size of the tensor.
    #[error("{spec} takes {expected} bytes, got {got}")]
    HostBytes {
        /// The tensor.
        spec: TensorType,
        /// Its size in bytes.
        expected: usize,
        /// The size of the memory in bytes.
        got: usize,
    },
    /// A program takes another number of arguments.
    #[error("the program takes {expected} arguments, got {got}")]
    ArgumentCount {
        /// As many as its signature has.
        expected: usize,
        /// As many as were passed.
        got: usize,
    },
    /// An argument is another tensor than the program takes.
    #[error("argument {index}: expected {expected}, got {got}")]
    Argument {
        /// The argument.
        index: usize,
        /// What the signature says.
        expected: TensorType,
        /// What was passed.
        got: TensorType,
    },
    /// An argument lies on another device than the program runs on.
    #[error("argument {index} is on device {got}, the program runs on device {expected}")]
    ArgumentDevice {
        /// The argument.
        index: usize,
        /// The device's place in the client's list.
        expected: usize,
        /// Where the argument is.
        got: usize,
    },
    /// Something belongs to another client than it is used with.
    #[error("{0} belongs to another client")]
    OtherClient(&'static str),
    /// A program runs on another number of devices.
    #[error("the program runs on {expected} devices, arguments were passed for {got}")]
    DeviceCount {
        /// As many as it was compiled for.
        expected: usize,
        /// As many as arguments were passed for.
        got: usize,
    },
    /// A buffer was given away to a program, which wrote its result in its place.
    #[error("the buffer {0} was donated to an earlier execution")]
    Donated(TensorType),
    /// Bytes are not an executable that this plugin can load.
    #[error("not an executable of this plugin: {0}")]
    Serialized(&'static str),
    /// A plugin breaks the contract of the C API.
    #[error("{function}: {reason}")]
    Contract {
        /// The function of the C API.
        function: &'static str,
        /// What it did.
        reason: &'static str,
    },
    /// A file of the disk cache cannot be written or read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

impl Error {
    /// The kind of a plugin's error; none for errors of our own.
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
