//! Which files of a repository, or of a snapshot in the cache, a model consists of.

use std::collections::{BTreeMap, BTreeSet};

use moebius_ops::matches_pattern;
use moebius_weights::{CONFIG_FILE, Unfit, quoted};
use serde::Deserialize;

use super::error::HubError;

/// The most bytes of an index.
pub(super) const MOST_INDEX: u64 = 64 * 1024 * 1024;
/// Files beside the weights: configurations, tokenizers and chat templates.
const BESIDE: [&str; 13] = [
    CONFIG_FILE,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
];
/// Folder of further chat templates.
const TEMPLATES: &str = "additional_chat_templates/";
/// The weights in one file.
const MODEL: &str = "model.safetensors";
/// The index of weights in several files.
const INDEX: &str = "model.safetensors.index.json";
/// The ending of indices.
const INDEX_ENDING: &str = ".safetensors.index.json";
/// Beginnings of files in safetensors that aren't the model as transformers has it: weights in Mistral's own layout, adapters.
const OTHERS: [&str; 2] = ["consolidated", "adapter_"];
/// The ending of files in GGUF.
const GGUF: &str = ".gguf";
/// The beginning of files in GGUF that hold the part of a model that sees.
const PROJECTOR: &str = "mmproj";

/// The files of a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    /// All of them.
    Files(Vec<&'a str>),
    /// Files beside the weights, and an index that names the files of the weights.
    Indexed {
        beside: Vec<&'a str>,
        index: &'a str,
    },
}

/// A model in GGUF: one file, or all parts of one that was split.
#[derive(Debug)]
struct Gguf<'a> {
    /// The path without ending and number of a part.
    stem: &'a str,
    /// Number of parts by the names of the files.
    of: usize,
    files: Vec<&'a str>,
}

/// The files that make the model of `repository` among its files' `names`: weights in safetensors with all that belongs to them, or one
/// GGUF file. With `file` only that file, or the GGUF file that it stands for.
///
/// # Errors
/// [`HubError::Unfit`] when there is no model that can be read, or a part of it is missing, [`HubError::Several`] for more than one.
pub(super) fn wanted<'a>(
    repository: &str,
    names: &[&'a str],
    file: Option<&str>,
) -> Result<Wanted<'a>, HubError> {
    if let Some(file) = file {
        return of_name(repository, names, file).map(Wanted::Files);
    }
    let in_root = |name: &&&str| !name.contains('/');
    let root: Vec<&str> = names.iter().filter(in_root).copied().collect();
    let Some(weights) = weights(repository, &root)? else {
        return match &ggufs(names)[..] {
            [] => Err(no_weights(repository, names).into()),
            models => one(repository, models.iter().collect()).map(Wanted::Files),
        };
    };
    if !root.contains(&CONFIG_FILE) {
        let expected = format!("a {CONFIG_FILE} beside {weights}");
        return Err(HubError::unfit(repository, expected, "none"));
    }
    let is_beside = |name: &&&str| {
        let template = name.starts_with(TEMPLATES) && name.ends_with(".jinja");
        template || BESIDE.contains(*name)
    };
    let mut files: Vec<&str> = names.iter().filter(is_beside).copied().collect();
    if weights.ends_with(INDEX_ENDING) {
        return Ok(Wanted::Indexed {
            beside: files,
            index: weights,
        });
    }
    files.push(weights);
    Ok(Wanted::Files(files))
}

/// The file of the weights in safetensors, or the index of several: the one that is read of a folder with all of `root`.
fn weights<'a>(repository: &str, root: &[&'a str]) -> Result<Option<&'a str>, HubError> {
    for name in [MODEL, INDEX] {
        if let Some(&name) = root.iter().find(|found| **found == name) {
            return Ok(Some(name));
        }
    }
    let other = |name: &str| OTHERS.iter().any(|other| name.starts_with(other));
    let with = |ending: &str| -> Vec<&'a str> {
        let found = root
            .iter()
            .filter(|name| name.ends_with(ending) && !other(name));
        found.copied().collect()
    };
    let indices = with(INDEX_ENDING);
    let found = if indices.is_empty() {
        with(".safetensors")
    } else {
        indices
    };
    match found[..] {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        [first, second, ..] => {
            let got = format!("{} and {}", quoted(first), quoted(second));
            let unfit = Unfit::new(repository, "one index or file of weights", got);
            Err(HubError::Several(unfit))
        }
    }
}

/// The files of weights that an index names, each once.
///
/// # Errors
/// [`Unfit`] when `bytes` are no index, or it names a file that isn't among `names`.
pub(super) fn shards<'a>(
    index: &str,
    bytes: &[u8],
    names: &[&'a str],
) -> Result<Vec<&'a str>, Unfit> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let read: Index = serde_json::from_slice(bytes)
        .map_err(|error| Unfit::new(index, "an index of tensors", error))?;
    // Some programs write `./` before the name of a file in the same folder.
    let plain = |shard: &str| shard.strip_prefix("./").unwrap_or(shard).to_owned();
    let shards: BTreeSet<String> = read.weight_map.values().map(|shard| plain(shard)).collect();
    let known = |shard: String| {
        let found = names.iter().find(|name| **name == shard).copied();
        found.ok_or_else(|| {
            let expected = format!("the file {} that it names", quoted(&shard));
            Unfit::new(index, expected, "none in the repository")
        })
    };
    shards.into_iter().map(known).collect()
}

