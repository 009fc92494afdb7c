//! Passes that keep the workers awake.

use moebius_host::{join, on_workers};
use rayon::ThreadPoolBuilder;
use std::hint::black_box;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// Enough multiply-adds for a pass on the workers.
const MANY: usize = 1 << 30;

/// A worker, and the address of a value on its stack where it takes work of the pass that asks.
fn place_of_another() -> (usize, usize) {
    let (told, place) = channel();
    rayon::spawn(move || {
        let here = 0_u8;
        let at = ptr::from_ref(black_box(&here)).addr();
        let worker = rayon::current_thread_index().unwrap();
        told.send((worker, at)).unwrap();
    });
    place.recv().unwrap()
}

/// Each pass begins before the one before it ends, so that there is always one: those of two threads take turns. The workers look for work no deeper
/// on their stacks for that.
#[test]
fn passes_that_overlap_leave_nothing_on_stacks() {
    const PASSES: usize = 2000;
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let begun = AtomicUsize::new(0);
    let wait_for = |passes: usize| {
        while begun.load(Ordering::Acquire) < passes {
            thread::yield_now();
        }
    };
    let places: [Mutex<Vec<usize>>; 3] = Default::default();
    let pass = |number: usize| {
        wait_for(number);
        let within = || {
            let (worker, at) = place_of_another();
            places[worker].lock().unwrap().push(at);
            begun.fetch_add(1, Ordering::Release);
            wait_for((number + 2).min(PASSES));
        };
        pool.install(|| on_workers(MANY, within));
    };
    thread::scope(|scope| {
        for first in [0, 1] {
            let pass = &pass;
            scope.spawn(move || (first..PASSES).step_by(2).for_each(pass));
        }
    });
    let places = places.map(|places| places.into_inner().unwrap());
    assert_eq!(places.iter().map(Vec::len).sum::<usize>(), PASSES);
    for places in places.iter().filter(|places| !places.is_empty()) {
        let (most, least) = (places.iter().max(), places.iter().min());
        let bytes = most.unwrap() - least.unwrap();
        assert!(bytes < 1 << 16, "{bytes} bytes of a stack");
    }
}

/// Two closures that wait for each other end where both run at the same time, which is within a pass on several workers; elsewhere the first one ends
/// before the second begins.
#[test]
fn closures_run_at_the_same_time_within_a_pass() {
    let reached = AtomicUsize::new(0);
    let meet = || {
        reached.fetch_add(1, Ordering::AcqRel);
        while reached.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
        rayon::current_thread_index()
    };
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (first, second) = pool.install(|| on_workers(MANY, || join(meet, meet)));
    assert!(first.is_some() && second.is_some() && first != second);

    let order = Mutex::new(Vec::new());
    let told = |name| order.lock().unwrap().push(name);
    join(|| told("first"), || told("second"));
    assert_eq!(order.into_inner().unwrap(), ["first", "second"]);
}
