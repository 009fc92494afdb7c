//! Steps derived by hand, and errors of a scheduler.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use moebius_engine::{
    EngineOptions, Limits, PAGE, Refused, Request, RequestId, Sampled, Scheduler, Step, StepError,
};

fn request(id: u64, prompt: usize, most_new: usize) -> Request {
    // Prompts of different requests differ from the first token on.
    Request::new(RequestId(id), vec![id as u32; prompt], most_new)
}

fn scheduler(pages: usize, batch_tokens: usize, running: usize) -> Scheduler {
    Scheduler::new(Limits::new(pages, batch_tokens, running)).unwrap()
}

/// For each part of a step: its request, its positions, and the index of the token that it chooses.
fn parts(step: &Step) -> Vec<(u64, [usize; 2], Option<usize>)> {
    let parts = step.work.iter().map(|work| {
        let positions = [work.positions.start, work.positions.end];
        (work.request.0, positions, work.samples)
    });
    parts.collect()
}

/// Completes a step with all tokens 9, and returns the step.
fn run(scheduler: &mut Scheduler) -> Step {
    let step = scheduler.step().unwrap();
    let choosing = step.work.iter().filter(|work| work.samples.is_some());
    let sampled: Vec<Sampled> = choosing.map(|work| Sampled::new(work.request, 9)).collect();
    scheduler.complete(&sampled).unwrap();
    step
}

#[test]
fn prompts_are_cut_where_a_step_is_full() {
    let mut scheduler = scheduler(100, 32, 4);
    scheduler.add(request(1, 10, 3)).unwrap();
    scheduler.add(request(2, 50, 2)).unwrap();
    scheduler.add(request(3, 4, 1)).unwrap();
    let step = run(&mut scheduler);
    assert_eq!(parts(&step), [(1, [0, 10], Some(0)), (2, [0, 22], None)]);
    assert_eq!(step.admitted, [RequestId(1), RequestId(2)]);
    // The part has only the pages that it needs so far.
    assert_eq!(step.work[1].pages.len(), 2);
    let expected = [
        (1, [10, 11], Some(1)),
        (2, [22, 50], Some(0)),
        (3, [0, 3], None),
    ];
    assert_eq!(parts(&run(&mut scheduler)), expected);
    let expected = [
        (1, [11, 12], Some(2)),
        (2, [50, 51], Some(1)),
        (3, [3, 4], Some(0)),
    ];
    let step = scheduler.step().unwrap();
    assert_eq!(parts(&step), expected);
    assert_eq!(step.work[1].tokens, [9]);
    // All requests had their last token, whose keys and values no later token reads.
    let sampled = [3, 1, 2].map(|id| Sampled::new(RequestId(id), 9));
    let ended = scheduler.complete(&sampled).unwrap();
    assert_eq!(ended, [1, 2, 3].map(RequestId));
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.step().unwrap(), Step::default());
}

#[test]
fn requests_that_options_are_for_run_at_the_same_time() {
    for (prompt, count) in [(512, 8), (3, 40), (4096, 2), (100, 1)] {
        let answer = 64;
        let options = EngineOptions::for_all(vec![prompt + answer; count]);
        let mut scheduler = Scheduler::new(options.limits).unwrap();
        for id in 0..count {
            scheduler.add(request(id as u64, prompt, answer)).unwrap();
        }
        let mut most = 0;
        while !scheduler.is_idle() {
            let step = run(&mut scheduler);
            assert!(step.preempted.is_empty());
            most = most.max(step.work.len());
        }
        assert_eq!(most, count, "{count} prompts of {prompt} tokens");
        let longer = request(9, prompt + PAGE, answer);
        assert!(matches!(
            scheduler.add(longer),
            Err(Refused::TooLong { .. })
        ));
    }
    // A cache need not hold those that wait.
    let many = EngineOptions::for_all((0..1000).map(|id| id % 2 * PAGE + 1)).limits;
    assert_eq!([many.running, many.batch_tokens], [512, 512]);
    assert_eq!([many.pages, many.longest], [1012 + 11, 2 * PAGE]);
}

