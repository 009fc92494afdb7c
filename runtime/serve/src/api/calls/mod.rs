//! Calls of tools: how the models of each family write them, and what clients ask for.

mod channels;
mod marked;
mod tools;

pub(super) use channels::Channels;
pub(super) use marked::Marked;
pub(super) use tools::{Choice, Tool};

use moebius_grammar::Part;
use moebius_text::ChatTemplate;

/// How the models of a family write calls of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Hermes, Qwen and others: an object between `<tool_call>` and `</tool_call>`, any number of times.
    Hermes,
    /// Llama from 3.1 on: the answer is an object with `name` and `parameters`, or several.
    Llama,
    /// Mistral: a list of objects after `[TOOL_CALLS]`.
    Mistral,
    /// gpt-oss: a message to `functions.NAME`, beside others for reasoning and for the answer.
    Harmony,
}

impl Format {
    /// The format that a template writes for the calls of earlier answers; `None` for one that isn't known.
    pub(super) fn of(template: &ChatTemplate) -> Option<Self> {
        let mentions = |mark: &str| template.mentions(mark);
        // Qwen3-Coder and GLM write other things than objects between the same marks, and newer models of Mistral other marks.
        let objects = !mentions("<function=") && !mentions("<arg_key>");
        if mentions(channels::CHANNEL) {
            Some(Self::Harmony)
        } else if mentions(marked::OPEN) {
            objects.then_some(Self::Hermes)
        } else if mentions(marked::CALLS) {
            (!mentions("[ARGS]")).then_some(Self::Mistral)
        } else {
            let named = mentions("\"parameters\": ") && mentions("ipython");
            named.then_some(Self::Llama)
        }
    }

    /// The marks that must be read in an answer, which may be special tokens.
    pub(super) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &[marked::OPEN, marked::CLOSE],
            Self::Llama => &[marked::PYTHON],
            Self::Mistral => &[marked::CALLS],
            Self::Harmony => &channels::MARKS,
        }
    }

    /// The marks that end an answer.
    pub(super) fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Harmony => &[channels::CALL],
            Self::Hermes | Self::Llama | Self::Mistral => &[],
        }
    }

    /// The parts of an answer that calls one of these tools, or several times if `many`.
    pub(super) fn parts(self, tools: &[Tool], many: bool) -> Vec<Part> {
        let one = || {
            let ways = tools.iter().map(|tool| self.one(tool));
            Part::OneOf(ways.collect())
        };
        let more = |between: &str| {
            let next = many.then(|| vec![text(between), one()]);
            next.map(Part::Repeated)
        };
        match self {
            Self::Hermes => [one()].into_iter().chain(more("\n")).collect(),
            Self::Llama => [one()].into_iter().chain(more("; ")).collect(),
            Self::Mistral => {
                let begin = [text(marked::CALLS), Part::Space, text("["), one()];
                let end = more(", ").into_iter().chain([text("]")]);
                begin.into_iter().chain(end).collect()
            }
            // A message with a call ends the answer.
            Self::Harmony => vec![channels::reasoning(), one()],
        }
    }

    /// The parts of a call of this tool.
    fn one(self, tool: &Tool) -> Vec<Part> {
        let arguments = Part::Json(tool.parameters.clone());
        let begin = |before: &str, field: &str| {
            // The name has no character that JSON would write otherwise.
            let name = &tool.name;
            text(&format!("{before}{{\"name\": \"{name}\", \"{field}\": "))
        };
        match self {
            Self::Hermes => vec![
                text(marked::OPEN),
                begin("\n", "arguments"),
                arguments,
                text("}\n"),
                text(marked::CLOSE),
            ],
            Self::Llama => vec![begin("", "parameters"), arguments, text("}")],
            Self::Mistral => vec![begin("", "arguments"), arguments, text("}")],
            Self::Harmony => channels::call(&tool.name, arguments),
        }
    }
}

/// A text as a part of an answer.
fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_tell_formats() {
        for (source, expected) in [
            ("<tool_call>{{ call }}</tool_call>", Some(Format::Hermes)),
            ("<tool_call><function={{ name }}>", None),
            ("<tool_call>{{ name }}<arg_key>", None),
            ("[TOOL_CALLS] {{ calls }}", Some(Format::Mistral)),
            ("[TOOL_CALLS]{{ name }}[ARGS]", None),
            (
                "{{ '{\"name\": \"' + name + '\", \"parameters\": ' }}<|eot_id|>ipython",
                Some(Format::Llama),
            ),
            ("<|channel|>commentary to=functions", Some(Format::Harmony)),
            ("{{ messages }}", None),
        ] {
            let template = ChatTemplate::new("test", source).unwrap();
            assert_eq!(Format::of(&template), expected, "{source}");
        }
    }

    #[test]
    fn calls_are_asked_for_as_families_write_them() {
        let tool = |name: &str| Tool {
            name: name.to_owned(),
            parameters: "true".to_owned(),
        };
        let all = Part::Json("true".to_owned());
        let call = |before: &str, name: &str, field: &str| {
            text(&format!("{before}{{\"name\": \"{name}\", \"{field}\": "))
        };
        let hermes = |name: &str| {
            let [open, close] = ["<tool_call>", "</tool_call>"].map(text);
            let begin = call("\n", name, "arguments");
            vec![open, begin, all.clone(), text("}\n"), close]
        };
        let tools = [tool("f"), tool("g")];
        let one = Part::OneOf(vec![hermes("f"), hermes("g")]);
        let parts = Format::Hermes.parts(&tools, false);
        assert_eq!(parts, std::slice::from_ref(&one));
        let more = Part::Repeated(vec![text("\n"), one.clone()]);
        assert_eq!(Format::Hermes.parts(&tools, true), [one, more]);
        let llama = vec![call("", "f", "parameters"), all.clone(), text("}")];
        let parts = Format::Llama.parts(&tools[..1], false);
        assert_eq!(parts, [Part::OneOf(vec![llama])]);
        let mistral = vec![call("", "f", "arguments"), all, text("}")];
        let mistral = Part::OneOf(vec![mistral]);
        let [calls, open, close] = ["[TOOL_CALLS]", "[", "]"].map(text);
        let more = Part::Repeated(vec![text(", "), mistral.clone()]);
        let whole = [calls, Part::Space, open, mistral, more, close];
        assert_eq!(Format::Mistral.parts(&tools[..1], true), whole);
        let harmony = Format::Harmony.parts(&tools, true);
        let [Part::Maybe(_), Part::OneOf(ways)] = &harmony[..] else {
            unreachable!("reasoning and a call: {harmony:?}")
        };
        assert_eq!(ways.len(), 2);
    }
}
