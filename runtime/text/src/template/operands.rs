//! Changes to a template's text for what the engine can't be told otherwise: operands of `~` are printed like in Python, loops know how
//! long a text is, `%` formats a text, and a dictionary's methods count before its keys.
//!
//! Each change puts a filter around a part of an expression, or a call in place of a name, on the same line. The parts are found by their
//! tokens, as operators of lower rank, commas and brackets delimit them.

/// A string, a name or number, or a sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Word,
    Sign,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    start: usize,
    end: usize,
    kind: Kind,
    text: &'a str,
}

/// A replacement of bytes of the template.
struct Edit {
    start: usize,
    end: usize,
    text: &'static str,
}

/// An operand whose end isn't known yet.
#[derive(Clone, Copy, Default)]
struct Operand {
    /// Number of the first token, and of the last so far.
    tokens: Option<[usize; 2]>,
    /// Whether `~` is before the operand.
    joined: bool,
    /// Whether the operand has a text before `%`, and the bracket of its filter is open.
    formats: bool,
}

/// Names of a dictionary's methods, and calls that give what a value has under these names.
const MEMBERS: [(&str, &str); 11] = [
    ("clear", "_member('clear')"),
    ("copy", "_member('copy')"),
    ("fromkeys", "_member('fromkeys')"),
    ("get", "_member('get')"),
    ("items", "_member('items')"),
    ("keys", "_member('keys')"),
    ("pop", "_member('pop')"),
    ("popitem", "_member('popitem')"),
    ("setdefault", "_member('setdefault')"),
    ("update", "_member('update')"),
    ("values", "_member('values')"),
];

/// The template with these changes.
pub(super) fn with_filters(template: &str) -> String {
    let mut edits = Vec::new();
    let mut at = 0;
    while let Some(found) = template[at..].find('{') {
        let open = at + found;
        let rest = &template[open..];
        at = if rest.starts_with("{#") {
            rest.find("#}").map_or(template.len(), |end| open + end + 2)
        } else if rest.starts_with("{%") || rest.starts_with("{{") {
            let is_block = rest.starts_with("{%");
            let close = if is_block { "%}" } else { "}}" };
            let (tokens, end) = tokens(template, open + 2, close);
            let keyword = tokens.first().filter(|_| is_block).map(|token| token.text);
            if keyword == Some("raw") {
                let after = template[end..].find("endraw");
                after.map_or(template.len(), |after| end + after)
            } else {
                operands(&tokens, is_block, &mut edits);
                members(&tokens, keyword == Some("set"), &mut edits);
                if keyword == Some("for") {
                    iterated(&tokens, &mut edits);
                }
                end
            }
        } else {
            open + 1
        };
    }
    apply(template, edits)
}

fn apply(template: &str, mut edits: Vec<Edit>) -> String {
    // Edits at the same place stay in the order in which they were made.
    edits.sort_by_key(|edit| edit.start);
    let mut changed = String::with_capacity(template.len() + 16 * edits.len());
    let mut done = 0;
    for edit in edits {
        changed.push_str(&template[done..edit.start]);
        changed.push_str(edit.text);
        done = edit.end;
    }
    changed.push_str(&template[done..]);
    changed
}

/// The tokens of a tag from `from` up to `close`, and the place after the tag.
fn tokens<'a>(template: &'a str, from: usize, close: &str) -> (Vec<Token<'a>>, usize) {
    let (mut tokens, mut depth) = (Vec::new(), 0_usize);
    // A sign at either end of a tag is about the spaces around the tag.
    let mut start = from + usize::from(template[from..].starts_with(['-', '+']));
    loop {
        let rest = &template[start..];
        let Some(character) = rest.chars().next() else {
            return (tokens, template.len());
        };
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if depth == 0 && unsigned.starts_with(close) {
            return (tokens, template.len() - unsigned.len() + close.len());
        }
        if character.is_whitespace() {
            start += character.len_utf8();
            continue;
        }
        let (length, kind) = token(rest, character);
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let end = start + length;
        let text = &template[start..end];
        tokens.push(Token {
            start,
            end,
            kind,
            text,
        });
        start = end;
    }
}

