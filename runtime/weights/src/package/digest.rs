//! SHA-256 of bytes and of files, which are read piece by piece.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use crate::source::CHUNK;

/// How far the hashing of a package's files has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashing<'a> {
    /// Path of the file in the package.
    pub file: &'a str,
    /// Bytes of the package that have been hashed.
    pub done: u64,
    /// Bytes of the package, or 0 while that isn't known.
    pub of: u64,
}

/// SHA-256 and number of bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hashed {
    /// SHA-256 in 64 lower-case hexadecimal digits.
    pub(super) sha256: String,
    pub(super) bytes: u64,
}

/// Reads `from` to its end, or up to the first piece that ends after `most` bytes, and gives each piece to `take`.
pub(super) fn hash(
    mut from: impl Read,
    most: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Hashed> {
    let (mut sum, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; CHUNK];
    while bytes <= most {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = &buffer[..count];
        sum.update(piece);
        bytes += count as u64;
        take(piece)?;
    }
    let sha256 = hexadecimal(&sum.finalize());
    Ok(Hashed { sha256, bytes })
}

/// SHA-256 of bytes in memory, in lower-case hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Whether a text is a SHA-256 in 64 lower-case hexadecimal digits.
pub(super) fn is_sha256(text: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(digit)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
