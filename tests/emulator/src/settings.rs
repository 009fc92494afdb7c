//! The emulator's settings, read once from environment variables, and the cards that it can show, with the figures that their
//! makers publish. Card names say that the card is emulated: CubeCL keeps measurements by name, which must not mix with a real
//! card's.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::grid::Order;

/// The settings of the emulator.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `MOEBIUS_EMULATOR_CARD`: the card that the drivers show.
    pub(crate) card: &'static Card,
    /// `MOEBIUS_EMULATOR_ORDERS`: the orders in which each launch runs.
    pub(crate) orders: Vec<Order>,
    /// `MOEBIUS_EMULATOR_CHECK`: whether every access is checked.
    pub(crate) check: bool,
    /// `MOEBIUS_EMULATOR_KEEP_GOING`: whether a finding leaves the context intact, so that a run shows all findings.
    pub(crate) keep_going: bool,
    /// `MOEBIUS_EMULATOR_REPORTS`: the file to which findings are appended.
    pub(crate) reports: Option<PathBuf>,
    /// `MOEBIUS_EMULATOR_LOST`: the file with which the card is lost, once it is there.
    pub(crate) lost: Option<PathBuf>,
    /// `MOEBIUS_EMULATOR_SPOIL`: how the names of the kernels begin whose results are spoiled; `None` where it names another card.
    spoil: Option<String>,
}

impl Settings {
    /// Whether the results of the kernel of this name are spoiled.
    pub(crate) fn spoils(&self, kernel: &str) -> bool {
        let begins = self.spoil.as_deref();
        begins.is_some_and(|begins| kernel.starts_with(begins))
    }
}

/// The settings of this process. An invalid value is reported on stderr and ignored.
pub(crate) fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let card = card();
        Settings {
            card,
            orders: orders(),
            check: is_set("MOEBIUS_EMULATOR_CHECK"),
            keep_going: is_set("MOEBIUS_EMULATOR_KEEP_GOING"),
            reports: env::var_os("MOEBIUS_EMULATOR_REPORTS").map(PathBuf::from),
            lost: env::var_os("MOEBIUS_EMULATOR_LOST").map(PathBuf::from),
            spoil: spoil(card),
        }
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

/// The beginning of kernels' names in `CARD:KERNEL`, if this is the card.
fn spoil(card: &Card) -> Option<String> {
    let value = env::var("MOEBIUS_EMULATOR_SPOIL").ok()?;
    let known = |of: &(&str, &str)| Card::named(of.0).is_some() && !of.1.is_empty();
    let Some((of, kernel)) = value.split_once(':').filter(known) else {
        eprintln!("moebius-emulator: expected CARD:KERNEL to spoil, got `{value}`");
        return None;
    };
    (of == card.short).then(|| kernel.to_owned())
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

/// The properties of a card. Those that all cards share are in `driver::device`.
#[derive(Debug)]
pub(crate) struct Card {
    short: &'static str,
    pub(crate) name: &'static str,
    pub(crate) maker: Maker,
    pub(crate) memory: u64,
    pub(crate) multiprocessors: i32,
    /// Lanes of a warp, or of a wavefront in AMD's terms.
    pub(crate) lanes: u32,
    /// Bytes of shared memory of a multiprocessor; a block may have at most 1 KiB less.
    pub(crate) shared_bytes: i32,
    pub(crate) shared_bytes_of_block: i32,
    pub(crate) threads_of_multiprocessor: i32,
    pub(crate) blocks_of_multiprocessor: i32,
    pub(crate) l2_bytes: i32,
    pub(crate) clock_khz: i32,
    pub(crate) memory_clock_khz: i32,
    pub(crate) bus_bits: i32,
}

/// The maker of a card, which decides which driver shows it, with the maker's name for its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// NVIDIA, with the compute capability.
    Nvidia(i32, i32),
    /// AMD, with the name of the architecture.
    Amd(&'static str),
}

const GIB: u64 = 1 << 30;
const MIB: i32 = 1 << 20;
const KIB: i32 = 1 << 10;

/// The cards. Sources: NVIDIA's architecture white papers (A100: "NVIDIA A100 Tensor Core GPU Architecture", table 4; H100:
/// "NVIDIA H100 Tensor Core GPU Architecture", tables 3 and 4; L4: its data sheet and "NVIDIA Ada GPU Architecture"); for
/// threads, blocks and shared memory the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". For
/// AMD: ROCm's "Accelerator and GPU hardware specifications" and rocminfo; HIP counts RDNA's work group processors.
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
    /// The default card, an L4. It has FP8 conversions and FP8 matrix instructions, which an A100 lacks, but not the H100's
    /// tensor memory accelerator and clusters, which aren't emulated; so most of the project's code runs on it.
    pub(crate) fn usual() -> &'static Card {
        &CARDS[0]
    }

    /// Finds a card by its short name.
    pub(crate) fn named(name: &str) -> Option<&'static Card> {
        CARDS.iter().find(|card| card.short == name)
    }
}
