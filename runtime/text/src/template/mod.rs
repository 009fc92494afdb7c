//! Turns conversations into text, by the template that a model was trained with.
//!
//! Templates are Jinja, and Python's libraries run them with blocks trimmed, with a few names of their own and with the methods of Python's
//! types. This module does the same, and its output equals that of `transformers` byte for byte, except for the differences that the module
//! `python` lists.

mod chat;
mod filters;
mod json;
mod methods;
mod operands;
mod python;

pub use chat::{Chat, Message};

use std::fmt;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::Value as Json;

use crate::error::guarded;
use crate::files::{CONFIG, Files, content, kind};
use crate::marks::unused;
use crate::{Error, TemplateError, TemplateFault, Tokenizer};

/// Default fuel of a rendering, in instructions and units of 64 bytes of text: at most 256 MB, and less than a second.
const FUEL: u64 = 4_000_000;
/// Largest template in bytes; the largest published ones have 30 000.
const LONGEST: usize = 1 << 20;

/// A chat template, which turns a conversation into a text.
pub struct ChatTemplate {
    environment: Environment<'static>,
    name: String,
    /// Special tokens as pairs like `bos_token` and `<s>`.
    tokens: Vec<(String, String)>,
}

impl ChatTemplate {
    /// Reads the template of a Hugging Face folder: `chat_template.jinja` and the files in `additional_chat_templates`, or else
    /// `chat_template` in `tokenizer_config.json`, one text or a list with names. `name` selects one of several, and is `default` if it is
    /// left out. The template gets the special tokens that the folder names.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Unfit`] with the path of the file, or with the available names; [`Error::Template`] for a text that
    /// isn't a valid template.
    pub fn from_folder(folder: &Path, name: Option<&str>) -> Result<Self, Error> {
        Self::from_files(&Files::in_folder(folder), name)
    }

    /// Reads the template like [`ChatTemplate::from_folder`], from files in a folder or in memory.
    ///
    /// # Errors
    /// As [`ChatTemplate::from_folder`].
    pub fn from_files(files: &Files, name: Option<&str>) -> Result<Self, Error> {
        let source = find(files, name)?;
        let mut template = Self::new(&source.label, &source.text)?;
        let named = files.special_tokens()?;
        let named = named.iter();
        let named =
            named.filter_map(|(key, token)| Some((key.clone(), content(token)?.to_owned())));
        template.tokens = named.collect();
        Ok(template)
    }

    /// Whether the files have a template that [`ChatTemplate::from_files`] would look at.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Unfit`] for files in which a template is looked for.
    pub fn is_in(files: &Files) -> Result<bool, Error> {
        Ok(!own_files(files)?.is_empty() || !config(files)?.is_empty())
    }

    /// The text of the template that the files have by default, in Jinja; `None` where they have no template.
    ///
    /// # Errors
    /// Those of [`Self::is_in`], and [`Error::Unfit`] for templates of which none is the default.
    pub fn text_in(files: &Files) -> Result<Option<String>, Error> {
        if Self::is_in(files)? {
            Ok(Some(find(files, None)?.text))
        } else {
            Ok(None)
        }
    }

    /// Parses a template; errors call it `name`.
    ///
    /// # Errors
    /// [`Error::Template`] with the line that isn't valid Jinja, [`Error::Unfit`] for a text of more than a megabyte.
    pub fn new(name: &str, text: &str) -> Result<Self, Error> {
        if text.len() > LONGEST {
            let expected = format!("a template of at most {LONGEST} bytes");
            return Err(Error::unfit(name, expected, text.len()));
        }
        let mut environment = environment().map_err(|error| template_error(name, &error))?;
        // Python reads all ends of lines as one kind.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = without_generation(&text);
        let changed = operands::with_filters(&text);
        let added = guarded(|| {
            let added = environment.add_template_owned(name.to_owned(), changed);
            // An error is that of the template as it was written.
            added.or_else(|_| environment.add_template_owned(name.to_owned(), text))
        });
        let added = added.map_err(|why| panicked(name, why))?;
        added.map_err(|error| template_error(name, &error))?;
        Ok(Self {
            environment,
            name: name.to_owned(),
            tokens: Vec::new(),
        })
    }

