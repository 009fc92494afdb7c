//! Memory doesn't grow: thousands of steps and hundreds of shapes take no more than the first steps.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use moebius::moe::{Capacity, MoeConfig, MoeLayer};
use moebius_device::process_memory;
use moebius_tests::data::Rng;
use moebius_tests::gradients::filled;

/// The largest number of tokens in a batch; the smallest is 1.
const TOKENS: usize = 400;

/// The number of steps until pools and caches are full, and the number measured afterwards. CubeCL's CPU runtime compiles a
/// kernel for each alignment of its buffers: after 1000 steps new ones still occur, 300 kB each. A launch takes a millisecond
/// on `cpu` and on a software adapter, so thousands of steps are for the deep tier.
fn steps(device: &str) -> [usize; 2] {
    let [warm_up, more] = match device {
        "flex" => [300, 1_200],
        _ => [60, 240],
    };
    if crate::deep() {
        [40 * warm_up, 6 * more]
    } else {
        [warm_up, more]
    }
}

/// Runs a forward pass of some tokens; every tenth step also computes gradients.
fn step(number: usize, (layer, training): (&MoeLayer, &MoeLayer), rng: &mut Rng, device: &Device) {
    let tokens = 1 + rng.below(TOKENS);
    if !number.is_multiple_of(10) {
        let x = Tensor::<2>::ones([tokens, 24], device);
        drop(layer.forward(x).unwrap());
    } else {
        let x = Tensor::<2>::ones([tokens, 24], &device.clone().autodiff());
        let out = training.forward(x).unwrap();
        let z = out.losses().unwrap().z.unwrap();
        let gradients = (out.y.sum() + z).backward();
        drop(GradientsParams::from_grads(gradients, training));
    }
    if number.is_multiple_of(50) {
        device.sync().unwrap();
    }
}

/// Three figures in bytes: live buffers, memory taken from the device, and the process's resident memory.
fn memory(device: &Device, client: &Option<cubecl::client::Client>) -> [u64; 3] {
    device.sync().unwrap();
    let taken = client.as_ref().map(moebius_device::memory_in_use);
    let (taken, resident) = (
        taken.unwrap_or_default(),
        process_memory().unwrap().resident,
    );
    [taken.in_use, taken.reserved, resident]
}

pub(crate) fn endure(arguments: &[String]) {
    let opened = moebius_device::open(&arguments[0].parse().unwrap()).unwrap();
    let (device, client) = (moebius::on(&opened).unwrap(), opened.client());
    let capacity = Some(Capacity::new(1.25, 2).unwrap());
    let config = MoeConfig::new(24, 40, 4)
        .with_gated(true)
        .with_capacity(capacity);
    let layers = [device.clone(), device.clone().autodiff()];
    let [layer, training] = layers.map(|device| filled(config.init(&device).unwrap(), 1, 0.3));
    let mut rng = Rng::new(7);
    let [warm_up, steps] = steps(&arguments[0]);
    for number in 0..warm_up {
        step(number, (&layer, &training), &mut rng, &device);
    }
    let before = memory(&device, &client);
    println!("after {warm_up} steps {before:?}");
    for number in 0..steps {
        step(number, (&layer, &training), &mut rng, &device);
    }
    let after = memory(&device, &client);
    println!("after {steps} more {after:?}");
    // A batch may still be in use, pools may take another page or two, and allocators fragment.
    let allowed = [1 << 20, 16 << 20, 64 << 20];
    for (at, what) in ["in use", "taken from the device", "resident"]
        .iter()
        .enumerate()
    {
        let (grown, allowed) = (after[at].saturating_sub(before[at]), allowed[at]);
        assert!(
            grown <= allowed,
            "{what}: {grown} bytes more, expected at most {allowed}"
        );
    }
}
