//! Calls of tools: how the models of each family write them, and what clients ask for.

mod channels;
mod marked;
mod pairs;
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
    /// Qwen3-Coder: a function and its arguments, all in marks, between the same two, any number of times.
    Coder,
    /// GLM from 4.5 on: a name and arguments in marks between the same two, any number of times.
    Glm,
    /// Llama from 3.1 on: the answer is an object with `name` and `parameters`, or several.
    Llama,
    /// Mistral: a list of objects after `[TOOL_CALLS]`.
    Mistral,
    /// Newer models of Mistral: a name and an object after `[TOOL_CALLS]`, any number of times.
    MistralNamed,
    /// gpt-oss: a message to `functions.NAME`, beside others for reasoning and for the answer.
    Harmony,
}

impl Format {
    /// The format that a template writes for the calls of earlier answers; `None` for one that isn't known.
    pub(super) fn of(template: &ChatTemplate) -> Option<Self> {
        let mentions = |mark: &str| template.mentions(mark);
        if mentions(channels::CHANNEL) {
            Some(Self::Harmony)
        } else if mentions(marked::OPEN) {
            Some(if mentions(pairs::FUNCTION) {
                Self::Coder
            } else if mentions(pairs::KEY) {
                Self::Glm
            } else {
                Self::Hermes
            })
        } else if mentions(marked::CALLS) {
            Some(if mentions(marked::ARGUMENTS) {
                Self::MistralNamed
            } else {
                Self::Mistral
            })
        } else {
            let named = mentions("\"parameters\": ") && mentions("ipython");
            named.then_some(Self::Llama)
        }
    }

    /// The marks that must be read in an answer, which may be special tokens.
    pub(super) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Hermes | Self::Coder => &[marked::OPEN, marked::CLOSE],
            Self::Glm => &[
                marked::OPEN,
                marked::CLOSE,
                pairs::KEY,
                pairs::KEY_END,
                pairs::VALUE,
                pairs::VALUE_END,
            ],
            Self::Llama => &[marked::PYTHON],
            Self::Mistral => &[marked::CALLS],
            Self::MistralNamed => &[marked::CALLS, marked::ID, marked::ARGUMENTS],
            Self::Harmony => &channels::MARKS,
        }
    }

    /// The marks that end an answer.
    pub(super) fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Harmony => &[channels::CALL],
            _ => &[],
        }
    }

    /// The parts of an answer that calls one of these tools, or several times if `many`.
    pub(super) fn parts(self, tools: &[Tool], many: bool) -> Vec<Part> {
        let one = || {
            let ways = tools.iter().map(|tool| self.one(tool));
            Part::OneOf(ways.collect())
        };
        let more = |between: &str| {
            let between = Some(between).filter(|between| !between.is_empty());
            let next = between.map(text).into_iter().chain([one()]);
            many.then(|| Part::Repeated(next.collect()))
        };
        match self {
            Self::Hermes | Self::Coder | Self::Glm => {
                [one()].into_iter().chain(more("\n")).collect()
            }
            Self::MistralNamed => [one()].into_iter().chain(more("")).collect(),
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
            Self::Coder => {
                let open = format!("\n{}{}>\n", pairs::FUNCTION, tool.name);
                let end = format!("{}\n", pairs::FUNCTION_END);
                let parts = [text(marked::OPEN), text(&open)].into_iter();
                let parts = parts.chain(pairs::CODER.parts(tool));
                parts.chain([text(&end), text(marked::CLOSE)]).collect()
            }
            Self::Glm => {
                let open = format!("{}\n", tool.name);
                let parts = [text(marked::OPEN), text(&open)].into_iter();
                let parts = parts.chain(pairs::GLM.parts(tool));
                parts.chain([text(marked::CLOSE)]).collect()
            }
            Self::MistralNamed => {
                let marks = [marked::CALLS, &tool.name, marked::ARGUMENTS].map(text);
                marks.into_iter().chain([arguments]).collect()
            }
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
            ("<tool_call><function={{ name }}>", Some(Format::Coder)),
            ("<tool_call>{{ name }}<arg_key>", Some(Format::Glm)),
            ("[TOOL_CALLS] {{ calls }}", Some(Format::Mistral)),
            ("[TOOL_CALLS]{{ name }}[ARGS]", Some(Format::MistralNamed)),
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
        let [name, end] = ["\n<function=f>\n", "</function>\n"];
        let coder = ["<tool_call>", name, end, "</tool_call>"].map(text);
        let coder = Part::OneOf(vec![coder.into()]);
        assert_eq!(Format::Coder.parts(&tools[..1], false), [coder]);
        let glm = ["<tool_call>", "f\n", "</tool_call>"].map(text);
        let glm = Part::OneOf(vec![glm.into()]);
        let more = Part::Repeated(vec![text("\n"), glm.clone()]);
        assert_eq!(Format::Glm.parts(&tools[..1], true), [glm, more]);
        let [calls, name, arguments] = ["[TOOL_CALLS]", "f", "[ARGS]"].map(text);
        let named = Part::OneOf(vec![vec![calls, name, arguments, all.clone()]]);
        let more = Part::Repeated(vec![named.clone()]);
        let parts = Format::MistralNamed.parts(&tools[..1], true);
        assert_eq!(parts, [named, more]);
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