#[test]
fn a_last_token_ends_a_request() {
    let mut scheduler = scheduler(10, 32, 4);
    scheduler.add(request(1, 20, 100)).unwrap();
    scheduler.step().unwrap();
    let ended = scheduler.complete(&[Sampled::last(RequestId(1), 0)]);
    assert_eq!(ended.unwrap(), [RequestId(1)]);
    // The full page stays cached, and the other page is free.
    let usage = scheduler.usage();
    assert_eq!([usage.free, usage.cached, usage.used], [9, 1, 0]);
    assert_eq!(usage.available(), 10);
}

#[test]
fn a_common_start_is_computed_once() {
    let mut scheduler = scheduler(100, 200, 4);
    let prompt: Vec<u32> = (0..48).collect();
    let ask = |id: u64, length: usize| Request::new(RequestId(id), prompt[..length].to_vec(), 1);
    scheduler.add(ask(1, 48)).unwrap();
    let first = run(&mut scheduler).work.remove(0).pages;
    // The last page is full, but the logits of its last token are needed, so the page is computed again in another page.
    scheduler.add(ask(2, 48)).unwrap();
    scheduler.add(ask(3, 33)).unwrap();
    scheduler.add(ask(4, 48).with_salt("other")).unwrap();
    let step = run(&mut scheduler);
    let expected = [
        (2, [32, 48], Some(0)),
        (3, [32, 33], Some(0)),
        (4, [0, 48], Some(0)),
    ];
    assert_eq!(parts(&step), expected);
    assert_eq!(step.work[0].pages[..2], first[..2]);
    assert_eq!(step.work[1].pages[..2], first[..2]);
    assert_ne!(step.work[0].pages[2], first[2]);
    assert!(step.work[2].pages.iter().all(|page| !first.contains(page)));
    // The page that was computed twice is kept only once.
    let usage = scheduler.usage();
    assert_eq!([usage.cached, usage.used], [6, 0]);
    let counts = scheduler.counts();
    assert_eq!([counts.looked_up, counts.found], [177, 64]);
}

/// Two requests compute the same pages at the same time, and share them from the next step on.
#[test]
fn pages_that_are_equal_become_one() {
    let mut scheduler = scheduler(100, 200, 4);
    for id in [1, 2] {
        let request = Request::new(RequestId(id), vec![5; 40], 4);
        scheduler.add(request).unwrap();
    }
    let apart = |step: Step| {
        let [one, other] = [0, 1].map(|part: usize| &step.work[part].pages);
        [0, 1, 2].map(|page: usize| one[page] != other[page])
    };
    assert_eq!(apart(run(&mut scheduler)), [true; 3]);
    assert_eq!(apart(run(&mut scheduler)), [false, false, true]);
    assert_eq!(scheduler.usage().used, 4);
}

#[test]
fn who_came_last_gives_up_its_pages() {
    // Of four pages, both requests take two, and each needs a third for its 33rd token.
    let mut scheduler = scheduler(4, 200, 4);
    scheduler.add(request(1, 32, 4)).unwrap();
    scheduler.add(request(2, 31, 4)).unwrap();
    scheduler.add(request(3, 1, 1)).unwrap();
    // The reserve of one page delays the second request while the first runs.
    assert_eq!(parts(&run(&mut scheduler)), [(1, [0, 32], Some(0))]);
    assert!(scheduler.waiting().eq([2, 3].map(RequestId)));
    assert!(scheduler.cancel(RequestId(1)));
    // Without running requests the reserve doesn't apply; the third request waits for its turn, although it is small.
    let both = [(2, [0, 31], Some(0)), (3, [0, 1], Some(0))];
    assert_eq!(parts(&run(&mut scheduler)), both);

    let mut scheduler = self::scheduler(6, 200, 4);
    scheduler.add(request(1, 31, 20)).unwrap();
    scheduler.add(request(2, 48, 3)).unwrap();
    let both = [(1, [0, 31], Some(0)), (2, [0, 48], Some(0))];
    assert_eq!(parts(&run(&mut scheduler)), both);
    scheduler.add(request(3, 1, 1)).unwrap();
    // The second request takes the last page, so the first has none when it needs its third.
    let both = [(1, [31, 32], Some(1)), (2, [48, 49], Some(1))];
    assert_eq!(parts(&run(&mut scheduler)), both);
    let step = run(&mut scheduler);
    assert_eq!(parts(&step), [(1, [32, 33], Some(2))]);
    assert_eq!(step.preempted, [RequestId(2)]);
    assert!(step.admitted.is_empty());
    assert_eq!(scheduler.counts().preemptions, 1);
    // The preempted request waits before the later one. Its full pages are still cached: of 48 tokens, one is computed again, and its
    // generated tokens are unchanged.
    let usage = scheduler.usage();
    assert_eq!([usage.free, usage.cached, usage.used], [0, 3, 3]);
    assert!(scheduler.waiting().eq([2, 3].map(RequestId)));
    assert_eq!(parts(&run(&mut scheduler)), [(1, [33, 34], Some(3))]);
    assert!(scheduler.cancel(RequestId(1)));
    let step = run(&mut scheduler);
    assert_eq!(parts(&step), [(2, [48, 50], Some(2)), (3, [0, 1], Some(0))]);
    assert_eq!(step.work[0].tokens, [9, 9]);
}

