//! The rounds of loops that one invocation of a kernel makes, for software adapters that end loops beyond a number of rounds
//! ([`Capability::loop_rounds`]).
//!
//! Each plan counts the worst case of its kernels from the loops of their text: unrolled loops count nothing, and other loops one
//! round more than they have, because the adapter counts the round that finds the end, in which it runs the inner loops once more.
//! Invocations that run together as a vector make as many rounds as the longest of them, so ranges that differ between invocations
//! count with the longest. A plan that would go beyond takes more units or launches if its kernels can be cut that way, and is
//! refused if not.

use crate::error::Unsupported;
use moebius_device::Capability;

/// Rounds of a loop of at most `trips` rounds with `inside` rounds of inner loops each.
pub(crate) const fn looped(trips: usize, inside: usize) -> usize {
    trips
        .saturating_add(1)
        .saturating_mul(inside.saturating_add(1))
}

/// Rounds of a loop of one round with `inside` rounds of inner loops. Kernels have fewer than 63 inner loops, each of which runs once
/// more when the end is found.
pub(crate) const fn once(inside: usize) -> usize {
    inside.saturating_add(64)
}

/// Rounds of a binary search among `len` places.
pub(crate) const fn search(len: usize) -> usize {
    looped((usize::BITS - len.leading_zeros()) as usize, 0)
}

/// Whether the device lets one invocation make `rounds` rounds.
pub(crate) fn allows(device: &Capability, rounds: usize) -> bool {
    device
        .loop_rounds
        .is_none_or(|most| rounds <= most as usize)
}

/// Checks that the device lets one invocation of `kernel` make `rounds` rounds.
pub(crate) fn fits_rounds(
    kernel: &'static str,
    rounds: usize,
    device: &Capability,
) -> Result<(), Unsupported> {
    let most = device.loop_rounds.unwrap_or(u32::MAX);
    let needs = format_args!("up to {rounds} rounds of loops in one invocation");
    let have = format_args!("{most}, after which {} ends every loop", device.name);
    Unsupported::unless(allows(device, rounds), kernel, needs, have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_profiles as profiles;

    #[test]
    fn loops_count_the_rounds_that_find_their_ends() {
        // 3 rounds and the one that finds the end, each with a loop of 2 rounds and its end.
        assert_eq!(looped(3, looped(2, 0)), 4 * (1 + 3));
        assert_eq!(looped(0, 0), 1);
        assert_eq!(looped(usize::MAX, 2), usize::MAX);
        // Seven places take three comparisons.
        assert_eq!(search(7), 4);
    }

    #[test]
    fn a_refusal_names_kernel_rounds_limit_and_adapter() {
        let device = profiles::lavapipe();
        assert!(fits_rounds("a kernel", 65_535, &device).is_ok());
        let error = fits_rounds("a kernel", 65_536, &device).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a kernel is not supported on this device: it needs up to 65536 rounds of loops in one invocation, the device has \
             65535, after which llvmpipe (LLVM 15.0.6, 256 bits) ends every loop"
        );
        assert!(fits_rounds("a kernel", usize::MAX, &profiles::h100()).is_ok());
    }
}