/// The error of a repository without weights that can be read.
fn no_weights(repository: &str, names: &[&str]) -> Unfit {
    let expected = "weights in safetensors or GGUF";
    let other = [
        ".bin",
        ".pt",
        ".pth",
        ".onnx",
        ".h5",
        ".msgpack",
        ".safetensors",
    ];
    let is_other = |name: &&&str| other.iter().any(|ending| name.ends_with(ending));
    let got = match names.iter().find(is_other) {
        Some(name) => format!(
            "others, as {}; `:FILE` fetches a file of any kind",
            quoted(name)
        ),
        None => "none".to_owned(),
    };
    Unfit::new(repository, expected, got)
}

/// The file that a user named, or the files of the GGUF model that the name stands for.
fn of_name<'a>(repository: &str, names: &[&'a str], file: &str) -> Result<Vec<&'a str>, HubError> {
    let models = ggufs(names);
    let exact = names.iter().find(|name| **name == file).copied();
    if let Some(name) = exact {
        let model = models.iter().find(|model| model.files.contains(&name));
        return model.map_or(Ok(vec![name]), |model| model.all(repository));
    }
    let is_pattern = file.contains(['*', '?']);
    let matches = |model: &&Gguf<'_>| {
        let of_pattern = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            matches_pattern(file, path) || matches_pattern(file, name)
        };
        if is_pattern {
            model.files.iter().any(of_pattern)
        } else {
            has_tag(model.stem, file)
        }
    };
    let found: Vec<&Gguf<'_>> = models.iter().filter(matches).collect();
    if found.is_empty() {
        let expected = format!("a file that {} stands for", quoted(file));
        let names = short(&models.iter().collect::<Vec<_>>());
        let got = if names.is_empty() {
            "no GGUF file".to_owned()
        } else {
            names.join(", ")
        };
        return Err(HubError::unfit(repository, expected, got));
    }
    let names = short(&found);
    let mut called = found.iter().zip(&names);
    // A name may be the end of another, as `Q4_K_M` of `UD-Q4_K_M`.
    if let Some((model, _)) = called.find(|(_, name)| name.eq_ignore_ascii_case(file)) {
        return model.all(repository);
    }
    one(repository, found)
}

/// Whether a path has a quantisation's name in it, between other signs than letters, digits and `_`; case doesn't matter.
fn has_tag(path: &str, tag: &str) -> bool {
    let [path, tag] = [path, tag].map(str::to_ascii_lowercase);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    path.match_indices(&tag).any(|(at, found)| {
        let (before, after) = (&path[..at], &path[at + found.len()..]);
        !before.ends_with(word) && !after.starts_with(word)
    })
}

/// All models in GGUF, by their paths; parts that see are left out.
fn ggufs<'a>(names: &[&'a str]) -> Vec<Gguf<'a>> {
    let mut models: BTreeMap<(&str, usize), Gguf<'a>> = BTreeMap::new();
    for &name in names {
        let file = name.rsplit('/').next().unwrap_or(name);
        let at = name.len().saturating_sub(GGUF.len());
        let ending = name.get(at..).unwrap_or_default();
        if !ending.eq_ignore_ascii_case(GGUF) || file.starts_with(PROJECTOR) {
            continue;
        }
        let path = &name[..at];
        let (stem, of) = numbered(path).unwrap_or((path, 1));
        let model = models.entry((stem, of)).or_insert_with(|| Gguf {
            stem,
            of,
            files: Vec::new(),
        });
        model.files.push(name);
    }
    let mut models: Vec<Gguf<'_>> = models.into_values().collect();
    models
        .iter_mut()
        .for_each(|model| model.files.sort_unstable());
    models
}

/// The stem and the number of all parts of a path `STEM-00001-of-00003`.
fn numbered(path: &str) -> Option<(&str, usize)> {
    let (rest, of) = path.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |text: &str| text.len() == 5 && text.chars().all(|c| c.is_ascii_digit());
    (number(part) && number(of)).then_some(())?;
    Some((stem, of.parse().ok()?))
}

impl<'a> Gguf<'a> {
    /// All files, of which none may be missing.
    fn all(&self, repository: &str) -> Result<Vec<&'a str>, HubError> {
        if self.files.len() == self.of {
            return Ok(self.files.clone());
        }
        let expected = format!("{} parts of {}", self.of, quoted(self.stem));
        Err(HubError::unfit(repository, expected, self.files.len()))
    }
}

/// The files of the only model of several that match.
fn one<'a>(repository: &str, found: Vec<&Gguf<'a>>) -> Result<Vec<&'a str>, HubError> {
    match found[..] {
        [model] => model.all(repository),
        _ => {
            let names = short(&found);
            let expected = format!("one GGUF model, named as {repository}:{}", names[0]);
            let got = format!("{}: {}", names.len(), names.join(", "));
            Err(HubError::Several(Unfit::new(repository, expected, got)))
        }
    }
}

/// The models' paths without what all begin with, by which each can be named.
fn short(models: &[&Gguf<'_>]) -> Vec<String> {
    let stems: Vec<&str> = models.iter().map(|model| model.stem).collect();
    let first = stems.first().copied().unwrap_or_default();
    let shared = first.char_indices().map(|(at, c)| at + c.len_utf8());
    // Up to a sign that ends a word; a single model keeps its whole name.
    let mut shared = shared.filter(|&end| {
        let beginning = &first[..end];
        stems.len() > 1
            && beginning.ends_with(['-', '.', '/'])
            && stems.iter().all(|stem| stem.starts_with(beginning))
    });
    let end = shared.next_back().unwrap_or(0);
    stems.iter().map(|stem| stem[end..].to_owned()).collect()
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