/// The reserve is one page for up to a hundred pages, and two for 101. The second request needs two.
#[test]
fn a_reserve_is_left_for_those_that_run() {
    for (pages, first, admitted) in [
        (3, 1, false),
        (4, 1, true),
        (101, 98, false),
        (101, 97, true),
    ] {
        let mut scheduler = scheduler(pages, 10_000, 2);
        scheduler.add(request(1, first * PAGE, 2)).unwrap();
        scheduler.add(request(2, 2 * PAGE, 1)).unwrap();
        let step = run(&mut scheduler);
        assert_eq!(step.admitted.len() == 2, admitted, "{pages} {first}");
    }
}

#[test]
fn a_cancelled_request_leaves_its_full_pages() {
    let mut scheduler = scheduler(10, 40, 4);
    scheduler.add(request(1, 100, 5)).unwrap();
    run(&mut scheduler);
    // A request that is cancelled during a step ends with the step, and its token is dropped.
    let step = scheduler.step().unwrap();
    assert_eq!(parts(&step), [(1, [40, 80], None)]);
    assert!(scheduler.cancel(RequestId(1)));
    assert!(!scheduler.cancel(RequestId(1)));
    assert_eq!(scheduler.complete(&[]).unwrap(), []);
    assert!(scheduler.is_idle());
    let usage = scheduler.usage();
    assert_eq!([usage.free, usage.cached, usage.used], [5, 5, 0]);
    scheduler.add(request(1, 100, 5)).unwrap();
    assert_eq!(parts(&run(&mut scheduler)), [(1, [80, 100], Some(0))]);
    // A request that waits, or is cancelled between steps, ends at once.
    scheduler.add(request(2, 1, 1)).unwrap();
    assert!(scheduler.cancel(RequestId(2)) && scheduler.cancel(RequestId(1)));
    assert!(scheduler.is_idle());
    assert!(!scheduler.cancel(RequestId(3)));
}

#[test]
fn a_step_that_was_not_computed_is_given_again() {
    let mut scheduler = scheduler(10, 40, 4);
    scheduler.add(request(1, 50, 5)).unwrap();
    let step = scheduler.step().unwrap();
    assert!(scheduler.abandon());
    assert!(!scheduler.abandon());
    let again = scheduler.step().unwrap();
    assert_eq!(again.work, step.work);
    assert!(again.admitted.is_empty());
    // Pages of an abandoned step can't be found.
    assert!(scheduler.cancel(RequestId(1)) && scheduler.abandon());
    assert_eq!(scheduler.usage().free, 10);
}

#[test]
fn what_can_never_run_is_refused() {
    let limits = Limits {
        longest: 100,
        ..Limits::new(4, 40, 4)
    };
    let mut scheduler = Scheduler::new(limits).unwrap();
    let (id, longest) = (RequestId(1), 100);
    let nothing = |prompt, most_new| Refused::Nothing {
        id,
        prompt,
        most_new,
    };
    let too_long = |tokens| Refused::TooLong {
        id,
        tokens,
        longest,
    };
    let pages = Refused::TooManyPages {
        id,
        needed: 5,
        pages: 4,
    };
    for (prompt, most_new, refused) in [
        (0, 5, nothing(0, 5)),
        (5, 0, nothing(5, 0)),
        (96, 5, too_long(101)),
        (96, usize::MAX, too_long(usize::MAX)),
        (60, 6, pages),
    ] {
        let error = scheduler.add(request(1, prompt, most_new));
        assert_eq!(error, Err(refused));
    }
    // The last generated token needs no position.
    scheduler.add(request(1, 60, 5)).unwrap();
    let error = scheduler.add(request(1, 1, 1)).unwrap_err();
    assert_eq!(error, Refused::Known { id });
    let said = "request 1: expected a new name, got one that is in use";
    assert_eq!(error.to_string(), said);
}

