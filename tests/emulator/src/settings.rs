//! What environment variables ask of the emulator, read once, and the cards that can be shown, with the values that their makers
//! publish. Their names say that they are emulated: CubeCL keeps measurements by name, which must not be taken for a real card's.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::grid::Order;

/// All that can be chosen.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `MOEBIUS_EMULATOR_CARD`: the card that is shown.
    pub(crate) card: &'static Card,
    /// `MOEBIUS_EMULATOR_ORDERS`: the orders that each launch runs in.
    pub(crate) orders: Vec<Order>,
    /// `MOEBIUS_EMULATOR_CHECK`: whether every access is checked.
    pub(crate) check: bool,
    /// `MOEBIUS_EMULATOR_KEEP_GOING`: findings are told and lose no context, to see all of them.
    pub(crate) keep_going: bool,
    /// `MOEBIUS_EMULATOR_REPORTS`: the file that findings are added to.
    pub(crate) reports: Option<PathBuf>,
}

/// The settings of this process. A value that means nothing is told on stderr and left out.
pub(crate) fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        card: card(),
        orders: orders(),
        check: is_set("MOEBIUS_EMULATOR_CHECK"),
        keep_going: is_set("MOEBIUS_EMULATOR_KEEP_GOING"),
        reports: env::var_os("MOEBIUS_EMULATOR_REPORTS").map(PathBuf::from),
    })
}

fn is_set(name: &str) -> bool {
    env::var(name).is_ok_and(|value| value == "1")
}

fn card() -> &'static Card {
    let Ok(name) = env::var("MOEBIUS_EMULATOR_CARD") else {
        return Card::usual();
    };
    Card::named(&name).unwrap_or_else(|| {
        eprintln!(
            "moebius-emulator: there is no card `{name}`; it is a100, h100, l4, mi300x or rx7900"
        );
        Card::usual()
    })
}

fn orders() -> Vec<Order> {
    let names = env::var("MOEBIUS_EMULATOR_ORDERS").unwrap_or_default();
    let mut orders = Vec::new();
    for name in names.split(',').filter(|name| !name.trim().is_empty()) {
        match Order::parse(name) {
            Some(order) => orders.push(order),
            None => eprintln!("moebius-emulator: there is no order `{name}`"),
        }
    }
    if orders.is_empty() {
        orders.push(Order::Forward);
    }
    orders
}

/// One card. What all of them have in common is in `driver::device`.
#[derive(Debug)]
pub(crate) struct Card {
    short: &'static str,
    pub(crate) name: &'static str,
    pub(crate) maker: Maker,
    pub(crate) memory: u64,
    pub(crate) multiprocessors: i32,
    /// Of a warp, or of a wavefront, as AMD calls it.
    pub(crate) lanes: u32,
    /// Of a multiprocessor, and the most that one block may ask for: 1 KiB less.
    pub(crate) shared_bytes: i32,
    pub(crate) shared_bytes_of_block: i32,
    pub(crate) threads_of_multiprocessor: i32,
    pub(crate) blocks_of_multiprocessor: i32,
    pub(crate) l2_bytes: i32,
    pub(crate) clock_khz: i32,
    pub(crate) memory_clock_khz: i32,
    pub(crate) bus_bits: i32,
}

/// Whose card it is: which of the two drivers shows it, and what it is called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The compute capability.
    Nvidia(i32, i32),
    /// The name of the architecture.
    Amd(&'static str),
}

const GIB: u64 = 1 << 30;
const MIB: i32 = 1 << 20;
const KIB: i32 = 1 << 10;

/// Sources: the architecture white papers (A100: "NVIDIA A100 Tensor Core GPU Architecture", table 4; H100:
/// "NVIDIA H100 Tensor Core GPU Architecture", tables 3 and 4; L4: its data sheet and "NVIDIA Ada GPU
/// Architecture"), and for threads, blocks and shared memory by compute capability the CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability". AMD's: ROCm's "Accelerator and GPU hardware
/// specifications", and what rocminfo prints; HIP counts RDNA's work group processors.
static CARDS: [Card; 5] = [
    Card {
        short: "l4",
        name: "NVIDIA L4 (emulated)",
        maker: Maker::Nvidia(8, 9),
        memory: 24 * GIB,
        multiprocessors: 58,
        lanes: 32,
        shared_bytes: 100 * KIB,
        shared_bytes_of_block: 99 * KIB,
        threads_of_multiprocessor: 1536,
        blocks_of_multiprocessor: 24,
        l2_bytes: 48 * MIB,
        clock_khz: 2_040_000,
        memory_clock_khz: 6_251_000,
        bus_bits: 192,
    },
    Card {
        short: "a100",
        name: "NVIDIA A100-SXM4-40GB (emulated)",
        maker: Maker::Nvidia(8, 0),
        memory: 40 * GIB,
        multiprocessors: 108,
        lanes: 32,
        shared_bytes: 164 * KIB,
        shared_bytes_of_block: 163 * KIB,
        threads_of_multiprocessor: 2048,
        blocks_of_multiprocessor: 32,
        l2_bytes: 40 * MIB,
        clock_khz: 1_410_000,
        memory_clock_khz: 1_215_000,
        bus_bits: 5120,
    },
    Card {
        short: "h100",
        name: "NVIDIA H100 80GB HBM3 (emulated)",
        maker: Maker::Nvidia(9, 0),
        memory: 80 * GIB,
        multiprocessors: 132,
        lanes: 32,
        shared_bytes: 228 * KIB,
        shared_bytes_of_block: 227 * KIB,
        threads_of_multiprocessor: 2048,
        blocks_of_multiprocessor: 32,
        l2_bytes: 50 * MIB,
        clock_khz: 1_980_000,
        memory_clock_khz: 2_619_000,
        bus_bits: 5120,
    },
    Card {
        short: "mi300x",
        name: "AMD Instinct MI300X (emulated)",
        maker: Maker::Amd("gfx942:sramecc+:xnack-"),
        memory: 192 * GIB,
        multiprocessors: 304,
        lanes: 64,
        shared_bytes: 64 * KIB,
        shared_bytes_of_block: 64 * KIB,
        threads_of_multiprocessor: 2048,
        blocks_of_multiprocessor: 32,
        l2_bytes: 4 * MIB,
        clock_khz: 2_100_000,
        memory_clock_khz: 1_300_000,
        bus_bits: 8192,
    },
    Card {
        short: "rx7900",
        name: "AMD Radeon RX 7900 XTX (emulated)",
        maker: Maker::Amd("gfx1100"),
        memory: 24 * GIB,
        multiprocessors: 48,
        lanes: 32,
        shared_bytes: 64 * KIB,
        shared_bytes_of_block: 64 * KIB,
        threads_of_multiprocessor: 2048,
        blocks_of_multiprocessor: 32,
        l2_bytes: 6 * MIB,
        clock_khz: 2_482_000,
        memory_clock_khz: 1_249_000,
        bus_bits: 384,
    },
];

impl Card {
    /// The first: it has FP8 conversions and FP8 matrix instructions, which an A100 lacks, and none of the
    /// tensor memory accelerator and the clusters that an H100 has and that are not emulated. So most of the
    /// project's code runs on it.
    pub(crate) fn usual() -> &'static Card {
        &CARDS[0]
    }

    /// A card by its short name.
    pub(crate) fn named(name: &str) -> Option<&'static Card> {
        CARDS.iter().find(|card| card.short == name)
    }
}
