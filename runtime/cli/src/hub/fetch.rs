//! Fetches a model: finds out which files it needs, brings them into the cache, and makes them appear there all at once.

use std::fs;
use std::path::PathBuf;

use super::client::{Client, Tell, Told};
use super::download::{Download, Held};
use super::error::HubError;
use super::listing::{Entry, Listing};
use super::name::ModelName;
use super::select::{self, MOST_INDEX, Wanted};
use super::settings::Settings;
use super::store::{Remote, Store};

/// What is fetched.
pub(crate) struct Order<'a> {
    pub(crate) name: &'a ModelName,
    /// Branch, tag or commit.
    pub(crate) revision: &'a str,
    /// Whether files that are in the cache are hashed.
    pub(crate) verify: bool,
}

/// A model that was fetched.
pub(crate) struct Fetched {
    /// The commit that the revision stands for.
    pub(crate) commit: String,
    /// The commit's folder in the cache.
    pub(crate) folder: PathBuf,
    /// The files, in the order in which they were fetched.
    pub(crate) files: Vec<FetchedFile>,
}

/// A file of a model that was fetched.
pub(crate) struct FetchedFile {
    /// Path in the repository.
    pub(crate) name: String,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// SHA-256 of the file, if the repository has it.
    pub(crate) sha256: Option<String>,
    /// How the file came to be in the cache.
    pub(crate) held: Held,
}

/// A repository at a commit, and the means to fetch from it.
struct Fetching<'a> {
    listing: &'a Listing,
    store: &'a Store,
    download: Download<'a>,
}

/// Brings a model into the cache.
///
/// # Errors
/// A [`HubError`] of every kind but [`HubError::Absent`]. What has been downloaded stays, and the next call goes on from there.
pub(crate) fn fetch(
    settings: &Settings,
    order: &Order<'_>,
    tell: Tell<'_>,
) -> Result<Fetched, HubError> {
    let (name, endpoint) = (order.name.repository.as_str(), &settings.endpoint);
    let client = Client::new(settings)?;
    let page = format!("{endpoint}/{name}");
    let revision = order.revision.replace('/', "%2F");
    let list = format!("{endpoint}/api/models/{name}/revision/{revision}?blobs=true");
    let listing = Listing::read(&client, (&list, &page), tell)?;
    let store = Store::new(&settings.cache, name, order.revision);
    let commit = listing.commit.as_str();
    let files = format!("{page}/resolve/{commit}");
    let fetching = Fetching {
        listing: &listing,
        store: &store,
        download: Download {
            client: &client,
            store: &store,
            commit,
            files: &files,
            page: &page,
            verify: order.verify,
            tell,
        },
    };
    let got = fetching.all(name, order.name.file.as_deref())?;
    // Links come last, so that a commit's folder has all of a model or none of it.
    for (file, _) in &got {
        store.link(file, commit)?;
    }
    if order.revision != commit {
        store.point(commit)?;
    }
    let files = got.into_iter().map(|(file, held)| FetchedFile {
        sha256: file.etag.sha256(),
        name: file.name,
        size: file.size,
        held,
    });
    Ok(Fetched {
        files: files.collect(),
        folder: store.snapshot(commit),
        commit: listing.commit.clone(),
    })
}

impl Fetching<'_> {
    /// Brings all files of the model into the blobs.
    fn all(&self, name: &str, file: Option<&str>) -> Result<Vec<(Remote, Held)>, HubError> {
        let names = self.listing.names();
        let mut got = Vec::new();
        let names = match select::wanted(name, &names, file)? {
            Wanted::Files(files) => files,
            Wanted::Indexed { mut beside, index } => {
                let (file, held) = self.index(index)?;
                let path = self.store.held(&file, self.download.commit);
                let path = path.unwrap_or_else(|| self.store.blob(&file.etag));
                let bytes = fs::read(&path).map_err(HubError::disk(&path))?;
                beside.extend(select::shards(index, &bytes, &names)?);
                got.push((file, held));
                beside
            }
        };
        let files = names.into_iter().map(|name| self.remote(name));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        self.store
            .check_room(sum(files.iter().map(|file| self.missing(file))))?;
        let mut before = sum(got.iter().map(|(file, _)| file.size));
        let all = sum(files.iter().map(|file| file.size));
        (self.download.tell)(Told::Size(before.saturating_add(all)));
        for file in files {
            let held = self.download.hold(&file, before)?;
            before += file.size;
            (self.download.tell)(Told::At(before));
            got.push((file, held));
        }
        Ok(got)
    }

    /// Brings the index of the weights into the blobs.
    fn index(&self, name: &str) -> Result<(Remote, Held), HubError> {
        let file = self.remote(name)?;
        if file.size > MOST_INDEX {
            let expected = format!("at most {MOST_INDEX} bytes");
            return Err(HubError::unfit(name, expected, file.size));
        }
        self.store.check_room(self.missing(&file))?;
        let held = self.download.hold(&file, 0)?;
        Ok((file, held))
    }

    /// Number of bytes of a file that aren't in the cache.
    fn missing(&self, file: &Remote) -> u64 {
        if self.store.held(file, self.download.commit).is_some() {
            return 0;
        }
        let part = self.store.part(&file.etag).metadata();
        file.size.saturating_sub(part.map_or(0, |part| part.len()))
    }

    /// Size and ETag of a file: those of the list, or else of the headers that come with the file.
    fn remote(&self, name: &str) -> Result<Remote, HubError> {
        let entry = self.listing.entries.iter().find(|entry| entry.name == name);
        let known = entry.map(|Entry { size, etag, .. }| (*size, etag.clone()));
        let (mut size, mut etag) = known.unwrap_or_default();
        if size.is_none() || etag.is_none() {
            // Servers that stand in for Hugging Face may list names alone. The body is left unread.
            let (url, download) = (self.download.address(name), &self.download);
            let answer = download
                .client
                .get((url.as_str(), download.page), 0, download.tell)?;
            size = size.or(answer.about.size).or(answer.length);
            etag = etag.or(answer.about.linked).or(answer.about.own);
        }
        match (size, etag) {
            (Some(size), Some(etag)) => Ok(Remote {
                name: name.to_owned(),
                size,
                etag,
            }),
            (size, etag) => {
                let got = [size.map(|_| "a size"), etag.map(|_| "an ETag")];
                let got = got.into_iter().flatten().next().unwrap_or("neither");
                let expected = "a size and an ETag from the server";
                Err(HubError::unfit(name, expected, got))
            }
        }
    }
}

/// The sum of sizes, which a server may have made up.
fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}
