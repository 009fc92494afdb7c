//! Metal's shading language as CUDA C++: a kernel's built-in arguments become variables, and its shared memory a pointer;
//! the rest is C++ that `device/metal.h` explains. Lines stay where they are.

use std::fmt::Write as _;

/// The text, line for line.
pub(super) fn as_cuda(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n")
}

fn line(text: &str) -> String {
    let found = kernel(text).or_else(|| shared(text).map(|(name, _)| pointer(name)));
    // What is constant is so by its address space.
    found.unwrap_or_else(|| text.replace("constant info_st& ", "info_st const& "))
}

fn pointer(name: &str) -> String {
    format!("char* const {name} = emu_shared();")
}

/// Bytes of shared memory that a kernel's text declares.
pub(crate) fn shared_bytes(text: &str) -> u32 {
    let all = text.lines().filter_map(shared);
    all.map(|(_, bytes)| bytes).sum()
}

/// The name and the bytes of `alignas(16) threadgroup char NAME[BYTES];`.
fn shared(text: &str) -> Option<(&str, u32)> {
    let (_, declaration) = text.split_once(") threadgroup char ")?;
    let (name, bytes) = declaration.strip_suffix("];")?.split_once('[')?;
    Some((name, bytes.parse().ok()?))
}

/// `[[max_total_threads_per_threadgroup(N)]] [[kernel]] void NAME(ARGUMENTS) {REST`.
fn kernel(text: &str) -> Option<String> {
    let (attributes, signature) = text.split_once("[[kernel]] void ")?;
    let (name, rest) = signature.split_once('(')?;
    let (arguments, rest) = rest.split_once(") {")?;
    let most = attributes.split_once("per_threadgroup(")?.1;
    let (most, _) = most.split_once(')')?;
    let (mut given, mut variables) = (Vec::new(), String::new());
    for argument in arguments.split(", ") {
        match argument.trim().split_once(" [[") {
            None => given.push(argument.trim()),
            Some((pointer, attribute)) if attribute.starts_with("buffer(") => given.push(pointer),
            Some((variable, attribute)) => {
                let value = builtin(attribute.trim_end_matches("]]"));
                let _ = write!(variables, "{variable} = {value};");
            }
        }
    }
    let given = given.join(", ");
    Some(format!(
        "extern \"C\" __global__ void __launch_bounds__({most}) {name}({given}) {{{variables}{rest}"
    ))
}

/// What an argument of this attribute is.
fn builtin(attribute: &str) -> &str {
    match attribute {
        "thread_index_in_threadgroup" => "emu_thread_index()",
        "thread_position_in_threadgroup" => "emu_thread_position()",
        "threadgroup_position_in_grid" => "emu_group_position()",
        "threadgroups_per_grid" => "emu_groups()",
        "threads_per_threadgroup" => "emu_threads_of_group()",
        // A name that is nothing, for the compiler to tell.
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_variables() {
        let given = "[[max_total_threads_per_threadgroup(64)]] [[kernel]] void k(device float const* const v1 [[buffer(0)]], \
                     constant info_st const* const v2, uint3 const v3 [[threadgroups_per_grid]]) {int a;";
        let wanted = "extern \"C\" __global__ void __launch_bounds__(64) k(device float const* const v1, \
                      constant info_st const* const v2) {uint3 const v3 = emu_groups();int a;";
        assert_eq!(as_cuda(given), wanted);
    }

    #[test]
    fn shared_memory_is_counted() {
        let given = "int a;\nalignas(16) threadgroup char v4[640];";
        assert_eq!(shared_bytes(given), 640);
        assert_eq!(as_cuda(given), "int a;\nchar* const v4 = emu_shared();");
    }
}