    /// Parses the template `text` of a GGUF file's metadata, and gives it the tokens with which the tokenizer begins and ends a text.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn from_gguf(text: &str, tokenizer: &Tokenizer) -> Result<Self, Error> {
        let mut template = Self::new("tokenizer.chat_template", text)?;
        let ends = tokenizer.eos_ids().first().copied();
        for (name, id) in [("bos_token", tokenizer.bos_id()), ("eos_token", ends)] {
            if let Some(token) = id.and_then(|id| tokenizer.token(id)) {
                template = template.with_token(name, &token);
            }
        }
        Ok(template)
    }

    /// This template with the text of a special token under the name that templates use, like `bos_token`.
    pub fn with_token(mut self, name: &str, token: &str) -> Self {
        self.tokens.retain(|(known, _)| known != name);
        self.tokens.push((name.to_owned(), token.to_owned()));
        self
    }

    /// This template with other fuel: the limit of a rendering's instructions plus the units of 64 bytes that it makes. The default is 4
    /// million.
    pub fn with_fuel(mut self, fuel: u64) -> Self {
        self.environment.set_fuel(Some(fuel));
        self
    }

    /// The name of the template in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the template's source contains a text, such as a mark that its model writes around calls of tools.
    pub fn mentions(&self, text: &str) -> bool {
        let template = self.environment.get_template(&self.name);
        template.is_ok_and(|template| template.source().contains(text))
    }

    /// Renders a conversation as text. The text contains the special tokens that the model expects, so encode it without adding any.
    ///
    /// # Errors
    /// [`Error::Template`] with the template's name, the line, and the cause: the template, the conversation or the fuel.
    pub fn render(&self, chat: &Chat) -> Result<String, Error> {
        let context = chat.context(&self.tokens);
        let text = guarded(|| {
            let template = self.environment.get_template(&self.name);
            template.and_then(|template| template.render(context))
        });
        let text = text.map_err(|why| panicked(&self.name, why))?;
        text.map_err(|error| template_error(&self.name, &error).into())
    }

    /// Renders a conversation, and encodes the text with `tokenizer`, which adds no special tokens to those that the template writes. If
    /// [`Tokenizer::with_special_as_text`] says so, names of special tokens in the messages, tools and documents stand for their characters.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`] and [`Tokenizer::encode`].
    pub fn encode(&self, chat: &Chat, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
        let text = self.render(chat)?;
        let Some(names) = tokenizer.names_as_text() else {
            return tokenizer.encode(&text, false);
        };
        let mark = unused(&text)?;
        let chat = chat.marked(names, mark);
        let chat = chat.map_err(|error| template_error(&self.name, &error))?;
        tokenizer.encode_marked(&self.render(&chat)?, mark, false)
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("name", &self.name)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// The Jinja environment, set up as in `transformers`.
fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(python::print);
    filters::add(&mut environment);
    environment.add_test("iterable", python::is_iterable);
    environment.add_test("sequence", python::is_sequence);
    environment.add_test("callable", python::is_callable);
    environment.add_function("raise_exception", python::raise_exception);
    // Jinja doesn't have this function.
    environment.remove_global("debug");
    Ok(environment)
}

/// The error for a template on which the engine panicked.
fn panicked(name: &str, why: String) -> TemplateError {
    TemplateError {
        template: name.to_owned(),
        line: None,
        fault: TemplateFault::Failed,
        message: why,
    }
}

