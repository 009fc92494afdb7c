//! What a training's step takes of a device's memory: live buffers, counted where a layer, a pass or the optimizer ends. What a pool takes
//! beyond them depends on the pool.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::Device;
use moebius::fp8::training::MomentStore;
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_tests::target::Target;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A listener to the spans of a step that counts live buffers whenever one ends; the device is idle then.
struct Counting {
    device: Device,
    most: Arc<AtomicU64>,
}

impl Subscriber for Counting {
    fn enabled(&self, span: &Metadata<'_>) -> bool {
        let names = ["layer", "forward", "backward", "optimizer"];
        span.is_span() && names.contains(&span.name())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        let live = moebius::memory_in_use(&self.device).unwrap().unwrap();
        self.most.fetch_max(live, Ordering::Relaxed);
    }
}

/// The most bytes that are live in `step`, beyond `before`.
fn most_in(device: &Device, before: u64, step: impl FnOnce()) -> u64 {
    let most = Arc::new(AtomicU64::new(0));
    let counting = Counting {
        device: device.clone(),
        most: most.clone(),
    };
    tracing::subscriber::with_default(counting, step);
    let most = most.load(Ordering::Relaxed);
    most.checked_sub(before).unwrap()
}

/// Live bytes without what drivers and pools keep of earlier launches.
fn live(device: &Device) -> u64 {
    moebius::release_memory(device).unwrap();
    moebius::memory_in_use(device).unwrap().unwrap()
}

/// A training of eight layers, with so many tokens in a step.
fn trainer(tokens: usize, device: &Device) -> Trainer {
    let config = TrainConfig {
        batch: tokens / 64,
        sequence: 64,
        ..TrainConfig::default()
    };
    let sizes = DecoderConfig {
        layers: 8,
        experts: 4,
        inter: 64,
        ..DecoderConfig::default()
    };
    Trainer::new(config, sizes, Text::bundled().ids(), device).unwrap()
}

/// The devices that count their buffers.
fn counted() -> impl Iterator<Item = &'static Target> {
    let all = Target::all().iter();
    all.filter(|target| target.client().is_some())
}

/// Of the moments of all parameters none are on the device in a step's passes, and few while the optimizer updates.
#[test]
fn moments_that_are_kept_elsewhere_leave_the_device() {
    for target in counted() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let folder = tempfile::tempdir().unwrap();
        let most = |store: Option<MomentStore>| {
            let before = live(&device);
            let mut trainer = trainer(64, &device);
            if let Some(store) = store {
                trainer.keep_moments_in(store);
            }
            // The first step has no moments before its end.
            trainer.step().unwrap();
            let parameters = trainer.parameters() as u64;
            let step = || trainer.step().unwrap();
            (most_in(&device, before, step), parameters)
        };
        // Later runs launch nothing that this one hasn't.
        most(None);
        let (resident, parameters) = most(None);
        // Two f32 of each parameter.
        let moments = 8 * parameters;
        let file = MomentStore::file(&folder.path().join("moments")).unwrap();
        for store in [MomentStore::host(), file] {
            let (kept, _) = most(Some(store));
            let fell = resident.saturating_sub(kept);
            let all = 10 * fell >= 9 * moments;
            assert!(all, "{name}: {fell} of {moments} bytes, from {resident}");
        }
    }
}

/// What one layer keeps for its gradients is an eighth of what all do; beside it there are the inputs of the layers, the head and gradients.
#[test]
fn layers_that_are_computed_again_take_the_memory_of_one() {
    for target in counted() {
        let _alone = target.alone();
        let (name, device) = (target.name, target.burn());
        let most = |again: bool| {
            let before = live(&device);
            let mut trainer = trainer(1024, &device);
            if again {
                trainer.checkpoint_activations().unwrap();
            }
            most_in(&device, before, || trainer.step().unwrap())
        };
        let [kept, again] = [false, true].map(most);
        let less = 2 * again < kept;
        assert!(less, "{name}: {again} bytes, with all kept {kept}");
    }
}
