//! What a repository has at a revision, by the hub's list.

use moebius_weights::quoted;
use serde::Deserialize;

use super::client::{Client, Tell};
use super::error::HubError;
use super::name::{Etag, stays_inside};

/// The most bytes of a list; repositories with a hundred thousand files have shorter ones.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// A file of a repository, as the hub lists it.
pub(super) struct Entry {
    /// Path in the repository.
    pub(super) name: String,
    /// Bytes of the file, if the server says it.
    pub(super) size: Option<u64>,
    /// The file's name in the cache, if the server says it.
    pub(super) etag: Option<Etag>,
}

/// The files of a repository at one commit.
pub(super) struct Listing {
    /// The commit.
    pub(super) commit: String,
    /// All files.
    pub(super) entries: Vec<Entry>,
}

/// The part of the server's answer that is used.
#[derive(Deserialize)]
struct Described {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: String,
    size: Option<u64>,
}

impl Listing {
    /// Reads the list that the server has at `url` of the repository that `page` shows.
    ///
    /// # Errors
    /// As [`Client::get`], and [`HubError::Unfit`] for an answer that is no such list, or that lists a path which leads out of the
    /// repository.
    pub(super) fn read(
        client: &Client,
        (url, page): (&str, &str),
        tell: Tell<'_>,
    ) -> Result<Self, HubError> {
        let answer = client.get((url, page), 0, tell)?;
        let body = answer.body.into_with_config().limit(MOST_BYTES);
        let bytes = body.read_to_vec().map_err(|source| HubError::Unreachable {
            url: url.to_owned(),
            source: Box::new(source),
        })?;
        let unfit = |got: String| HubError::unfit(url, "a list of the repository's files", got);
        Self::of(&bytes).map_err(unfit)
    }

    /// Reads a list; the error is what was found in its place.
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let described: Described =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let commit = described.sha;
        let named = commit.chars().all(|c| c.is_ascii_alphanumeric());
        if !named || !(1..=64).contains(&commit.len()) {
            return Err(format!("the commit {}", quoted(&commit)));
        }
        let entries = described.siblings.into_iter().map(Entry::of);
        Ok(Self {
            commit,
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// The names of all files.
    pub(super) fn names(&self) -> Vec<&str> {
        let names = self.entries.iter().map(|entry| entry.name.as_str());
        names.collect()
    }
}

impl Entry {
    fn of(sibling: Sibling) -> Result<Self, String> {
        let name = sibling.rfilename;
        // A file that is left out could do no harm, but such a list has been tampered with.
        if !stays_inside(&name) {
            return Err(format!("the path {}", quoted(&name)));
        }
        let size = sibling.lfs.as_ref().and_then(|lfs| lfs.size);
        let etag = match sibling.lfs {
            Some(lfs) => {
                let etag = Etag::read(&lfs.sha256).filter(|etag| etag.sha256().is_some());
                let got = || format!("the SHA-256 {} of {}", quoted(&lfs.sha256), quoted(&name));
                Some(etag.ok_or_else(got)?)
            }
            None => sibling.blob_id.as_deref().and_then(Etag::read),
        };
        Ok(Self {
            name,
            size: size.or(sibling.size),
            etag,
        })
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
