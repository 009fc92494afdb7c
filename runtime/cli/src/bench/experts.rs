//! What a cache of experts cost a run, beside what the disk alone takes for the bytes that were read.

use std::io;
use std::path::Path;

use moebius::moe::switching::CacheStatistics;
use moebius_model::decoder::Model;
use moebius_model::load::ModelFiles;
use serde_json::{Value, json};

use crate::devices::bytes;
use crate::error::CliError;

/// The requests together, over a cache of experts.
pub(super) struct ExpertRun {
    /// Experts of all layers that have places on the device at once, and all that there are.
    places: [usize; 2],
    /// Moves of the last run.
    moves: CacheStatistics,
    /// Median seconds of a run.
    seconds: f64,
    /// Bytes that the disk reads per second of the model's files; `None` where nothing was read of them, or the system can't be made to forget
    /// what it keeps of them.
    disk: Option<f64>,
}

impl ExpertRun {
    /// What runs with a median of `seconds` cost, the last of which made `moves`; `None` for a model with all experts on the device. The files
    /// are read from the disk once more, at most 1 GiB of each.
    ///
    /// # Errors
    /// [`CliError::ReadFile`] for files that can't be read.
    pub(super) fn of(
        files: &ModelFiles,
        model: &Model,
        (seconds, moves): (f64, Option<CacheStatistics>),
    ) -> Result<Option<Self>, CliError> {
        let (Some(places), Some(moves)) = (model.expert_places(), moves) else {
            return Ok(None);
        };
        let disk = match moves.read_bytes {
            0 => None,
            _ => disk_of(files)?,
        };
        Ok(Some(Self {
            places,
            moves,
            seconds,
            disk,
        }))
    }

    /// Seconds that the disk takes for the bytes that were read.
    fn floor(&self) -> Option<f64> {
        Some(self.moves.read_bytes as f64 / self.disk?)
    }

    /// The figures for JSON.
    pub(super) fn figures(&self) -> Value {
        let ([places, experts], moves) = (self.places, self.moves);
        json!({
            "places": places,
            "experts": experts,
            "hits": moves.hits,
            "misses": moves.misses,
            "evictions": moves.evictions,
            "moved_bytes": moves.moved_bytes,
            "read_bytes": moves.read_bytes,
            "disk_bytes_per_s": self.disk,
            "floor_s": self.floor(),
        })
    }

    /// The figures in words.
    pub(super) fn said(&self) -> String {
        let ([places, experts], moves) = (self.places, self.moves);
        let floor = self.floor().map_or(String::new(), |floor| {
            let disk = bytes(self.disk.unwrap_or(0.0) as u64);
            let share = 100.0 * floor / self.seconds;
            format!(", which the disk alone reads in {floor:.2} s with {disk}/s, {share:.0} % of the time")
        });
        format!(
            "  {places} of {experts} experts on the device at once: {} of {} moved there together, {} read{floor}",
            moves.misses,
            moves.hits + moves.misses,
            bytes(moves.read_bytes),
        )
    }
}

/// Bytes that the disk reads per second of a model's files, front to back.
fn disk_of(files: &ModelFiles) -> Result<Option<f64>, CliError> {
    let mut paths: Vec<&Path> = Vec::new();
    paths.extend(files.reader().into_iter().flat_map(|reader| reader.files()));
    let parts = files.gguf().into_iter().flat_map(|file| file.paths());
    paths.extend(parts.map(|path| path.as_path()));
    let mut all = Some([0.0, 0.0]);
    // The bundled model is in no file.
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let read = from_disk(path).map_err(CliError::read(path.display()))?;
        all = all
            .zip(read)
            .map(|(all, one)| [all[0] + one[0], all[1] + one[1]]);
    }
    let all = all.filter(|[_, seconds]| *seconds > 0.0);
    Ok(all.map(|[bytes, seconds]| bytes / seconds))
}

/// Bytes of a file that were read from the disk, at most 1 GiB, and the seconds that it took.
#[cfg(target_os = "linux")]
fn from_disk(path: &Path) -> io::Result<Option<[f64; 2]>> {
    use rustix::fs::{Advice, fadvise};
    use std::fs::File;
    use std::io::Read;
    use std::time::Instant;

    const MOST: usize = 1 << 30;
    let mut file = File::open(path)?;
    // Bytes that main memory keeps would come from there.
    fadvise(&file, 0, None, Advice::DontNeed)?;
    fadvise(&file, 0, None, Advice::Sequential)?;
    let (mut buffer, mut bytes) = (vec![0; 8 << 20], 0);
    let begun = Instant::now();
    while bytes < MOST {
        match file.read(&mut buffer)? {
            0 => break,
            read => bytes += read,
        }
    }
    Ok(Some([bytes as f64, begun.elapsed().as_secs_f64()]))
}

/// `None`: other systems aren't asked to forget what they keep of a file.
#[cfg(not(target_os = "linux"))]
fn from_disk(_: &Path) -> io::Result<Option<[f64; 2]>> {
    Ok(None)
}
