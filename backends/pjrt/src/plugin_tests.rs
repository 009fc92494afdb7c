//! Tests with function tables that no real plugin has: of other versions, too short, and with errors of every kind.

use std::ffi::c_void;
use std::ptr;

use super::*;

/// A function table as plugins lay it out.
#[repr(C)]
struct Table {
    header: ApiHeader,
    functions: [Option<ffi::Function>; 4],
}

fn table(version: (c_int, c_int), functions: [Option<ffi::Function>; 4]) -> Result<Opened, Error> {
    let second = ffi::ExtensionHeader {
        struct_size: size_of::<ffi::ExtensionHeader>(),
        kind: 9,
        next: ptr::null(),
    };
    let first = ffi::ExtensionHeader {
        struct_size: size_of::<ffi::ExtensionHeader>(),
        kind: 4,
        next: &second,
    };
    let table = Table {
        header: ApiHeader {
            struct_size: size_of::<Table>(),
            extensions: &first,
            version_size: 24,
            version_extensions: ptr::null(),
            major: version.0,
            minor: version.1,
        },
        functions,
    };
    // SAFETY: the table and the extensions live until the end of this function, and the sizes are theirs.
    unsafe { read_table(Path::new("plugin.so"), ptr::from_ref(&table).cast()) }
}

/// An error in these tests: a code and a text.
type Failure = (c_int, &'static str);

unsafe extern "C" fn destroy(arguments: *mut c_void) -> *mut ffi::ErrorObject {
    // SAFETY: the record that the table's first function takes.
    let arguments = unsafe { &*arguments.cast::<ffi::ErrorDestroy>() };
    if !arguments.error.is_null() {
        // SAFETY: made by `fail`, and destroyed once.
        drop(unsafe { Box::from_raw(arguments.error.cast::<Failure>()) });
    }
    ptr::null_mut()
}

unsafe extern "C" fn message(arguments: *mut c_void) -> *mut ffi::ErrorObject {
    // SAFETY: the record that the table's second function takes, with an error that `fail` made.
    unsafe {
        let arguments = &mut *arguments.cast::<ffi::ErrorMessage>();
        let (_, text) = *arguments.error.cast::<Failure>();
        arguments.message = text.as_ptr().cast();
        arguments.message_size = text.len();
    }
    ptr::null_mut()
}

unsafe extern "C" fn code(arguments: *mut c_void) -> *mut ffi::ErrorObject {
    // SAFETY: the record that the table's third function takes, with an error that `fail` made.
    unsafe {
        let arguments = &mut *arguments.cast::<ffi::ErrorGetCode>();
        arguments.code = (*arguments.error.cast::<Failure>()).0;
    }
    ptr::null_mut()
}

unsafe extern "C" fn fail(_: *mut c_void) -> *mut ffi::ErrorObject {
    Box::into_raw(Box::<Failure>::new((8, "no memory"))).cast()
}

fn api(opened: Opened) -> Api {
    let (version, table, extensions) = opened;
    Api {
        path: PathBuf::from("plugin.so"),
        platform: Platform::Cpu,
        version,
        table,
        extensions,
        attributes: Vec::new(),
        flags: String::new(),
    }
}

#[test]
fn other_versions_are_refused() {
    for version in [(1, 0), (1, 81), (0, 53), (0, 0), (-1, 60)] {
        let error = table(version, [None; 4]).unwrap_err();
        assert!(matches!(error, Error::Version { version: v, needed: OLDEST, .. } if v == version));
    }
    let (version, functions, extensions) = table((0, 999), [None; 4]).unwrap();
    assert_eq!((version, functions.len()), ((0, 999), 4));
    assert_eq!(extensions, [4, 9]);
}

#[test]
fn functions_that_a_plugin_does_not_have_are_errors() {
    let api = api(table((0, 60), [None; 4]).unwrap());
    // SAFETY: neither function is called: one is past the table's end, the other is null in it.
    let (past, null) = unsafe {
        (
            api.call(&mut ffi::ExecutableGetCompiledMemoryStats::new()),
            api.call(&mut ffi::PluginInitialize::new()),
        )
    };
    match past.unwrap_err() {
        Error::Missing {
            function,
            plugin_version: (0, 60),
            entries: 4,
            needed: 97,
        } => assert_eq!(function, "PJRT_Executable_GetCompiledMemoryStats"),
        other => panic!("{other}"),
    }
    assert!(matches!(null, Err(Error::Missing { needed: 4, .. })));
}

#[test]
fn an_error_is_read_and_freed() {
    let functions: [ffi::Function; 4] = [destroy, message, code, fail];
    let api = api(table((0, 60), functions.map(Some)).unwrap());
    // SAFETY: `fail` takes any record.
    let error = unsafe { api.call(&mut ffi::PluginInitialize::new()) }.unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
    assert_eq!(
        error.to_string(),
        "PJRT_Plugin_Initialize: resource exhausted: no memory"
    );
}
