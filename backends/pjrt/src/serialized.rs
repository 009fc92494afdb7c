//! The header before the bytes of an executable, checked because a plugin trusts the bytes that it is given.

use std::fmt::Write as _;

use blake3::Hash;

use crate::error::Error;
use crate::plugin::Plugin;

/// The first bytes of the header; the last letter is its version.
const MAGIC: &[u8; 8] = b"MBXLAEX1";
const HASH: usize = blake3::OUT_LEN;
const HEADER: usize = MAGIC.len() + 2 * HASH;

/// Hashes what an executable was made by and can be loaded by: the plugin, the platform, and on the CPU the processor's
/// features, which the code uses.
pub(crate) fn identity(plugin: Plugin, platform_name: &str) -> Hash {
    let mut text = format!("{platform_name}\n{:?}\n", plugin.version());
    for (name, value) in plugin.attributes() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}={value}");
    }
    if platform_name == "cpu" {
        text.push_str(&processor());
    }
    blake3::hash(text.as_bytes())
}

/// The features of this processor that compilers use.
fn processor() -> String {
    let mut text = std::env::consts::ARCH.to_owned();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! features {
            ($($name:tt)*) => {$(
                if std::arch::is_x86_feature_detected!($name) {
                    text.push(' ');
                    text.push_str($name);
                }
            )*};
        }
        features!("sse3" "ssse3" "sse4.1" "sse4.2" "sse4a" "popcnt" "lzcnt" "movbe" "adx" "aes" "pclmulqdq" "sha" "rdrand"
            "rdseed" "cmpxchg16b" "tbm" "rtm" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "avx512f" "avx512cd" "avx512bw" "avx512vl"
            "avx512dq" "avx512ifma" "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "avx512vp2intersect"
            "avx512vnni" "avx512bf16" "avx512fp16" "avxvnni" "avxifma" "avxneconvert" "avxvnniint8" "avxvnniint16" "gfni"
            "vaes" "vpclmulqdq");
    }
    text
}

/// Puts a header before `payload`.
pub(crate) fn wrap(payload: &[u8], identity: &Hash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(checksum(payload, identity.as_bytes()).as_bytes());
    bytes.extend_from_slice(identity.as_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Checks the header of `bytes` and returns the payload behind it.
pub(crate) fn unwrap<'a>(bytes: &'a [u8], identity: &Hash) -> Result<&'a [u8], Error> {
    let refuse = |reason| Error::Serialized(reason);
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return Err(refuse("they do not begin with the header of this version"));
    }
    let (header, payload) = bytes.split_at(HEADER);
    let (sum, theirs) = header[MAGIC.len()..].split_at(HASH);
    if checksum(payload, theirs).as_bytes() != sum {
        return Err(refuse(
            "the checksum does not fit: they were cut or changed",
        ));
    }
    if theirs != identity.as_bytes() {
        return Err(refuse("another plugin, platform or processor made them"));
    }
    Ok(payload)
}

fn checksum(payload: &[u8], identity: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(identity);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
#[path = "serialized_tests.rs"]
mod tests;