#[test]
fn limits_that_let_nobody_run_are_refused() {
    let refused = |limits: Limits| Scheduler::new(limits).unwrap_err();
    let nobody = Limits {
        longest: 0,
        ..Limits::new(1, 1, 1)
    };
    for (limits, what) in [
        (Limits::new(0, 1, 1), "pages"),
        (Limits::new((1 << 30) + 1, 1, 1), "pages"),
        (Limits::new(1, 1, 0), "running"),
        (nobody, "longest"),
    ] {
        assert_eq!(refused(limits).what, what);
    }
    let error = refused(Limits::new(1, 15, 16)).to_string();
    let said = "batch_tokens: expected at least one for each of 16 requests, got 15";
    assert_eq!(error, said);
}

#[test]
fn results_must_be_those_of_the_step() {
    let mut scheduler = scheduler(10, 40, 4);
    assert_eq!(scheduler.complete(&[]), Err(StepError::NoStep));
    for id in [1, 2] {
        scheduler.add(request(id, 30, 5)).unwrap();
    }
    let step = scheduler.step().unwrap();
    assert_eq!(parts(&step), [(1, [0, 30], Some(0)), (2, [0, 10], None)]);
    assert_eq!(scheduler.step(), Err(StepError::UnderWay));
    let [one, two] = [1, 2].map(|id| Sampled::new(RequestId(id), 0));
    for (results, error) in [
        (&[one, two][..], StepError::Unexpected(RequestId(2))),
        (&[], StepError::Missing(RequestId(1))),
        (&[one, one], StepError::Unexpected(RequestId(1))),
    ] {
        assert_eq!(scheduler.complete(results), Err(error));
    }
    // The errors had no effect.
    assert_eq!(scheduler.complete(&[one]), Ok(vec![]));
    let both = [(1, [30, 31], Some(1)), (2, [10, 30], Some(0))];
    assert_eq!(parts(&run(&mut scheduler)), both);
}

/// A scheduler that makes room for three proposed tokens of each request.
fn with_room(pages: usize, batch_tokens: usize, running: usize) -> Scheduler {
    let mut scheduler = scheduler(pages, batch_tokens, running);
    scheduler.make_room(3);
    scheduler
}

/// For each part of a step: its request, its positions, and its room.
fn rooms(step: &Step) -> Vec<(u64, [usize; 2], usize)> {
    let rooms = step.work.iter().map(|work| {
        let positions = [work.positions.start, work.positions.end];
        (work.request.0, positions, work.room)
    });
    rooms.collect()
}

/// These tokens of request 1, in order.
fn tokens(ids: &[u32]) -> Vec<Sampled> {
    ids.iter()
        .map(|id| Sampled::new(RequestId(1), *id))
        .collect()
}

#[test]
fn chosen_proposals_are_computed_and_others_forgotten() {
    let mut scheduler = with_room(10, 40, 4);
    scheduler.add(request(1, 14, 10)).unwrap();
    let mut step = scheduler.step().unwrap();
    // Three proposed tokens reach into a second page.
    assert_eq!(rooms(&step), [(1, [0, 14], 3)]);
    assert_eq!(step.work[0].pages, [0, 1]);
    let work = &mut step.work[0];
    work.propose(&[5, 6, 7, 8]);
    assert_eq!((work.positions.clone(), work.room), (0..17, 0));
    assert_eq!((work.proposal(), work.samples), (&[5, 6, 7][..], Some(0)));
    // The first proposed token was right, the second wasn't: 15 tokens are computed, and the second page isn't needed.
    assert_eq!(scheduler.complete(&tokens(&[5, 9])), Ok(vec![]));
    assert_eq!(scheduler.usage().used, 1);
    let step = scheduler.step().unwrap();
    assert_eq!(parts(&step), [(1, [15, 16], Some(2))]);
    assert_eq!(step.work[0].tokens, [9]);
    assert_eq!(step.work[0].pages, [0, 1]);
    // All proposed tokens were right: 19 tokens are computed, the first page is full, and others find it with these tokens.
    assert_eq!(scheduler.complete(&tokens(&[1, 2, 3, 4])), Ok(vec![]));
    assert_eq!(scheduler.usage().used, 2);
    let mut like = vec![1; 14];
    like.extend([5, 9, 8]);
    scheduler.add(Request::new(RequestId(2), like, 1)).unwrap();
    let step = scheduler.step().unwrap();
    assert_eq!(
        parts(&step),
        [(1, [19, 20], Some(6)), (2, [16, 17], Some(0))]
    );
    // Of ten tokens, six are there and the next is chosen anyway, so that three may be proposed; the second request's only token is its last.
    assert_eq!(rooms(&step), [(1, [19, 20], 3), (2, [16, 17], 0)]);
    let ended = [&tokens(&[1, 2, 3, 4])[..], &[Sampled::new(RequestId(2), 0)]].concat();
    let ended = scheduler.complete(&ended).unwrap();
    assert_eq!(ended, [1, 2].map(RequestId));
    assert_eq!(scheduler.usage().used, 0);
}

