//! Spans of what a program computes, for those who listen to the crate `tracing`.

use burn::tensor::Device;
use tracing::Span;

/// Runs `f` in a span. If somebody listens to the span, this waits for the device before and after, so that the time of the span is that of
/// `f` on the device, too; otherwise it only runs `f`.
pub fn in_span<R>(span: Span, device: &Device, f: impl FnOnce() -> R) -> R {
    let wait = || {
        // A device error shows at the caller's next read; a span only needs the wait.
        let _ = device.sync();
    };
    waited(span, wait, f)
}

/// Does what [`in_span`] does, with a function that waits for the device.
pub(crate) fn waited<R>(span: Span, wait: impl Fn(), f: impl FnOnce() -> R) -> R {
    if span.is_disabled() {
        return f();
    }
    wait();
    let _entered = span.entered();
    let result = f();
    wait();
    result
}
