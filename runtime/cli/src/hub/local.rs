//! Models in the cache, by the name that they have on the hub.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use moebius_weights::CONFIG_FILE;
use moebius_weights::folder::model_at;

use super::error::HubError;
use super::name::ModelName;
use super::select::{self, MOST_INDEX, Wanted};
use super::settings;
use super::store::Store;

/// The path of a model that a user names: the path itself, or else that of the model `ORG/NAME` or `ORG/NAME:FILE` in the cache. Nothing
/// is downloaded.
///
/// # Errors
/// [`HubError::Absent`] when such a name is neither a path, nor a whole model in the cache; [`HubError::Several`] when it stands for several
/// models there.
pub(crate) fn located(path: &Path) -> Result<PathBuf, HubError> {
    let name = path.to_str().filter(|_| !path.exists());
    let name = name.and_then(|text| text.parse::<ModelName>().ok());
    let Some(name) = name else {
        return Ok(path.to_owned());
    };
    let cache = settings::cache()?;
    let absent = |got: String| HubError::Absent {
        model: name.to_string(),
        cache: cache.clone(),
        got,
    };
    let store = Store::new(&cache, &name.repository, "main");
    let snapshot = model_at(store.folder()).ok();
    let snapshot = snapshot.filter(|folder| folder != store.folder());
    let snapshot = snapshot.ok_or_else(|| absent("none".to_owned()))?;
    let found = in_snapshot(&snapshot, &name);
    found.map_err(|error| match error {
        HubError::Unfit(unfit) => absent(format!("one without {}", unfit.expected)),
        error => error,
    })
}

/// The folder or the file of a model in the folder of a commit, which has all that belongs to it.
fn in_snapshot(snapshot: &Path, name: &ModelName) -> Result<PathBuf, HubError> {
    let mut names = Vec::new();
    add_names(snapshot, "", &mut names).map_err(HubError::disk(snapshot))?;
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let file = name.file.as_deref();
    match select::wanted(&name.repository, &names, file)? {
        Wanted::Files(files) => Ok(match files.first() {
            Some(first) if file.is_some() || !files.contains(&CONFIG_FILE) => snapshot.join(first),
            _ => snapshot.to_owned(),
        }),
        Wanted::Indexed { index, .. } => {
            let path = snapshot.join(index);
            let about = path.metadata().map_err(HubError::disk(&path))?;
            // A longer index is refused when it is read.
            if about.len() <= MOST_INDEX {
                let bytes = fs::read(&path).map_err(HubError::disk(&path))?;
                select::shards(index, &bytes, &names)?;
            }
            Ok(snapshot.to_owned())
        }
    }
}

/// Adds the paths of the files in a folder and in those below, with `/` between names; a link counts if its file is there.
fn add_names(folder: &Path, inside: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if entry.file_type()?.is_dir() {
            add_names(&path, &format!("{inside}{name}/"), names)?;
        } else if path.is_file() {
            names.push(format!("{inside}{name}"));
        }
    }
    Ok(())
}
