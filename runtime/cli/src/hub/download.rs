//! The transfer of one file into the cache: goes on where an earlier one stopped, and keeps only bytes whose number and hash are right.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use serde::Serialize;

use super::client::{Answer, Client, Tell, Told};
use super::error::HubError;
use super::store::{Remote, Store};

/// Bytes that are read and hashed at a time.
const CHUNK: usize = 256 * 1024;
/// Seconds before each repeat of a request that brought nothing; after them the download is given up.
const PAUSES: [u64; 5] = [0, 1, 2, 4, 8];

/// How a file came to be in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Held {
    /// The file was there, with the right size.
    Cached,
    /// The file was there, with the right hash.
    Verified,
    /// The file was downloaded, all of it or the rest.
    Downloaded,
}

/// The download of a repository's files at one commit.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a Store,
    pub(super) commit: &'a str,
    /// Address of the commit's files.
    pub(super) files: &'a str,
    /// Page of the repository, for errors.
    pub(super) page: &'a str,
    /// Whether files that are there are hashed.
    pub(super) verify: bool,
    pub(super) tell: Tell<'a>,
}

/// A file of the cache that is hashed, and perhaps written.
struct Part<'a> {
    path: &'a Path,
    file: File,
    /// Number of bytes that were hashed.
    at: u64,
    /// Hash of these bytes; `None` for a file whose hash isn't known.
    hash: Option<Context>,
}

impl Download<'_> {
    /// Brings a file into the blobs if it isn't there. `before` is the number of bytes of the files before it.
    ///
    /// # Errors
    /// As [`Client::get`]; [`HubError::BrokenOff`] when the server doesn't get through to the end, [`HubError::Altered`] for bytes with
    /// another hash, [`HubError::Unfit`] for another length, [`HubError::Disk`] when the cache can't be written.
    pub(super) fn hold(&self, file: &Remote, before: u64) -> Result<Held, HubError> {
        (self.tell)(Told::File(&file.name));
        let _lock = self.store.lock(file, self.tell)?;
        let at = |at: u64| (self.tell)(Told::At(before + at));
        if let Some(path) = self.store.held(file, self.commit) {
            if !self.verify || file.etag.sha256().is_none() {
                return Ok(Held::Cached);
            }
            let mut there = Part::open(&path, file, OpenOptions::new().read(true))?;
            there.hash_all(&at)?;
            if there.check(file).is_ok() {
                return Ok(Held::Verified);
            }
            self.note(format!("{} has another hash in the cache", file.name));
            fs::remove_file(&path).map_err(HubError::disk(&path))?;
        }
        let path = self.store.part(&file.etag);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut part = Part::open(&path, file, &options)?;
        part.hash_all(&at)?;
        let resumed = part.at > 0;
        if part.at > file.size {
            part.restart()?;
        }
        self.fill(&mut part, file, &at)?;
        let mut checked = part.check(file);
        if resumed && checked.is_err() {
            // The beginning may be what another program left; all of the file decides.
            self.note(format!("the part of {} in the cache was wrong", file.name));
            part.restart()?;
            self.fill(&mut part, file, &at)?;
            checked = part.check(file);
        }
        if checked.is_err() {
            fs::remove_file(&path).map_err(HubError::disk(&path))?;
        }
        checked?;
        part.file.sync_all().map_err(HubError::disk(&path))?;
        drop(part);
        let blob = self.store.blob(&file.etag);
        fs::rename(&path, &blob).map_err(HubError::disk(&blob))?;
        Ok(Held::Downloaded)
    }

    /// Writes the rest of a file. As often as a connection breaks off the file is gone on with, unless several in a row come no further than
    /// those before.
    fn fill(&self, part: &mut Part<'_>, file: &Remote, at: &dyn Fn(u64)) -> Result<(), HubError> {
        let (mut failures, mut furthest) = (0, part.at);
        while part.at < file.size {
            let Some(reason) = self.more(part, file, at)? else {
                continue;
            };
            if part.at > furthest {
                (failures, furthest) = (0, part.at);
            }
            let Some(&pause) = PAUSES.get(failures) else {
                return Err(HubError::BrokenOff {
                    file: file.name.clone(),
                    size: file.size,
                    got: part.at,
                    reason,
                });
            };
            failures += 1;
            self.note(format!(
                "{} broke off at byte {} of {} ({reason}): going on in {pause} s",
                file.name, part.at, file.size
            ));
            thread::sleep(Duration::from_secs(pause));
        }
        Ok(())
    }

    /// Asks for the rest of a file once, and writes what comes; returns why it isn't all, if another request may bring the rest.
    fn more(
        &self,
        part: &mut Part<'_>,
        file: &Remote,
        at: &dyn Fn(u64),
    ) -> Result<Option<String>, HubError> {
        let url = self.address(&file.name);
        let answer = match self
            .client
            .get((url.as_str(), self.page), part.at, self.tell)
        {
            Ok(answer) => answer,
            Err(HubError::Unreachable { source, .. }) => return Ok(Some(source.to_string())),
            Err(HubError::Refused { refusal, .. }) if refusal.status == 416 && part.at > 0 => {
                part.restart()?;
                return Ok(Some("the server doesn't send the rest".to_owned()));
            }
            Err(error) => return Err(error),
        };
        if part.at > 0 && !answer.partial {
            part.restart()?;
        }
        check_answer(file, &answer, part.at)?;
        let mut body = answer.body.into_reader();
        let mut bytes = vec![0; CHUNK];
        loop {
            let read = match body.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => return Ok(Some(error.to_string())),
            };
            if read as u64 > file.size - part.at {
                let expected = format!("{} bytes", file.size);
                return Err(HubError::unfit(&file.name, expected, "more"));
            }
            part.write(&bytes[..read])?;
            at(part.at);
        }
        Ok((part.at < file.size).then(|| "the server sent no more".to_owned()))
    }

    /// The address of a file.
    pub(super) fn address(&self, name: &str) -> String {
        format!("{}/{}", self.files, super::client::encoded(name))
    }

    fn note(&self, text: String) {
        (self.tell)(Told::Note(text));
    }
}

