//! From a place in compiled code to a line of the kernel's text, by the host's `addr2line`.

use std::ffi::CStr;
use std::process::Command;

/// The line of `kernel.cu`, through what was inlined from our headers.
pub(super) fn of(code: usize) -> Option<u32> {
    // SAFETY: `dladdr` only looks the address up; the name it gives has an end.
    let (file, offset) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(std::ptr::without_provenance(code), &mut info) == 0 {
            return None;
        }
        let file = CStr::from_ptr(info.dli_fname).to_str().ok()?.to_owned();
        (file, code - info.dli_fbase.addr())
    };
    let mut lookup = Command::new("addr2line");
    let answer = lookup
        .args(["-i", "-e", &file, &format!("{offset:#x}")])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&answer.stdout);
    text.lines().find_map(|frame| {
        let (_, line) = frame.split_once("kernel.cu:")?;
        line.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    })
}