fn template_error(name: &str, error: &minijinja::Error) -> TemplateError {
    let refused = python::refusal(error);
    let fault = match error.kind() {
        _ if refused.is_some() => TemplateFault::Refused,
        ErrorKind::OutOfFuel => TemplateFault::Fuel,
        ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownTest
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownMethod => TemplateFault::Syntax,
        _ => TemplateFault::Failed,
    };
    let message = refused.unwrap_or_else(|| match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    });
    TemplateError {
        template: name.to_owned(),
        line: error.line(),
        fault,
        message,
    }
}

/// An object for templates, with the fields in the given order.
fn map(pairs: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::from_pairs(pairs)
}

/// Name of the template that is used by default.
const DEFAULT: &str = "default";

/// The text of a template, with its names.
struct Source {
    name: String,
    /// Name of the template in errors.
    label: String,
    text: String,
}

/// Finds the template with this name in the files, or the default one.
fn find(files: &Files, name: Option<&str>) -> Result<Source, Error> {
    let mut sources = own_files(files)?;
    if sources.is_empty() {
        sources = config(files)?;
    }
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    let wanted = name.unwrap_or(DEFAULT);
    let found = sources.into_iter().find(|source| source.name == wanted);
    found.ok_or_else(|| {
        if names.is_empty() {
            let places = "chat_template.jinja, or chat_template in tokenizer_config.json";
            Error::unfit(files.place(), places, "neither")
        } else {
            let expected = format!("one of the chat templates {}", names.join(", "));
            Error::unfit(files.place(), expected, wanted)
        }
    })
}

/// The templates that have files of their own.
fn own_files(files: &Files) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    let mut add = |name: &str, file: &str| -> Result<(), Error> {
        sources.extend(files.text(file)?.map(|text| Source {
            name: name.to_owned(),
            label: files.label(file),
            text,
        }));
        Ok(())
    };
    add(DEFAULT, "chat_template.jinja")?;
    for file in files.names_in("additional_chat_templates")? {
        let path = Path::new(&file);
        let name = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(name) = name.filter(|_| path.extension().is_some_and(|end| end == "jinja")) {
            add(name, &file)?;
        }
    }
    Ok(sources)
}

/// The templates in `tokenizer_config.json`.
fn config(files: &Files) -> Result<Vec<Source>, Error> {
    let config = files.config()?;
    let label = format!("chat_template in {}", files.label(CONFIG));
    let unfit = |value: &Json| {
        Err(Error::unfit(
            &label,
            "a template, or a list of objects with name and template",
            kind(value),
        ))
    };
    let list = match config
        .as_ref()
        .and_then(|config| config.get("chat_template"))
    {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::String(text)) => {
            let (name, text) = (DEFAULT.to_owned(), text.clone());
            return Ok(vec![Source { name, label, text }]);
        }
        Some(Json::Array(list)) => list,
        Some(other) => return unfit(other),
    };
    let mut sources = Vec::new();
    for item in list {
        let field = |name| item.get(name).and_then(Json::as_str);
        let (Some(name), Some(text)) = (field("name"), field("template")) else {
            return unfit(item);
        };
        sources.push(Source {
            name: name.to_owned(),
            label: format!("chat_template {name} in {}", files.label(CONFIG)),
            text: text.to_owned(),
        });
    }
    Ok(sources)
}

/// Replaces the tags `{% generation %}` and `{% endgeneration %}` by `{% with %}` and its end. In `transformers`, these tags mark what the
/// assistant said, for training; they add no text, but have variables of their own, and their lines are trimmed like those of other blocks.
fn without_generation(text: &str) -> String {
    let mut parts = text.split("{%");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push_str("{%");
        let replaced = part.split_once("%}").and_then(|(tag, rest)| {
            let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
            let block = match word {
                "generation" => "with",
                "endgeneration" => "endwith",
                _ => return None,
            };
            Some(format!("{}%}}{rest}", tag.replacen(word, block, 1)))
        });
        all.push_str(&replaced.unwrap_or_else(|| part.to_owned()));
    }
    all
}
