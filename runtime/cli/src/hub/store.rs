//! One repository in the cache that Hugging Face's programs share: blobs by their ETag, a folder of links for each commit, and
//! references to commits.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::iter::repeat_n;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_file as symlink;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use super::client::{Tell, Told};
use super::error::HubError;
use super::name::Etag;

/// A file of a repository at a commit.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    /// Path in the repository, which stays inside.
    pub(super) name: String,
    /// Bytes of the file.
    pub(super) size: u64,
    /// The file's name among the blobs.
    pub(super) etag: Etag,
}

/// A repository's folder in the cache.
pub(super) struct Store {
    /// The repository's folder.
    folder: PathBuf,
    /// Folder of the locks.
    locks: PathBuf,
    repository: CacheRepo,
}

impl Store {
    /// The folder of the repository `name` in `cache`, for one revision; nothing is created.
    pub(super) fn new(cache: &Path, name: &str, revision: &str) -> Self {
        let repository = Repo::with_revision(name.to_owned(), RepoType::Model, revision.to_owned());
        let folder = repository.folder_name();
        Self {
            locks: cache.join(".locks").join(&folder),
            folder: cache.join(folder),
            repository: Cache::new(cache.to_owned()).repo(repository),
        }
    }

    /// The repository's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of links for a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.repository.pointer_path(commit)
    }

    /// The path of a blob.
    pub(super) fn blob(&self, etag: &Etag) -> PathBuf {
        self.folder.join("blobs").join(etag.name())
    }

    /// The path of a blob that isn't complete.
    pub(super) fn part(&self, etag: &Etag) -> PathBuf {
        let name = format!("{}.incomplete", etag.name());
        self.folder.join("blobs").join(name)
    }

    /// The file's place in the cache: the blob, or where links are not possible the file in the commit's folder. `None` where neither
    /// has the right size.
    pub(super) fn held(&self, file: &Remote, commit: &str) -> Option<PathBuf> {
        let link = self.snapshot(commit).join(&file.name);
        let fits = |path: &PathBuf| {
            let about = path.metadata();
            about.is_ok_and(|about| about.is_file() && about.len() == file.size)
        };
        [self.blob(&file.etag), link].into_iter().find(fits)
    }

    /// Takes the blob's lock, the same as huggingface_hub's, and waits while another process has it. It is given back when the file is
    /// dropped.
    ///
    /// # Errors
    /// [`HubError::Disk`] when the lock's file can't be created.
    pub(super) fn lock(&self, file: &Remote, tell: Tell<'_>) -> Result<File, HubError> {
        let path = self.locks.join(format!("{}.lock", file.etag.name()));
        for folder in [&self.locks, &self.folder.join("blobs")] {
            fs::create_dir_all(folder).map_err(HubError::disk(folder))?;
        }
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(HubError::disk(&path))?;
        let locked = match lock.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let text = format!("another process downloads {}: waiting for it", file.name);
                tell(Told::Note(text));
                lock.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
        };
        match locked {
            // Some network file systems have no locks; blobs still appear by a rename, whole or not at all.
            Err(error) if error.kind() != ErrorKind::Unsupported => {
                Err(HubError::disk(&path)(error))
            }
            _ => Ok(lock),
        }
    }

    /// Makes the file appear in the commit's folder.
    ///
    /// # Errors
    /// [`HubError::Disk`] when that folder can't be written.
    pub(super) fn link(&self, file: &Remote, commit: &str) -> Result<(), HubError> {
        let (blob, snapshot) = (self.blob(&file.etag), self.snapshot(commit));
        let link = snapshot.join(&file.name);
        if !blob.is_file() {
            // The file itself has been moved there before.
            return Ok(());
        }
        let folder = link.parent().unwrap_or(&snapshot);
        fs::create_dir_all(folder).map_err(HubError::disk(folder))?;
        let up = 2 + file.name.matches('/').count();
        let mut target: PathBuf = repeat_n("..", up).collect();
        target.extend(["blobs", file.etag.name()]);
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        if let Err(error) = fs::remove_file(&link)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(HubError::disk(&link)(error));
        }
        // Windows lets only some users make links, and some file systems have none: then a second name of the blob, or else the blob
        // itself, which costs no second copy.
        let linked = symlink(&target, &link)
            .or_else(|error| match error.kind() {
                // Another process was faster.
                ErrorKind::AlreadyExists => Ok(()),
                _ => fs::hard_link(&blob, &link),
            })
            .or_else(|_| fs::rename(&blob, &link));
        linked.map_err(HubError::disk(&link))
    }

    /// Lets the revision stand for the commit from now on.
    ///
    /// # Errors
    /// [`HubError::Disk`] when the reference can't be written.
    pub(super) fn point(&self, commit: &str) -> Result<(), HubError> {
        let written = self.repository.create_ref(commit);
        written.map_err(HubError::disk(&self.folder.join("refs")))
    }

    /// Checks that the disk has room for so many more bytes; a disk that doesn't say how many are free is taken to have it.
    ///
    /// # Errors
    /// [`HubError::NoRoom`] when it has not.
    pub(super) fn check_room(&self, needed: u64) -> Result<(), HubError> {
        let mut there = self.folder.ancestors().filter(|folder| folder.is_dir());
        let here = there.next().unwrap_or(Path::new("."));
        match fs4::available_space(here) {
            Ok(free) if free < needed => Err(HubError::NoRoom {
                folder: here.to_owned(),
                needed,
                free,
            }),
            _ => Ok(()),
        }
    }
}