#[test]
fn a_last_token_may_be_among_proposed_ones() {
    let mut scheduler = with_room(10, 40, 4);
    scheduler.add(request(1, 15, 10)).unwrap();
    scheduler.step().unwrap();
    let last = [tokens(&[5]), vec![Sampled::last(RequestId(1), 6)]].concat();
    assert_eq!(scheduler.complete(&last), Ok(vec![RequestId(1)]));
    // The page with the fifteen tokens of the prompt and the proposed one is full and stays cached.
    let usage = scheduler.usage();
    assert_eq!([usage.free, usage.cached, usage.used], [9, 1, 0]);
}

#[test]
fn proposals_take_only_what_is_left() {
    // What the requests' own tokens leave of a step's five goes to the first one's proposals.
    let mut scheduler = with_room(10, 5, 2);
    scheduler.add(request(1, 2, 9)).unwrap();
    scheduler.add(request(2, 2, 9)).unwrap();
    assert_eq!(
        rooms(&run(&mut scheduler)),
        [(1, [0, 2], 1), (2, [0, 2], 0)]
    );
    assert_eq!(
        rooms(&run(&mut scheduler)),
        [(1, [2, 3], 3), (2, [2, 3], 0)]
    );
    // A piece of a prompt has no room, and a request near its end has room for all tokens but the last.
    let mut scheduler = with_room(10, 5, 2);
    scheduler.add(request(1, 7, 2)).unwrap();
    assert_eq!(rooms(&run(&mut scheduler)), [(1, [0, 5], 0)]);
    assert_eq!(rooms(&run(&mut scheduler)), [(1, [5, 7], 1)]);
    // Where no page is left, the present one is filled, and nobody is preempted.
    let mut scheduler = with_room(3, 40, 2);
    scheduler.add(request(1, 14, 10)).unwrap();
    scheduler.add(request(2, 14, 9)).unwrap();
    let step = scheduler.step().unwrap();
    assert_eq!(rooms(&step), [(1, [0, 14], 3), (2, [0, 14], 2)]);
    assert_eq!(scheduler.usage().free, 0);
    // An abandoned step gives the pages of proposals back.
    assert!(scheduler.abandon());
    assert_eq!(scheduler.usage().free, 1);
    assert_eq!(rooms(&scheduler.step().unwrap()), rooms(&step));
    scheduler.abandon();
    // Without room, nothing may be proposed.
    scheduler.make_room(0);
    let mut step = scheduler.step().unwrap();
    step.work[0].propose(&[1]);
    assert_eq!(step.work[0].tokens.len(), 14);
}

#[test]
fn results_of_proposals_must_have_room() {
    let mut scheduler = with_room(10, 40, 4);
    scheduler.add(request(1, 30, 5)).unwrap();
    scheduler.step().unwrap();
    let unexpected = Err(StepError::Unexpected(RequestId(1)));
    assert_eq!(scheduler.complete(&tokens(&[0; 5])), unexpected);
    let after_the_last = [vec![Sampled::last(RequestId(1), 6)], tokens(&[5])].concat();
    assert_eq!(scheduler.complete(&after_the_last), unexpected);
    let missing = Err(StepError::Missing(RequestId(1)));
    assert_eq!(scheduler.complete(&[]), missing);
    assert_eq!(scheduler.complete(&tokens(&[0; 4])), Ok(vec![]));
}
