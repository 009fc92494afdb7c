//! Errors of downloads and of the cache, each with what can be done about it.

use std::io;
use std::path::{Path, PathBuf};

use moebius_weights::Unfit;

/// Why a model could not be fetched, or found in the cache.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubError {
    /// A name, a setting or an answer of the server isn't what it must be.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A name stands for several models.
    #[error(transparent)]
    Several(Unfit),
    /// The model isn't in the cache, or only a part of it.
    #[error("{model}: expected a file, a folder, or a model in the cache {}, got {got}", cache.display())]
    Absent {
        model: String,
        cache: PathBuf,
        got: String,
    },
    /// The network may not be used.
    #[error("HF_HUB_OFFLINE is set, so nothing is fetched")]
    Offline,
    /// The server refused a request.
    #[error("{url}: expected status 200, got {}{}", .refusal.status, .refusal.code())]
    Refused { url: String, refusal: Refusal },
    /// The server could not be reached, or broke off without an answer.
    #[error("cannot reach {url}: {source}")]
    Unreachable {
        url: String,
        source: Box<ureq::Error>,
    },
    /// The server broke off again and again while it sent a file.
    #[error("{file}: expected {size} bytes, got {got} before the server broke off: {reason}")]
    BrokenOff {
        file: String,
        size: u64,
        got: u64,
        reason: String,
    },
    /// A file that was received isn't the one that the repository has.
    #[error("{file}: expected the SHA-256 {expected}, got {got}")]
    Altered {
        file: String,
        expected: String,
        got: String,
    },
    /// The disk has no room for the files.
    #[error("{}: expected {needed} free bytes, got {free}", folder.display())]
    NoRoom {
        folder: PathBuf,
        needed: u64,
        free: u64,
    },
    /// A file of the cache can't be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

/// What a server said when it refused a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Status of HTTP.
    pub(crate) status: u16,
    /// Hugging Face's own name of the reason, of the header `X-Error-Code`.
    pub(crate) code: Option<String>,
    /// Page of the repository, where a licence can be accepted.
    pub(crate) page: String,
    /// Whether the request had a token.
    pub(crate) with_token: bool,
}

impl Refusal {
    /// The reason's name as part of a message.
    fn code(&self) -> String {
        let code = self.code.as_deref();
        code.map_or_else(String::new, |code| format!(" ({code})"))
    }

    fn hint(&self) -> String {
        let Self { page, code, .. } = self;
        let code = code.as_deref().unwrap_or_default();
        match (self.status, code) {
            (401 | 403, "GatedRepo") | (403, _) => format!(
                "accept the licence on {page}, and set HF_TOKEN to a token of that account that may read it"
            ),
            (401, _) if self.with_token => format!(
                "check that HF_TOKEN is a valid token, that {page} exists, and that its account may read it"
            ),
            (401, _) => format!(
                "check that {page} exists; where it is private or has a licence to accept, set HF_TOKEN to a token of an account that may read it"
            ),
            (404, "RevisionNotFound") => format!("{page} has no such --revision"),
            (404, "EntryNotFound") => {
                format!("{page} has no such file; run the command again, as it may have changed")
            }
            (404, _) => format!(
                "check that {page} exists, and the --revision; for a private repository set HF_TOKEN"
            ),
            (429, _) => "run the command again later, it goes on where it stopped; HF_TOKEN raises the server's limit"
                .to_owned(),
            (500.., _) => {
                "the server has a fault; run the command again later, it goes on where it stopped"
                    .to_owned()
            }
            _ => format!("look at {page}, and at HF_ENDPOINT if it is set"),
        }
    }
}

impl HubError {
    /// Function that makes the error for a file of the cache.
    pub(super) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }

    /// An error that says that `what` should be `expected`, and is `got`.
    pub(super) fn unfit(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
        Unfit::new(what, expected, got).into()
    }

    /// What the user can do, if there is something.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unfit(_) | Self::Several(_) => return None,
            Self::Absent { model, .. } => format!("`moebius fetch {model}` downloads it"),
            Self::Offline => "unset it, or name a model that is in the cache".to_owned(),
            Self::Refused { refusal, .. } => refusal.hint(),
            Self::Unreachable { .. } => {
                "check the network, the proxy (HTTPS_PROXY) and HF_ENDPOINT; what is in the cache can be used without"
                    .to_owned()
            }
            Self::BrokenOff { .. } => {
                "run the command again, it goes on where it stopped".to_owned()
            }
            Self::Altered { .. } => {
                "nothing of it was kept; if that happens again, the server or a proxy alters files"
                    .to_owned()
            }
            Self::NoRoom { .. } => {
                "make room, or set HF_HOME or HF_HUB_CACHE to a folder on another disk".to_owned()
            }
            Self::Disk { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "make room and run the command again, it goes on where it stopped".to_owned()
            }
            Self::Disk { .. } => {
                "HF_HOME or HF_HUB_CACHE can be set to a folder that can be written".to_owned()
            }
        })
    }
}
