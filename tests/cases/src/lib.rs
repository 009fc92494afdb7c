//! The case files of Moebius as bytes, for the command `moebius`, which checks devices with them. The crate `moebius-cases` reads and
//! judges them.

/// Name, without the ending, and bytes of every case file, sorted by name; about 11 MB in all.
pub static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
