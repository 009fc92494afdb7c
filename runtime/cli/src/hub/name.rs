//! Names of repositories, files and revisions on a hub, as a person writes them and as a server lists them.

use std::path::{Component, Path};
use std::str::FromStr;

use moebius_weights::{Unfit, quoted};

/// The most characters of a repository's name and of its owner's.
const LONGEST: usize = 96;

/// What is to be fetched: `ORG/NAME`, or `ORG/NAME:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    /// The repository, `ORG/NAME`.
    pub(crate) repository: String,
    /// The file that was asked for: its path, a pattern with `*` and `?`, or a quantisation as `Q4_K_M`.
    pub(crate) file: Option<String>,
}

impl FromStr for ModelName {
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        let (repository, file) = match text.split_once(':') {
            Some((repository, file)) => (repository, Some(file)),
            None => (text, None),
        };
        let parts = repository.split_once('/');
        let named = parts.is_some_and(|(owner, name)| is_part(owner) && is_part(name));
        if !named || file == Some("") {
            let expected = "ORG/NAME or ORG/NAME:FILE of a repository";
            return Err(Unfit::new("the model", expected, quoted(text)));
        }
        Ok(Self {
            repository: repository.to_owned(),
            file: file.map(str::to_owned),
        })
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repository)?;
        self.file
            .as_ref()
            .map_or(Ok(()), |file| write!(f, ":{file}"))
    }
}

/// Whether an owner or a repository may have this name on Hugging Face.
fn is_part(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = !name.is_empty() && name.len() <= LONGEST && name.chars().all(allowed);
    let ends = name.starts_with(['-', '.']) || name.ends_with(['-', '.']);
    plain && !ends && !name.contains("--") && !name.contains("..")
}

/// Reads a branch, a tag, a pull request (`refs/pr/1`) or a commit: a path that stays in the cache's folder of references.
///
/// # Errors
/// [`Unfit`] for any other text.
pub(crate) fn revision(text: &str) -> Result<String, Unfit> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    if text.len() <= 200 && text.chars().all(allowed) && text.split('/').all(part) {
        return Ok(text.to_owned());
    }
    let expected = "a branch, a tag or a commit";
    Err(Unfit::new("the revision", expected, quoted(text)))
}

/// Whether a path that a server lists stays in the folder that it is joined to, on every system.
pub(super) fn stays_inside(path: &str) -> bool {
    let foreign = |c: char| c == '\\' || c.is_control() || (cfg!(windows) && c == ':');
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.contains(foreign) && path.split('/').all(part) && Path::new(path).components().all(normal)
}

/// The name of a blob in the cache: the ETag that the hub gives a file, which is the SHA-256 of a file in LFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Etag(String);

impl Etag {
    /// Reads an ETag, of a header or a listing. `None` for one that can't name a file.
    pub(super) fn read(text: &str) -> Option<Self> {
        let name = text.trim().trim_start_matches("W/").trim_matches('"');
        // Without dots: the cache's other files end in `.incomplete` and `.lock`.
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let fit = (1..=128).contains(&name.len()) && name.chars().all(allowed);
        fit.then(|| Self(name.to_owned()))
    }

    /// The ETag as a name.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the file, in lower-case digits; `None` for a file of git, whose ETag is another hash.
    pub(crate) fn sha256(&self) -> Option<String> {
        let digits = self.0.len() == 64 && self.0.chars().all(|c| c.is_ascii_hexdigit());
        digits.then(|| self.0.to_ascii_lowercase())
    }
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
