//! A cache of compiled programs on disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use blake3::Hash;

use crate::client::Client;
use crate::compile::CompileOptions;
use crate::error::Error;
use crate::loaded_executable::LoadedExecutable;
use crate::locate::{Environment, Platform};
use crate::serialized;
use crate::types::TensorType;

const EXTENSION: &str = "xla";
const UNFINISHED: &str = "part";

/// The share of the limit, 1 in 16, that is freed when the cache is full, so that only one in many writes scans the
/// folder.
const SLACK: u64 = 16;

/// The age after which an unfinished file counts as left behind by a process that ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A cache of compiled programs in one folder, which processes may share.
#[derive(Clone, Debug)]
pub struct DiskCache {
    folder: PathBuf,
    limit: u64,
    /// Bytes written since the folder was last scanned.
    written: Arc<AtomicU64>,
}

/// Whether a program came from the cache.
#[derive(Clone, Debug)]
pub enum Cached {
    /// The program was in the cache.
    Hit,
    /// The program was compiled and is in the cache now.
    Miss,
    /// The program was compiled and could not be kept: the plugin cannot serialise it, it is larger than the whole
    /// cache, or the disk did not take it.
    NotKept(Error),
}

impl DiskCache {
    /// Opens a cache of at most `limit` bytes in `folder`, which is created if need be. Each further process that
    /// writes at the same time may add a sixteenth of `limit`. When the cache is full, the least recently used files
    /// are removed; a use sets a file's time of modification.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the folder cannot be created.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Result<Self, Error> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|error| io(&folder, &error))?;
        // Start full, so that the first program that is kept has the folder scanned.
        let written = Arc::new(AtomicU64::new(limit / SLACK));
        Ok(Self {
            folder,
            limit,
            written,
        })
    }

    /// Opens the cache that `environment` names, of at most 4 GiB; `None` if it names no folder.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn of(environment: &Environment) -> Result<Option<Self>, Error> {
        let folder = environment.programs.as_ref();
        folder.map(|folder| Self::new(folder, 4 << 30)).transpose()
    }

    /// Takes a program from the cache, or compiles the program and keeps it. The key covers everything that the result
    /// depends on: the text, the options, the plugin, its file and its flags, the platform, the kinds of its devices,
    /// and on the CPU the processor's features and number of threads. A file that is truncated, changed or foreign is
    /// replaced.
    ///
    /// # Errors
    ///
    /// As for [`Client::compile`]. A failure of the cache itself is no error: see [`Cached::NotKept`].
    pub fn compile_cached(
        &self,
        client: &Client,
        text: &str,
        options: &CompileOptions,
        signature: Vec<TensorType>,
    ) -> Result<(LoadedExecutable, Cached), Error> {
        let key = key(client, text, options);
        let path = self.path(&key);
        // The bytes of `Executable::serialize` have a checksum of their own.
        if let Ok(bytes) = fs::read(&path)
            && let Ok(program) = client.deserialize(&bytes, signature.clone())
        {
            // The time of the last use decides which file is removed first. Failure is ignored: a read-only folder
            // serves as well.
            let _ = File::options()
                .append(true)
                .open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()));
            return Ok((program, Cached::Hit));
        }
        let program = client.compile(text, options, signature)?;
        let kept = program
            .executable()
            .serialize()
            .and_then(|bytes| self.keep(&key, &bytes));
        let cached = kept.map_or_else(Cached::NotKept, |()| Cached::Miss);
        Ok((program, cached))
    }

    fn path(&self, key: &Hash) -> PathBuf {
        self.folder
            .join(key.to_hex().as_str())
            .with_extension(EXTENSION)
    }

    /// Writes a file under its name only when it is complete, and makes room for it.
    fn keep(&self, key: &Hash, serialized: &[u8]) -> Result<(), Error> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key);
        let size = serialized.len() as u64;
        if size > self.limit {
            let limit = self.limit;
            return Err(Error::Io {
                path,
                reason: format!("{size} bytes are more than the cache holds ({limit})"),
            });
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!(
            "{}-{}-{number}.{UNFINISHED}",
            key.to_hex(),
            std::process::id()
        );
        let unfinished = self.folder.join(unfinished);
        let written =
            fs::write(&unfinished, serialized).and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(io(&path, &error));
        }
        let before = self.written.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) <= self.limit / SLACK {
            return Ok(());
        }
        self.written.store(0, Ordering::Relaxed);
        self.make_room(&path)
            .map_err(|error| io(&self.folder, &error))
    }

    /// Removes the least recently used programs until the rest leaves [`SLACK`] below the limit, and abandoned
    /// unfinished files. Never removes `newest`.
    fn make_room(&self, newest: &Path) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in self.folder.read_dir()? {
            let path = entry?.path();
            // Another process may have removed the file.
            let Ok(metadata) = path.metadata() else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => files.push((path != newest, used, metadata.len(), path)),
                Some(UNFINISHED) if used.elapsed().is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        // The newest file comes first, whatever the clock says.
        files.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
        let mut total = 0;
        for (_, _, size, path) in files {
            total += size;
            if total > self.limit - self.limit / SLACK && path != newest {
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// Hashes everything that a compiled program depends on.
fn key(client: &Client, text: &str, options: &CompileOptions) -> Hash {
    let plugin = client.plugin();
    let mut hasher = blake3::Hasher::new();
    // Each part's length goes first, so that different lists of parts never give the same bytes.
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(text.as_bytes());
    part(&options.to_bytes_for(plugin.platform()));
    part(serialized::identity(plugin, client.platform_name()).as_bytes());
    part(client.platform_version().as_bytes());
    part(plugin.flags().as_bytes());
    part(file(plugin.path()).as_bytes());
    if plugin.platform() == Platform::Cpu {
        // XLA splits loops into as many parts as there are threads.
        let threads = std::thread::available_parallelism();
        part(format!("{:?}", threads.ok()).as_bytes());
    }
    for device in client.devices() {
        part(device.kind().as_bytes());
    }
    hasher.finalize()
}

/// Identifies a plugin's file by path, size and time: plugins built from different sources may report the same version.
fn file(path: &Path) -> String {
    let metadata = path.metadata().ok();
    let is = metadata.map(|metadata| (metadata.len(), metadata.modified().ok()));
    format!("{} {is:?}", path.display())
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
