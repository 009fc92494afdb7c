//! Metal's built-in arguments in one order. CubeCL 0.11.3 takes them from a hash set.

/// The text, line for line; of `[[kernel]] void NAME(ARGUMENTS) {` the arguments that are no buffers are sorted, and stand behind the
/// others.
pub(super) fn with_sorted_arguments(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(sorted).collect();
    lines.join("\n") + "\n"
}

fn sorted(line: &str) -> String {
    let signature = || {
        let (before, rest) = line.split_once("[[kernel]] void ")?;
        let (name, rest) = rest.split_once('(')?;
        let (arguments, after) = rest.split_once(") {")?;
        let is_builtin =
            |argument: &&str| argument.contains(" [[") && !argument.contains(" [[buffer(");
        let (mut builtins, mut all): (Vec<_>, Vec<_>) = arguments.split(", ").partition(is_builtin);
        builtins.sort_unstable();
        all.append(&mut builtins);
        let all = all.join(", ");
        Some(format!("{before}[[kernel]] void {name}({all}) {{{after}"))
    };
    signature().unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_other_orders_give_one_text() {
        let run = |arguments: &str| {
            format!(
                "[[kernel]] void k(device float* const v7 [[buffer(0)]], {arguments}, constant info_st const* const v8) {{\n}}\n"
            )
        };
        let one = "uint3 const x_v20 [[x]], uint const y_v21 [[y]]";
        let other = "uint const y_v21 [[y]], uint3 const x_v20 [[x]]";
        let wanted = "[[kernel]] void k(device float* const v7 [[buffer(0)]], constant info_st const* const v8, \
                      uint const y_v21 [[y]], uint3 const x_v20 [[x]]) {\n}\n";
        assert_eq!(with_sorted_arguments(&run(one)), wanted);
        assert_eq!(with_sorted_arguments(&run(other)), wanted);
    }
}