/// The length in bytes and the kind of the token at the start of `rest`, which begins with `first`.
fn token(rest: &str, first: char) -> (usize, Kind) {
    if first == '\'' || first == '"' {
        let mut characters = rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            if character == '\\' {
                characters.next();
            } else if character == first {
                return (at + 1, Kind::Text);
            }
        }
        return (rest.len(), Kind::Text);
    }
    let ends = |text: &str| {
        text.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    if first.is_alphanumeric() || first == '_' {
        let mut length = ends(rest);
        if first.is_ascii_digit() {
            let fraction = rest[length..].strip_prefix('.');
            if let Some(fraction) =
                fraction.filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
            {
                length += 1 + ends(fraction);
            }
            let has_exponent = rest[..length].ends_with(['e', 'E']);
            if has_exponent && rest[length..].starts_with(['-', '+']) {
                length += 1 + ends(&rest[length + 1..]);
            }
        }
        return (length, Kind::Word);
    }
    let pairs = ["==", "!=", "<=", ">=", "//", "**"];
    let length = if pairs.iter().any(|pair| rest.starts_with(pair)) {
        2
    } else {
        first.len_utf8()
    };
    (length, Kind::Sign)
}

/// Whether token `at` stands between operands of `~`, rather than in one; `begins` tells whether an operand would begin with it.
fn divides(tokens: &[Token<'_>], at: usize, is_block: bool, begins: bool) -> bool {
    let back = |steps: usize| at.checked_sub(steps).map_or("", |at| tokens[at].text);
    let token = tokens[at];
    if back(1) == "." {
        return false;
    }
    match token.kind {
        Kind::Text => false,
        Kind::Word => match token.text {
            "and" | "or" | "if" | "else" => true,
            "not" => back(1) != "is",
            "in" => back(1) != "is" && !(back(1) == "not" && back(2) == "is"),
            _ => is_block && at == 0,
        },
        Kind::Sign => match token.text {
            "~" | "," | ":" | "=" | "==" | "!=" | "<" | ">" | "<=" | ">=" => true,
            "+" | "-" => !begins && !["*", "/", "//", "%", "**", "+", "-"].contains(&back(1)),
            _ => false,
        },
    }
}

/// Puts the filter `string` around operands of `~`, and formats texts before `%`.
fn operands(tokens: &[Token<'_>], is_block: bool, edits: &mut Vec<Edit>) {
    let mut open = vec![Operand::default()];
    for (at, token) in tokens.iter().enumerate() {
        let closes = token.kind == Kind::Sign && [")", "]", "}"].contains(&token.text);
        if closes
            && open.len() > 1
            && let Some(mut inner) = open.pop()
        {
            inner.end(tokens, false, edits);
        }
        let Some(operand) = open.last_mut() else {
            return;
        };
        if divides(tokens, at, is_block, operand.tokens.is_none()) {
            operand.end(tokens, token.text == "~", edits);
            continue;
        }
        let is_sign = token.kind == Kind::Sign;
        if is_sign && ["*", "/", "//", "%", "**"].contains(&token.text) {
            operand.end_format(tokens, edits);
            if token.text == "%" && at > 0 && tokens[at - 1].kind == Kind::Text {
                edits.push(Edit {
                    start: token.start,
                    end: token.end,
                    text: "|_percent(",
                });
                operand.formats = true;
            }
        }
        let first = operand.tokens.map_or(at, |[first, _]| first);
        operand.tokens = Some([first, at]);
        if is_sign && ["(", "[", "{"].contains(&token.text) {
            open.push(Operand::default());
        }
    }
    while let Some(mut operand) = open.pop() {
        operand.end(tokens, false, edits);
    }
}

impl Operand {
    /// Ends the operand, with `~` after it if `joined`, and begins the next.
    fn end(&mut self, tokens: &[Token<'_>], joined: bool, edits: &mut Vec<Edit>) {
        self.end_format(tokens, edits);
        if let Some([first, last]) = self.tokens.take() {
            let is_text = first == last && tokens[first].kind == Kind::Text;
            if (self.joined || joined) && !is_text {
                edits.extend(around([tokens[first], tokens[last]], ")|string"));
            }
        }
        self.joined = joined;
    }

    /// Closes the bracket around what `%` formats.
    fn end_format(&mut self, tokens: &[Token<'_>], edits: &mut Vec<Edit>) {
        if let Some([_, last]) = self.tokens.filter(|_| self.formats) {
            let end = tokens[last].end;
            edits.push(Edit {
                start: end,
                end,
                text: ")",
            });
        }
        self.formats = false;
    }
}

/// Puts calls in place of the names of a dictionary's methods that aren't called themselves, as in `d.items`.
fn members(tokens: &[Token<'_>], is_set: bool, edits: &mut Vec<Edit>) {
    let is_sign = |at: usize, text: &str| {
        let token = tokens.get(at);
        token.is_some_and(|token| token.kind == Kind::Sign && token.text == text)
    };
    // What is before the sign gets the value, and stays a name.
    let set = (0..tokens.len()).find(|at| is_set && is_sign(*at, "="));
    let start = set.unwrap_or(0).max(1);
    for (at, token) in tokens.iter().enumerate().skip(start) {
        let known = MEMBERS.iter().find(|(name, _)| *name == token.text);
        if let Some(&(_, text)) = known.filter(|_| is_sign(at - 1, ".") && !is_sign(at + 1, "(")) {
            edits.push(Edit {
                start: token.start,
                end: token.end,
                text,
            });
        }
    }
}

/// Puts what a loop goes over through the filter `_each`.
fn iterated(tokens: &[Token<'_>], edits: &mut Vec<Edit>) {
    let mut depth = 0_usize;
    let mut from = None;
    let mut to = tokens.len();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "in" if depth == 0 && from.is_none() => from = Some(at + 1),
            "if" if depth == 0 && from.is_some() => {
                to = at;
                break;
            }
            "recursive" if at + 1 == tokens.len() => to = at,
            _ => {}
        }
    }
    if let Some(from) = from.filter(|from| *from < to) {
        edits.extend(around([tokens[from], tokens[to - 1]], ")|_each"));
    }
}

/// Edits that put a bracket before the first of these tokens, and `after` behind the last.
fn around([first, last]: [Token<'_>; 2], after: &'static str) -> [Edit; 2] {
    let at = |place: usize, text: &'static str| Edit {
        start: place,
        end: place,
        text,
    };
    [at(first.start, "("), at(last.end, after)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_put_around_operands() {
        for (template, expected) in [
            (
                "a ~ b {{ c }}{# {{ a ~ b }} #}",
                "a ~ b {{ c }}{# {{ a ~ b }} #}",
            ),
            (
                "{{ a ~ 'x' ~ b.c[0] }}",
                "{{ (a)|string ~ 'x' ~ (b.c[0])|string }}",
            ),
            (
                "{{- x|trim ~ -1 -}}",
                "{{- (x|trim)|string ~ (-1)|string -}}",
            ),
            (
                "{% set x = a * 2 ~ b + c %}",
                "{% set x = (a * 2)|string ~ (b)|string + c %}",
            ),
            (
                "{% if not a ~ b == c and d ~ e is not none %}",
                "{% if not (a)|string ~ (b)|string == c and (d)|string ~ (e is not none)|string %}",
            ),
            (
                "{{ f(a ~ 1e+20, {'k': b ~ '}}'}) ~ (c ~ d) }}",
                "{{ (f((a)|string ~ (1e+20)|string, {'k': (b)|string ~ '}}'}))|string ~ (((c)|string ~ (d)|string))|string }}",
            ),
            (
                "{{ a ~ b if c else d ~ \"\\\"~\" }}",
                "{{ (a)|string ~ (b)|string if c else (d)|string ~ \"\\\"~\" }}",
            ),
            (
                "{% raw %}{{ a ~ b }}{% endraw %}{{ a ~ b }}",
                "{% raw %}{{ a ~ b }}{% endraw %}{{ (a)|string ~ (b)|string }}",
            ),
            (
                "{%- for c in x ~ y if c -%}",
                "{%- for c in ((x)|string ~ (y)|string)|_each if c -%}",
            ),
            (
                "{% for k, v in d.items() recursive %}",
                "{% for k, v in (d.items())|_each recursive %}",
            ),
            (
                "{{ '%d' % x|int ~ y % 2 }}",
                "{{ ('%d' |_percent( x|int))|string ~ (y % 2)|string }}",
            ),
            (
                "{{ 'a' '%s' % (1, 2) }}",
                "{{ 'a' '%s' |_percent( (1, 2)) }}",
            ),
            ("{{ a.in ~ b.not }}", "{{ (a.in)|string ~ (b.not)|string }}"),
            (
                "{{ d.items ~ d.items() ~ d['items'] ~ items }}",
                "{{ (d._member('items'))|string ~ (d.items())|string ~ (d['items'])|string ~ (items)|string }}",
            ),
            (
                "{% set ns.values = f(get=ns.values) %}",
                "{% set ns.values = f(get=ns._member('values')) %}",
            ),
        ] {
            assert_eq!(with_filters(template), expected);
        }
    }

    #[test]
    fn any_text_is_taken() {
        for template in [
            "{",
            "{{",
            "{%",
            "{#",
            "{{ '",
            "{% raw",
            "{{ \"\\",
            "{{ é ~",
            "{{ ) ~ ] }",
            "{{ (}} ~ b",
            "{% for x in %}",
            "{{ 1.e+",
            "{{-",
            "{%+",
        ] {
            assert!(with_filters(template).len() >= template.len());
        }
    }
}
