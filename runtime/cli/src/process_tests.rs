use crate::error::CliError;
use crate::process::{listen, lost};
use std::thread;

#[test]
fn a_panic_of_a_devices_thread_is_an_error_and_others_are_not() {
    listen();
    let panics = |name: &str| {
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(|| std::panic::panic_any("planted".to_owned()));
        assert!(thread.unwrap().join().is_err());
    };
    panics("worker");
    assert_eq!(lost(), None);
    panics("DSD-0-0");
    let error = lost().map(|text| CliError::Launch(text).to_string());
    let said = "a kernel could not be launched: planted";
    assert_eq!(error.as_deref(), Some(said));
}
