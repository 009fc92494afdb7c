//! The settings that Hugging Face's programs share: the cache, the server and the token, from the environment.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use hf_hub::Cache;

use super::error::HubError;

/// The server, where no other is set.
const HUGGING_FACE: &str = "https://huggingface.co";

/// Where models come from and where they are kept.
pub(crate) struct Settings {
    /// Address of the server, without a slash at its end.
    pub(super) endpoint: String,
    /// The user's token.
    pub(super) token: Option<String>,
    /// A file of certificates to trust in place of Mozilla's.
    pub(super) certificates: Option<PathBuf>,
    /// Folder of the cache.
    pub(super) cache: PathBuf,
}

impl Settings {
    /// Reads the settings of a download.
    ///
    /// # Errors
    /// [`HubError::Offline`] when the user wants no network, [`HubError::Unfit`] for a setting that can't be used.
    pub(crate) fn of_user() -> Result<Self, HubError> {
        let offline = variable("HF_HUB_OFFLINE");
        let offline = offline.map(|value| value.to_string_lossy().to_lowercase());
        if offline.is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.as_str())) {
            return Err(HubError::Offline);
        }
        Ok(Self {
            endpoint: endpoint()?,
            token: token()?,
            certificates: variable("SSL_CERT_FILE").map(PathBuf::from),
            cache: cache()?,
        })
    }
}

/// A variable's value; an empty one counts as not set.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The folder of Hugging Face's programs, which has the user's token.
fn home() -> Result<PathBuf, HubError> {
    if let Some(home) = variable("HF_HOME") {
        return Ok(home.into());
    }
    let of_home = || env::home_dir().map(|home| home.join(".cache"));
    let caches = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(of_home);
    caches
        .map(|caches| caches.join("huggingface"))
        .ok_or_else(|| {
            let expected = "a folder for the cache of models";
            HubError::unfit(
                "HF_HOME",
                expected,
                "nothing, and the user has no home folder",
            )
        })
}

/// The folder of the cache.
///
/// # Errors
/// [`HubError::Unfit`] when the environment has no folder for it.
pub(crate) fn cache() -> Result<PathBuf, HubError> {
    match variable("HF_HUB_CACHE") {
        Some(cache) => Ok(cache.into()),
        None => Ok(home()?.join("hub")),
    }
}

fn endpoint() -> Result<String, HubError> {
    let Some(endpoint) = variable("HF_ENDPOINT") else {
        return Ok(HUGGING_FACE.to_owned());
    };
    let endpoint = endpoint.to_string_lossy();
    let endpoint = endpoint.trim_end_matches('/');
    let uri = endpoint.parse::<ureq::http::Uri>().ok();
    let fit = uri.is_some_and(|uri| {
        let scheme = uri.scheme_str();
        let plain = uri.query().is_none() && uri.host().is_some_and(|host| !host.is_empty());
        plain && matches!(scheme, Some("http" | "https"))
    });
    if fit {
        return Ok(endpoint.to_owned());
    }
    let expected = format!("an address as {HUGGING_FACE}");
    Err(HubError::unfit(
        "HF_ENDPOINT",
        expected,
        moebius_weights::quoted(endpoint),
    ))
}

/// The token of the variable, or else of the file that `hf auth login` writes.
fn token() -> Result<Option<String>, HubError> {
    let token = match variable("HF_TOKEN") {
        Some(token) => Some(token.to_string_lossy().trim().to_owned()),
        None => Cache::new(home()?.join("hub")).token(),
    };
    let token = token.filter(|token| !token.is_empty());
    let fit = |token: &String| token.chars().all(|c| c.is_ascii_graphic());
    if token.as_ref().is_some_and(|token| !fit(token)) {
        // The token itself is a secret.
        let expected = "a token of letters, digits and signs";
        return Err(HubError::unfit("HF_TOKEN", expected, "other characters"));
    }
    Ok(token)
}
