//! Burn's global settings, as XLA's devices need them.

use burn_std::config::remote::RemoteConfig;
use burn_std::config::{BurnConfig, RuntimeConfig};

/// Operations that travel together: each frame wakes two threads.
const FRAME: usize = 64;
/// No graphs of several operations.
const GRAPH: usize = 0;

/// Changes two of Burn's settings, unless the process has made or read them before: operations travel in frames of 64, where
/// `burn.toml` doesn't have another number than Burn's default; and Burn's fusion sends no graphs of its own, which would name
/// our operations without saying what they are.
///
/// [`open`](crate::open) does it, too. A program with Burn's fusion that uses another device first calls this before;
/// `moebius::open` does.
pub fn configure() {
    let settings = BurnConfig::from_current_dir().override_from_env();
    let frame = match settings.remote().flush_threshold {
        default if default == RemoteConfig::default().flush_threshold => FRAME,
        chosen => chosen,
    };
    let changed = serde_json::to_value(&settings).and_then(|mut settings| {
        settings["remote"]["flush_threshold"] = frame.into();
        settings["fusion"]["max_graph_size"] = GRAPH.into();
        serde_json::from_value(settings)
    });
    if let Ok(settings) = changed {
        BurnConfig::try_set(settings);
    }
}

/// Whether our operations reach XLA one by one, as they must.
pub(crate) fn operations_travel_alone() -> bool {
    !cfg!(feature = "fusion") || BurnConfig::get().fusion().max_graph_size == Some(GRAPH)
}
