//! Many requests on few pages, with a toy model that detects any wrong page: nothing is lost, shared wrongly or late, and each request
//! generates what it generates alone. With `MOEBIUS_TEST_DEEP=1` there are a million steps.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod toy;
mod world;

use moebius_engine::{Limits, PAGE};
use proptest::prelude::*;

use toy::{Alone, Random, VOCABULARY};
use world::{Event, Seen, World};

/// The prefix of one of few texts, so that requests have common prefixes, and some tokens of its own.
fn prompt(text: usize, length: usize, own: &[u32]) -> Vec<u32> {
    let mut random = Random(text as u64);
    let mut tokens: Vec<u32> = (0..length)
        .map(|_| 1 + random.below(VOCABULARY as usize - 1) as u32)
        .collect();
    tokens.extend(own);
    tokens
}

fn any_limits(random: &mut Random) -> Limits {
    let running = 1 + random.below(8);
    let [most_pages, most_tokens] = [[6, 30, 150], [4, 40, 200]].map(|most| most[random.below(3)]);
    let pages = 1 + random.below(most_pages);
    let batch_tokens = running + random.below(most_tokens);
    Limits::new(pages, batch_tokens, running)
}

fn any_event(random: &mut Random, limits: &Limits) -> Event {
    let most = limits.pages * PAGE;
    match random.below(40) {
        0..8 => {
            let own: Vec<u32> = (0..random.below(20))
                .map(|_| random.below(VOCABULARY as usize) as u32)
                .collect();
            let length = random.below(most.min(120));
            Event::Add {
                prompt: prompt(random.below(4), length, &own),
                most_new: random.below(60),
                salt: u8::from(random.once_in(5)),
            }
        }
        8 => Event::Cancel(random.below(100)),
        9 if random.once_in(4) => Event::Abandon(random.below(100)),
        10 => {
            let cancelled = (0..random.below(4)).map(|_| random.below(100)).collect();
            Event::Step { cancelled }
        }
        _ => Event::Step { cancelled: vec![] },
    }
}

#[test]
fn requests_get_what_they_get_alone() {
    let deep = std::env::var("MOEBIUS_TEST_DEEP").is_ok_and(|value| value == "1");
    let steps = if deep { 1_000_000 } else { 100_000 };
    let (mut all, mut seed) = (Seen::default(), 0);
    while all.steps < steps {
        // The output of a failed test shows the last seed.
        println!("seed {seed}");
        let mut random = Random(seed);
        let limits = any_limits(&mut random);
        let mut world = World::new(limits).with_proposals(seed as usize % 6);
        for _ in 0..1000 {
            world.apply(&any_event(&mut random, &limits));
        }
        world.finish();
        add(&mut all, &world.seen);
        seed += 1;
    }
    println!("{all:?}");
    let [found, preemptions] = [all.found, all.preemptions].map(|count| count as usize);
    let ended = [all.finished, all.refused, all.cancelled, all.abandoned];
    let proposed = [all.accepted, all.rejected];
    let ways = [all.cut, all.shared, found, preemptions];
    let mut counts = ended.into_iter().chain(ways).chain(proposed);
    assert!(counts.all(|count| count > steps / 500), "{all:?}");
}

fn add(all: &mut Seen, seen: &Seen) {
    all.steps += seen.steps;
    all.finished += seen.finished;
    all.refused += seen.refused;
    all.cancelled += seen.cancelled;
    all.abandoned += seen.abandoned;
    all.cut += seen.cut;
    all.shared += seen.shared;
    all.found += seen.found;
    all.preemptions += seen.preemptions;
    all.accepted += seen.accepted;
    all.rejected += seen.rejected;
}

fn shrinking_event() -> impl Strategy<Value = Event> {
    let own = prop::collection::vec(0..VOCABULARY, 0..20);
    let add = (0..3_usize, 0..70_usize, own, 0..30_usize, 0..2_u8);
    prop_oneof![
        2 => add.prop_map(|(text, length, own, most_new, salt)| Event::Add {
            prompt: prompt(text, length, &own),
            most_new,
            salt,
        }),
        1 => (0..8_usize).prop_map(Event::Cancel),
        1 => (0..8_usize).prop_map(Event::Abandon),
        8 => prop::collection::vec(0..8_usize, 0..2).prop_map(|cancelled| Event::Step { cancelled }),
    ]
}

#[test]
fn any_events_leave_a_sound_cache() {
    let limits = (1..12_usize, 1..5_usize, 0..40_usize);
    let limits =
        limits.prop_map(|(pages, running, more)| Limits::new(pages, running + more, running));
    let events = prop::collection::vec(shrinking_event(), 0..60);
    proptest!(|(limits in limits, events in events, proposals in 0..20_usize)| {
        let mut world = World::new(limits).with_proposals(proposals);
        events.iter().for_each(|event| world.apply(event));
        world.finish();
    });
}

/// One request in all the ways that a step can treat it. The world compares each with the request alone, position by position and token by
/// token.
#[test]
fn each_way_to_run_gives_the_same_tokens() {
    let text = prompt(0, 100, &[]);
    let ask = |length: usize, most_new: usize| Event::Add {
        prompt: text[..length].to_vec(),
        most_new,
        salt: 0,
    };
    let run = |limits: Limits, events: &[Event]| {
        let mut world = World::new(limits);
        for event in events {
            world.apply(event);
        }
        world.finish();
        world
    };
    let alone = run(Limits::new(50, 500, 1), &[ask(100, 40)]);
    assert_eq!((alone.seen.finished, alone.seen.cut), (1, 0));

    let batched = run(
        Limits::new(50, 500, 4),
        &[ask(100, 40), ask(90, 40), ask(3, 40)],
    );
    assert_eq!((batched.seen.finished, batched.seen.preemptions), (3, 0));
    assert!(batched.seen.shared > 0 && batched.seen.found == 0);

    let chunked = run(Limits::new(50, 7, 1), &[ask(100, 40)]);
    assert_eq!((chunked.seen.finished, chunked.seen.cut), (1, 14));

    let step = || Event::Step { cancelled: vec![] };
    let hit = run(Limits::new(50, 500, 4), &[ask(90, 1), step(), ask(100, 40)]);
    assert_eq!((hit.seen.finished, hit.seen.found), (2, 80));
    assert_eq!(hit.counts().looked_up, 190);

    // Two requests that fit at the beginning, but not after they have grown.
    let most_new = Alone::new(&text, 60, 0, 2).tokens.len() - 100;
    assert!(
        most_new > 12,
        "the text of the second request is too short: {most_new}"
    );
    let mut other = prompt(1, 101, &[]);
    other[0] = 5;
    let first = Event::Add {
        prompt: other,
        most_new: 60,
        salt: 0,
    };
    let preempted = run(Limits::new(15, 500, 4), &[first, ask(100, 60)]);
    assert_eq!(preempted.seen.finished, 2);
    assert!(preempted.seen.preemptions > 0);
}