/// Checks what the server says of the bytes from byte `at` on, before they are read.
fn check_answer(file: &Remote, answer: &Answer, at: u64) -> Result<(), HubError> {
    let unfit = |expected: String, got: String| Err(HubError::unfit(&file.name, expected, got));
    if let Some(etag) = &answer.about.linked
        && *etag != file.etag
    {
        let expected = format!("the ETag {}", file.etag.name());
        return unfit(expected, etag.name().to_owned());
    }
    if answer.partial && answer.range != Some((at, file.size)) {
        let got = answer.range.map_or_else(
            || "no Content-Range".to_owned(),
            |(first, size)| format!("those from byte {first} of {size}"),
        );
        return unfit(format!("bytes from byte {at} of {}", file.size), got);
    }
    let rest = file.size - at;
    match answer.length {
        Some(length) if length != rest => unfit(
            format!("{rest} bytes"),
            format!("a Content-Length of {length}"),
        ),
        _ => Ok(()),
    }
}

impl<'a> Part<'a> {
    fn open(path: &'a Path, file: &Remote, options: &OpenOptions) -> Result<Self, HubError> {
        Ok(Self {
            path,
            file: options.open(path).map_err(HubError::disk(path))?,
            at: 0,
            hash: file.etag.sha256().map(|_| Context::new(&SHA256)),
        })
    }

    /// Takes all bytes that the file has.
    fn hash_all(&mut self, at: &dyn Fn(u64)) -> Result<(), HubError> {
        let mut bytes = vec![0; CHUNK];
        loop {
            let read = self.file.read(&mut bytes);
            let read = read.map_err(HubError::disk(self.path))?;
            if read == 0 {
                return Ok(());
            }
            self.take(&bytes[..read]);
            at(self.at);
        }
    }

    /// Adds bytes to the file.
    fn write(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        let written = self.file.write_all(bytes);
        written.map_err(HubError::disk(self.path))?;
        self.take(bytes);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
    }

    /// Begins anew with an empty file.
    fn restart(&mut self) -> Result<(), HubError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(HubError::disk(self.path))?;
        self.at = 0;
        self.hash = self.hash.take().map(|_| Context::new(&SHA256));
        Ok(())
    }

    /// Compares the hash with the one that the repository has.
    fn check(&self, file: &Remote) -> Result<(), HubError> {
        let (Some(expected), Some(hash)) = (file.etag.sha256(), &self.hash) else {
            return Ok(());
        };
        let digits = hash.clone().finish();
        let digits = digits.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let got: String = digits.collect();
        if got == expected {
            return Ok(());
        }
        Err(HubError::Altered {
            file: file.name.clone(),
            expected,
            got,
        })
    }
}
