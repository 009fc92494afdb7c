//! libtpu, which isn't free software and not everywhere.

use moebius_pjrt::{Environment, Error, Platform, Plugin};

/// Its plugin; without libtpu says so and is `None`.
///
/// # Panics
/// When it is there, or was asked for by its path, and can't be loaded.
pub fn plugin() -> Option<Plugin> {
    match Plugin::open(Platform::Tpu, &Environment::from_process()) {
        Ok(plugin) => Some(plugin),
        Err(Error::NotFound(reason)) if reason.named_by.is_none() => {
            println!("not run: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
