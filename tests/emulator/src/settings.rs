//! What environment variables ask of the emulator, read once.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::card::Card;
use crate::grid::order::Order;

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
