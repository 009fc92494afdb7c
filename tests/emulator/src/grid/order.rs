//! In which order blocks, warps and lanes run between two barriers. A GPU promises none.

/// An order. A correct kernel gives the same bits in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first of everything first.
    Forward,
    /// The last of everything first.
    Backward,
    /// Another order in each phase, from this seed.
    Random(u64),
    /// Odd blocks and warps before even ones, lanes forward.
    Warps,
    /// The last lane of each warp runs ahead of all others, whose order is forward.
    Ahead,
}

impl Order {
    /// An order by its name, as in `MOEBIUS_EMULATOR_ORDERS`.
    pub(crate) fn parse(name: &str) -> Option<Order> {
        match name.trim() {
            "forward" => Some(Order::Forward),
            "backward" => Some(Order::Backward),
            "warps" => Some(Order::Warps),
            "ahead" => Some(Order::Ahead),
            other => {
                let seed = other.strip_prefix("random:")?;
                seed.parse().ok().map(Order::Random)
            }
        }
    }

    /// Which block runs in this turn.
    pub(crate) fn block(&self, turn: u64, count: u64) -> u64 {
        match self {
            Order::Forward | Order::Ahead => turn,
            Order::Backward => count - 1 - turn,
            Order::Warps => odd_first(turn, count),
            Order::Random(seed) => shuffled(turn, count, *seed),
        }
    }

    /// Which warp of a block runs in this turn.
    pub(crate) fn warp(&self, turn: usize, count: usize, phase: u64) -> usize {
        match self {
            Order::Random(seed) => narrow(shuffled(turn as u64, count as u64, seed ^ phase << 1)),
            Order::Ahead => turn,
            other => narrow(other.block(turn as u64, count as u64)),
        }
    }

    /// Which lane of a warp runs in this turn.
    pub(crate) fn lane(&self, turn: usize, count: usize, phase: u64) -> usize {
        match self {
            Order::Forward | Order::Warps => turn,
            Order::Backward => count - 1 - turn,
            Order::Ahead => (turn + count - 1) % count,
            Order::Random(seed) => narrow(shuffled(turn as u64, count as u64, seed ^ phase << 9)),
        }
    }
}

fn narrow(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn odd_first(turn: u64, count: u64) -> u64 {
    let odd = count / 2;
    if turn < odd {
        2 * turn + 1
    } else {
        2 * (turn - odd)
    }
}

/// A permutation without a table: steps of a length that has no divisor in common with the count.
fn shuffled(turn: u64, count: u64, seed: u64) -> u64 {
    let mixed = seed
        .wrapping_add(0x9E37_79B9_7F4A_7C15)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB);
    let mixed = mixed ^ mixed >> 32;
    let mut step = mixed % count + 1;
    while divisor(step, count) != 1 {
        step += 1;
    }
    let place = u128::from(turn) * u128::from(step) + u128::from(mixed >> 20);
    (place % u128::from(count)) as u64
}

fn divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}
