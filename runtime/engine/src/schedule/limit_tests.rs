use super::*;

fn request(id: u64, prompt: usize, most_new: usize) -> Request {
    Request::new(RequestId(id), vec![id as u32; prompt], most_new)
}

/// A scheduler of 8 pages and 64 tokens a step, with these requests.
fn scheduler(requests: [Request; 2]) -> Scheduler {
    let mut scheduler = Scheduler::new(Limits::new(8, 64, 4)).unwrap();
    for request in requests {
        scheduler.add(request).unwrap();
    }
    scheduler
}

/// Completes a step with all tokens 9, and returns the requests of its parts.
fn run(scheduler: &mut Scheduler) -> Vec<u64> {
    let step = scheduler.step().unwrap();
    let choosing = step.work.iter().filter(|work| work.samples.is_some());
    let sampled: Vec<Sampled> = choosing.map(|work| Sampled::new(work.request, 9)).collect();
    scheduler.complete(&sampled).unwrap();
    step.work.iter().map(|work| work.request.0).collect()
}

#[test]
fn pages_that_the_cache_lacks_go_back() {
    // Each request has 31 tokens in two pages, and its 33rd, in the third step, needs a third.
    let mut scheduler = scheduler([request(1, 31, 20), request(2, 31, 4)]);
    assert_eq!(
        [run(&mut scheduler), run(&mut scheduler)],
        [[1_u64, 2], [1, 2]]
    );
    assert_eq!(scheduler.pages_reached(), 4);
    let step = scheduler.step().unwrap();
    assert_eq!((step.work.len(), scheduler.pages_reached()), (2, 6));
    // The cache has no memory for the two pages.
    assert!(scheduler.abandon());
    scheduler.limit(4);
    assert_eq!(scheduler.pages_reached(), 4);
    assert_eq!(scheduler.usage().used, 4);
    // The second request gives its pages up for the first, which needs four for its 50 tokens.
    let mut steps = 0;
    while scheduler.first() == Some(RequestId(1)) {
        assert_eq!(run(&mut scheduler), [1_u64]);
        assert!(scheduler.pages_reached() <= 4);
        steps += 1;
    }
    // All of its 20 tokens but the two that came before.
    assert_eq!(steps, 18);
    assert_eq!(scheduler.counts().preemptions, 1);
    // The second computes its 33 tokens, and chooses the two of its four that it lacks.
    assert_eq!([run(&mut scheduler), run(&mut scheduler)], [[2_u64], [2]]);
    assert!(scheduler.is_idle());
}

#[test]
fn a_request_that_lacks_pages_alone_is_the_first_of_an_empty_step() {
    let mut scheduler = scheduler([request(1, 40, 60), request(2, 20, 3)]);
    scheduler.limit(4);
    // Four pages hold 64 tokens: the 40 of the prompt, and 24 more. There is no room for the second request.
    for _ in 0..25 {
        assert_eq!(run(&mut scheduler), [1_u64]);
    }
    let step = scheduler.step().unwrap();
    assert!(step.work.is_empty() && !scheduler.is_idle());
    assert_eq!(scheduler.first(), Some(RequestId(1)));
    assert_eq!(scheduler.pages_reached(), 4);
    // No step is under way, and without the request the other one runs.
    assert!(scheduler.cancel(RequestId(1)));
    for _ in 0..3 {
        assert_eq!(run(&mut scheduler), [2_u64]);
    }
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.usage().used, 0);
}
