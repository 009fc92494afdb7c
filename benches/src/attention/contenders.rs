//! What is measured in one run: ours, and what it is compared with.

use super::setup::Setup;
use super::ways::Way;
use super::{AttentionBench, AttentionPeer, check, pairs};
use crate::peer::{Peer, Turns};
use crate::timing::{Timing, seconds_of, timings_of};
use crate::{BenchError, Progress};
use std::time::Duration;

/// What [`measure`] found.
pub(super) struct Measured {
    /// The largest error of a way on the device.
    pub(super) max_rel_l2: f64,
    /// How long ours took.
    pub(super) time: Timing,
    pub(super) peers: Vec<Peer>,
}

/// What takes turns with the others.
enum Contender {
    Way(Way),
    Torch(Turns),
}

impl Contender {
    fn all(bench: &AttentionBench, mut torch: Option<Turns>) -> Vec<Self> {
        let peers = bench.peers.iter().filter_map(|peer| match peer {
            AttentionPeer::Torch => torch.take().map(Self::Torch),
            AttentionPeer::Burn => Some(Self::Way(Way::Burn)),
            AttentionPeer::Composition => Some(Self::Way(Way::Composition)),
            AttentionPeer::Full => Some(Self::Way(Way::Full)),
        });
        std::iter::once(Self::Way(Way::Ours)).chain(peers).collect()
    }

    /// Whether it has to come after all that are not.
    ///
    /// Kernels of Burn's on CubeCL's CPU runtime have barriers, whose threads stay and slow down whatever comes after.
    fn comes_last(&self, setup: &Setup) -> bool {
        setup.place.on_cpu_runtime() && matches!(self, Self::Way(Way::Burn | Way::Composition))
    }

    /// Seconds of one run.
    fn seconds(&mut self, setup: &Setup) -> Result<f64, BenchError> {
        match self {
            Self::Way(way) => seconds_of(|| setup.run(*way)),
            Self::Torch(turns) => {
                let seconds = turns.seconds()?;
                // Its threads spin for some milliseconds before they sleep, on the cores that the next turn needs.
                std::thread::sleep(Duration::from_millis(20));
                Ok(seconds)
            }
        }
    }

    /// Its result beside ours.
    fn figures(
        &self,
        bench: &AttentionBench,
        time: Timing,
        ours: Timing,
    ) -> Result<Peer, BenchError> {
        let (name, bench) = match self {
            Self::Way(way) => (way.name().to_string(), way.of(bench)),
            Self::Torch(turns) => (turns.name(), bench.clone()),
        };
        let flops = bench.flops(pairs(&bench.problem()?));
        Ok(Peer {
            name,
            speed: time.speed(flops),
            ratio: time.seconds / ours.seconds,
        })
    }
}

/// Verifies and times ours and its peers, in turns where they leave each other alone.
pub(super) fn measure(
    bench: &AttentionBench,
    setup: &Setup,
    torch: Option<Turns>,
    progress: Progress,
) -> Result<Measured, BenchError> {
    let all = Contender::all(bench, torch).into_iter();
    let (last, first): (Vec<_>, Vec<_>) = all.partition(|c| c.comes_last(setup));
    let mut max_rel_l2 = 0.0f64;
    let mut timed = Vec::new();
    for mut group in [first, last] {
        for contender in &group {
            if let Contender::Way(way) = contender {
                progress(&format!("verifying {}", way.name()));
                max_rel_l2 = max_rel_l2.max(check::error(bench, setup, *way)?);
            }
        }
        progress("measuring");
        let times = timings_of(&mut group, |contender| contender.seconds(setup))?;
        timed.extend(group.into_iter().zip(times));
    }
    let ours = timed[0].1;
    let peers = timed[1..].iter();
    let peers = peers.map(|(contender, time)| contender.figures(bench, *time, ours));
    Ok(Measured {
        max_rel_l2,
        time: ours,
        peers: peers.collect::<Result<_, _>>()?,
    })
}
