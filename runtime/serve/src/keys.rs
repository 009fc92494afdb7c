//! Keys with which clients show that they may use a server.

use std::sync::{Arc, PoisonError, RwLock};

use subtle::{Choice, ConstantTimeEq};

/// Fewest characters of a key.
const SHORTEST: usize = 16;

/// A set of keys. Keys are kept as digests, and compared in a time that doesn't depend on how much of a key is right.
#[derive(Clone, Default)]
pub struct Keys {
    digests: Vec<[u8; 32]>,
}

/// A key that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {number}: expected at least {SHORTEST} visible ASCII characters, got {got}")]
pub struct KeyError {
    /// Number of the key in its list, from 1.
    number: usize,
    /// What is wrong with the key, without the key itself.
    got: String,
}

impl Keys {
    /// Reads keys from a text with one on each line. Empty lines and lines that begin with `#` are left out.
    ///
    /// # Errors
    /// [`KeyError`] for a key that is too short or couldn't stand in a header.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim);
        let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let digests = (1..).zip(keys).map(|(number, key)| {
            let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
            let got = if !visible {
                "others".to_owned()
            } else if key.len() < SHORTEST {
                key.len().to_string()
            } else {
                return Ok(digest(key.as_bytes()));
            };
            Err(KeyError { number, got })
        });
        Ok(Self {
            digests: digests.collect::<Result<_, _>>()?,
        })
    }

    /// Whether there are no keys, so that everybody may use the server.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Whether the set has a key. All keys are compared, whichever fits.
    fn has(&self, key: &[u8]) -> bool {
        let given = digest(key);
        let mut found = Choice::from(0);
        for known in &self.digests {
            found |= known[..].ct_eq(&given[..]);
        }
        found.into()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.digests.len())
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    blake3::derive_key("moebius-serve 2026 comparison of API keys", key)
}

/// The keys of a running server, which can be replaced while it runs.
#[derive(Clone, Debug, Default)]
pub struct KeyRing(Arc<RwLock<Keys>>);

/// The client of a request, as far as its key tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// Salt of the client's pages in the prefix cache: clients with different keys share none.
    pub(crate) salt: Vec<u8>,
}

impl KeyRing {
    /// A ring with these keys.
    pub fn new(keys: Keys) -> Self {
        Self(Arc::new(RwLock::new(keys)))
    }

    /// Replaces all keys; requests under way go on. Without keys, everybody may use the server from then on.
    pub fn replace(&self, keys: Keys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// The client with a key; `None` for a key that isn't known. Without keys, every client is the same one.
    pub(crate) fn caller(&self, key: Option<&[u8]>) -> Option<Caller> {
        let keys = self.read();
        if keys.is_empty() {
            return Some(Caller::default());
        }
        let key = key.filter(|key| keys.has(key))?;
        let salt = blake3::derive_key("moebius-serve 2026 salt of a client's pages", key);
        Some(Caller { salt: salt.into() })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Keys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# keys of two teams\n\n  sk-0123456789abcdef \nsk-fedcba9876543210-longer\n";

    #[test]
    fn clients_are_told_by_their_keys() {
        let ring = KeyRing::new(Keys::parse(TEXT).unwrap());
        let salt = |key: &str| ring.caller(Some(key.as_bytes())).map(|caller| caller.salt);
        let one = salt("sk-0123456789abcdef").unwrap();
        let other = salt("sk-fedcba9876543210-longer").unwrap();
        assert_ne!(one, other);
        for wrong in ["", "sk-0123456789abcde", "sk-0123456789abcdeg", "# keys"] {
            assert!(salt(wrong).is_none(), "{wrong}");
        }
        assert!(ring.caller(None).is_none());
        ring.replace(Keys::parse("sk-aaaaaaaaaaaaaaaa").unwrap());
        assert!(salt("sk-0123456789abcdef").is_none());
        ring.replace(Keys::default());
        assert!(ring.is_empty() && ring.caller(None).is_some());
    }

    #[test]
    fn a_weak_key_is_refused_without_being_shown() {
        for (text, got) in [("short", "got 5"), ("sk-0123456789äöü-0", "got others")] {
            let said = Keys::parse(text).unwrap_err().to_string();
            assert!(said.ends_with(got) && !said.contains(text), "{said}");
        }
        let keys = Keys::parse(TEXT).unwrap();
        assert_eq!(format!("{keys:?}"), "Keys(2)");
    }
}
