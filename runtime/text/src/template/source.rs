//! Where the text of a template is.

use std::path::Path;

use serde_json::Value;

use crate::Error;
use crate::files::{Files, kind};

/// The name of the template that is used where none is asked for.
const DEFAULT: &str = "default";

/// A template's text.
pub(super) struct Source {
    name: String,
    /// What errors call it.
    pub(super) label: String,
    pub(super) text: String,
}

/// The template of these files with this name, or the default one.
pub(super) fn find(files: &Files, name: Option<&str>) -> Result<Source, Error> {
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

/// The templates that are files of their own.
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
    let file = "tokenizer_config.json";
    let config = files.object(file)?;
    let label = format!("chat_template in {}", files.label(file));
    let unfit = |value: &Value| {
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
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => {
            let (name, text) = (DEFAULT.to_owned(), text.clone());
            return Ok(vec![Source { name, label, text }]);
        }
        Some(Value::Array(list)) => list,
        Some(other) => return unfit(other),
    };
    let mut sources = Vec::new();
    for item in list {
        let field = |name| item.get(name).and_then(Value::as_str);
        let (Some(name), Some(text)) = (field("name"), field("template")) else {
            return unfit(item);
        };
        sources.push(Source {
            name: name.to_owned(),
            label: format!("chat_template {name} in {}", files.label(file)),
            text: text.to_owned(),
        });
    }
    Ok(sources)
}

/// The template with `{% generation %}` and its end as a condition that holds. `transformers` has that tag, around what an assistant said,
/// to find it again while it trains; it adds no text, but its line is trimmed like any other block's.
pub(super) fn without_generation(text: &str) -> String {
    let mut parts = text.split("{%");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push_str("{%");
        let replaced = part.split_once("%}").and_then(|(tag, rest)| {
            let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
            let block = match word {
                "generation" => "if true",
                "endgeneration" => "endif",
                _ => return None,
            };
            Some(format!("{}%}}{rest}", tag.replacen(word, block, 1)))
        });
        all.push_str(&replaced.unwrap_or_else(|| part.to_owned()));
    }
    all
}
