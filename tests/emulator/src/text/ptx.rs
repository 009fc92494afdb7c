//! Inline PTX: each `asm` statement becomes a call of a function in our headers.

/// Replaces the `asm` statements of a text by calls. Line numbers don't change.
pub(super) fn called(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, statement, after)) = next(rest) {
        let whole = &rest[before.len()..rest.len() - after.len()];
        out += before;
        out += &call(&statement);
        out += &"\n".repeat(whole.matches('\n').count());
        rest = after;
    }
    out.push_str(rest);
    out
}

/// An `asm` statement: its instructions and operands, results first.
struct Statement {
    template: String,
    outputs: Vec<String>,
    inputs: Vec<String>,
}

fn next(text: &str) -> Option<(&str, Statement, &str)> {
    for (at, word) in text.match_indices("asm") {
        let inside_a_word = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = text[at + word.len()..].trim_start();
        let rest = rest.strip_prefix("volatile").unwrap_or(rest).trim_start();
        if inside_a_word || !rest.starts_with("(\"") {
            continue;
        }
        let end = closing(rest)?;
        let after = rest[end + 1..].trim_start().strip_prefix(';')?;
        return Some((&text[..at], parse(&rest[1..end]), after));
    }
    None
}

/// The index of the parenthesis that closes the text's first; strings are skipped.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at a character outside of strings and parentheses.
fn cut(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut depth, mut quoted) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ if c == at && depth == 0 && !quoted => {
                parts.push(text[start..index].trim());
                start = index + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn parse(inside: &str) -> Statement {
    let parts = cut(inside, ':');
    let operands = |part: Option<&&str>| {
        let list = part.map_or(Vec::new(), |part| cut(part, ','));
        let expressions = list.into_iter().filter_map(|operand| {
            let (_, expression) = operand.split_once('(')?;
            Some(expression.strip_suffix(')')?.to_owned())
        });
        expressions.collect()
    };
    let template = parts.first().copied().unwrap_or_default();
    let template = template.trim_matches('"').replace("\\n", " ");
    Statement {
        template: template.replace("\\t", " "),
        outputs: operands(parts.get(1)),
        inputs: operands(parts.get(2)),
    }
}

fn call(statement: &Statement) -> String {
    let (template, inputs) = (&statement.template, &statement.inputs);
    if template.contains("elect.sync") {
        let result = statement.outputs.join("");
        return format!("{result} = emu_elect(__activemask());");
    }
    if template.contains("wgmma.mma_async") {
        let unknown = || "static_assert(false, \"the emulator has no such wgmma\");".to_owned();
        return wgmma(statement).unwrap_or_else(unknown);
    }
    // Products are made where they begin.
    if template.contains("wgmma.wait_group") {
        let pairs = statement.outputs.iter().zip(inputs);
        return pairs.map(|(to, from)| format!("{to} = {from}; ")).collect();
    }
    let (name, registers) = template.trim().split_once(' ').unwrap_or((template, ""));
    let words: Vec<&str> = name.split('.').collect();
    let translated = match words.as_slice() {
        ["mma", "sync", "aligned", shape, "row", "col", types @ ..] => mma(shape, types, statement),
        [
            kind @ ("ldmatrix" | "stmatrix"),
            "sync",
            "aligned",
            "m8n8",
            _,
            options @ ..,
        ] => {
            let transposed = options.contains(&"trans");
            // A store has no outputs.
            let all = [inputs.as_slice(), &statement.outputs].concat().join(", ");
            Some(format!("emu_{kind}<{transposed}>(__LINE__, {all});"))
        }
        ["atom", "relaxed", operation, .., kind] => atom(operation, kind, statement),
        ["cp", "async", "ca" | "cg", ..] => copy(registers, inputs),
        // Copies are made at once.
        ["cp", "async", "commit_group;" | "wait_group"] | ["fence", "proxy", ..] => {
            Some(";".into())
        }
        ["cvta", "to", "shared", "u64"] => both("(emu_u64)__cvta_generic_to_shared", statement),
        ["max", "NaN", "f32"] => both("emu_max_nan", statement),
        ["min", "NaN", "f32"] => both("emu_min_nan", statement),
        ["add", "sat", "s32"] => saturating('+', statement),
        ["sub", "sat", "s32"] => saturating('-', statement),
        _ => None,
    };
    let unknown =
        || format!("static_assert(false, \"the emulator has no PTX instruction {name}\");");
    translated.unwrap_or_else(unknown)
}

fn both(function: &str, statement: &Statement) -> Option<String> {
    let (result, inputs) = (statement.outputs.first()?, statement.inputs.join(", "));
    Some(format!("{result} = {function}({inputs});"))
}

fn saturating(sign: char, statement: &Statement) -> Option<String> {
    let (result, [a, b]) = (statement.outputs.first()?, statement.inputs.as_slice()) else {
        return None;
    };
    let sum = format!("(long long)({a}) {sign} (long long)({b})");
    Some(format!("{result} = emu_clamped({sum});"))
}

fn mma(shape: &str, types: &[&str], statement: &Statement) -> Option<String> {
    let k = shape.strip_prefix("m16n8k")?;
    let types = types.iter().filter(|kind| !kind.starts_with("kind::"));
    let types: Vec<&&str> = types.collect();
    let [result, a, b, _] = types.as_slice() else {
        return None;
    };
    let register = match **result {
        "f32" => "float",
        "s32" => "int",
        _ => return None,
    };
    let element = |kind: &str| match kind {
        "e4m3" | "e5m2" | "s8" => Some(format!("emu_{kind}")),
        "u8" | "f16" | "bf16" | "tf32" => Some(format!("emu_{kind}_value")),
        _ => None,
    };
    let (a, b) = (element(a)?, element(b)?);
    let all = [statement.outputs.as_slice(), &statement.inputs].concat();
    let all = all.join(", ");
    Some(format!(
        "emu_mma<{register}, {a}, {b}, {k}>(__LINE__, {all});"
    ))
}

/// Rewrites a block of `wgmma` of one stage: the sums before come first, then a pair of descriptors for each instruction.
fn wgmma(statement: &Statement) -> Option<String> {
    let template = &statement.template;
    let instructions = template.matches("wgmma.mma_async").count();
    let (_, name) = template.split_once("wgmma.mma_async.sync.aligned.m64n")?;
    let (columns, rest) = name.split_once("k16.f32.")?;
    let (kind, _) = rest.split_once('.')?;
    let (_, flags) = template.split_once(", p, 1, 1, ")?;
    let (flags, _) = flags.split_once(';')?;
    let (left, right) = flags.split_once(", ")?;
    let (sums, descriptors) = statement.inputs.split_at_checked(statement.outputs.len())?;
    if descriptors.len() != 2 * instructions {
        return None;
    }
    let (sums, descriptors) = (sums.join(", "), descriptors.join(", "));
    let outputs = statement.outputs.iter().enumerate();
    let outputs: String = outputs
        .map(|(i, out)| format!(" {out} = emu_sums[{i}];"))
        .collect();
    Some(format!(
        "{{ float emu_sums[] = {{{sums}}}; emu_u64 emu_at[] = {{{descriptors}}}; \
         emu_wgmma<emu_{kind}_value, {columns}, {left}, {right}, {instructions}>(__LINE__, emu_sums, emu_at);{outputs} }}"
    ))
}

fn atom(operation: &str, kind: &str, statement: &Statement) -> Option<String> {
    let operation = match operation {
        "add" | "min" | "max" => format!("EMU_{}", operation.to_uppercase()),
        _ => return None,
    };
    let kind = match kind {
        "f32" => "float",
        "f64" => "double",
        "u32" => "unsigned int",
        "s32" => "int",
        "u64" => "unsigned long long",
        "s64" => "long long",
        "f16" => "__half",
        "f16x2" => "__half2",
        "bf16" => "__nv_bfloat16",
        "bf16x2" => "__nv_bfloat162",
        _ => return None,
    };
    let (pointer, values) = statement.inputs.split_first()?;
    let each = statement.outputs.iter().zip(values).enumerate();
    let calls: Vec<String> = each
        .map(|(i, (result, value))| {
            format!("emu_atom<{kind}>({operation}, {result}, ({kind}*)({pointer}) + {i}, {value});")
        })
        .collect();
    Some(calls.join(" "))
}

/// Rewrites `cp.async`: the copy is made at once, and bytes beyond the source's length are zero.
fn copy(registers: &str, inputs: &[String]) -> Option<String> {
    let arguments = registers.trim_end_matches([';', ' ']).split(',');
    let arguments = arguments.map(|argument| {
        let argument = argument.trim().trim_matches(['[', ']']);
        match argument.strip_prefix('%') {
            Some(index) => inputs.get(index.parse::<usize>().ok()?).cloned(),
            None => Some(argument.to_owned()),
        }
    });
    let arguments: Option<Vec<String>> = arguments.collect();
    Some(format!("emu_copy_async({});", arguments?.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_instruction_becomes_a_call() {
        let text = "x;\nasm volatile(\"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4};\" : \
                    \"=f\"(r.i_0), \"=f\"(r.i_1) : \"r\"(f(a, 1)), \"f\"(c.i_0) );\ny";
        let wanted = "x;\nemu_mma<float, emu_e4m3, emu_e4m3, 32>(__LINE__, r.i_0, r.i_1, f(a, 1), c.i_0);\ny";
        assert_eq!(called(text), wanted);
    }

    #[test]
    fn atomics_and_copies_become_calls() {
        let text = "asm volatile(\"atom.relaxed.add.f32 %0, [%1], %2;\" : \"=f\"(result) : \"l\"(p), \"f\"(v) );";
        assert_eq!(
            called(text),
            "emu_atom<float>(EMU_ADD, result, (float*)(p) + 0, v);"
        );
        let text = "asm volatile(\"cp.async.cg.shared::cta.global [%0], [%1], 16, 16;\" :  : \"r\"(s), \"l\"(g) );";
        assert_eq!(called(text), "emu_copy_async(s, g, 16, 16);");
    }

    #[test]
    fn an_unknown_instruction_says_so() {
        let text = "asm volatile(\"bar.sync 0;\" :  :  );";
        assert!(called(text).contains("no PTX instruction bar.sync"));
    }
}
