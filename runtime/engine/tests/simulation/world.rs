//! A simulated cache of the toy model, requests that share it, and the invariants after every event.

use std::collections::{BTreeMap, HashMap, HashSet};

use moebius_engine::{
    Counts, History, Limits, PAGE, Request, RequestId, Sampled, Scheduler, Step, Work,
};

use crate::toy::{Alone, Random, VOCABULARY, held, logits, start};

/// An event in the life of a scheduler.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Add {
        prompt: Vec<u32>,
        most_new: usize,
        salt: u8,
    },
    /// Cancels the request at this index among all requests, modulo their number.
    Cancel(usize),
    /// Computes a step, and cancels these requests meanwhile; the first of them gets its token anyway.
    Step { cancelled: Vec<usize> },
    /// Begins a step and abandons it, and cancels a request meanwhile.
    Abandon(usize),
}

/// A request that exists in the scheduler.
struct Running {
    alone: Alone,
    history: History,
    generated: Vec<u32>,
}

pub(crate) struct World {
    limits: Limits,
    scheduler: Scheduler,
    /// The hash that each position of each page holds; `None` at first.
    memory: Vec<[Option<u64>; PAGE]>,
    /// Requests by id; ids increase.
    requests: BTreeMap<RequestId, Running>,
    names: u64,
    /// Decides how many of the proposed tokens are right.
    random: Random,
    pub(crate) seen: Seen,
}

/// Counts of what happened, to check that a simulation covers everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) steps: usize,
    pub(crate) finished: usize,
    pub(crate) refused: usize,
    pub(crate) cancelled: usize,
    pub(crate) abandoned: usize,
    /// Number of prompts that a step cut.
    pub(crate) cut: usize,
    /// Number of steps with several requests.
    pub(crate) shared: usize,
    pub(crate) found: u64,
    pub(crate) preemptions: u64,
    /// Number of proposed tokens that requests got.
    pub(crate) accepted: usize,
    /// Number of proposed tokens that weren't chosen.
    pub(crate) rejected: usize,
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            scheduler: Scheduler::new(limits).unwrap(),
            memory: vec![[None; PAGE]; limits.pages],
            requests: BTreeMap::new(),
            names: 0,
            random: Random(17),
            seen: Seen::default(),
        }
    }

    /// This world, where up to `tokens` tokens are proposed for each request in a step: the right ones up to a random place.
    pub(crate) fn with_proposals(mut self, tokens: usize) -> Self {
        self.scheduler.make_room(tokens);
        self
    }

    pub(crate) fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Add {
                prompt,
                most_new,
                salt,
            } => self.add(prompt, *most_new, *salt),
            Event::Cancel(place) => {
                if let Some(id) = self.at(*place) {
                    self.cancel(id);
                }
            }
            Event::Step { cancelled } => self.step(cancelled),
            Event::Abandon(place) => self.abandon(*place),
        }
        self.check();
        let Counts {
            found, preemptions, ..
        } = self.scheduler.counts();
        (self.seen.found, self.seen.preemptions) = (found, preemptions);
    }

    /// Runs steps until no request is left. The first request always continues, so this ends.
    pub(crate) fn finish(&mut self) {
        let most: usize = self
            .requests
            .values()
            .map(|request| request.alone.tokens.len())
            .sum();
        for _ in 0..most {
            if self.requests.is_empty() {
                break;
            }
            self.apply(&Event::Step { cancelled: vec![] });
        }
        assert!(self.requests.is_empty() && self.scheduler.is_idle());
        assert_eq!(self.scheduler.step().unwrap(), Step::default());
        assert_eq!(self.scheduler.usage().used, 0);
    }

    fn at(&self, place: usize) -> Option<RequestId> {
        let count = self.requests.len().max(1);
        self.requests.keys().nth(place % count).copied()
    }

    fn add(&mut self, prompt: &[u32], most_new: usize, salt: u8) {
        self.names += 1;
        let id = RequestId(self.names);
        let request = Request::new(id, prompt.to_vec(), most_new).with_salt([salt]);
        let fits = !prompt.is_empty()
            && most_new > 0
            && prompt.len() + most_new <= self.limits.longest
            && prompt.len() + most_new - 1 <= self.limits.pages * PAGE;
        let taken = self.scheduler.add(request.clone());
        assert_eq!(taken.is_ok(), fits, "{taken:?}");
        if !fits {
            self.seen.refused += 1;
            return;
        }
        assert!(self.scheduler.add(request).is_err(), "a name is used twice");
        let running = Running {
            alone: Alone::new(prompt, most_new, salt, self.names),
            history: History::new(prompt),
            generated: Vec::new(),
        };
        self.requests.insert(id, running);
    }

    fn cancel(&mut self, id: RequestId) {
        assert!(self.scheduler.cancel(id));
        self.requests.remove(&id);
        self.seen.cancelled += 1;
    }

    fn abandon(&mut self, place: usize) {
        let step = self.scheduler.step().unwrap();
        self.check_step(&step);
        if let Some(id) = self.at(place) {
            self.cancel(id);
        }
        assert_eq!(self.scheduler.abandon(), !step.work.is_empty());
        assert!(!self.scheduler.abandon());
        self.seen.abandoned += 1;
    }

    fn step(&mut self, cancelled: &[usize]) {
        let step = self.scheduler.step().unwrap();
        self.check_step(&step);
        if step.work.is_empty() {
            return;
        }
        assert!(self.scheduler.step().is_err(), "two steps are under way");
        let computed = step.work.iter().map(|work| self.compute(work.clone()));
        let mut computed: Vec<Vec<Sampled>> = computed.collect();
        // The order of the requests doesn't matter.
        computed.reverse();
        let mut sampled = computed.concat();
        for (number, place) in cancelled.iter().enumerate() {
            if let Some(id) = self.at(*place) {
                self.cancel(id);
                if number > 0 {
                    sampled.retain(|sampled| sampled.request != id);
                }
            }
        }
        let ended = self.scheduler.complete(&sampled).unwrap();
        assert!(
            self.scheduler.complete(&sampled).is_err(),
            "a step is completed twice"
        );
        self.note(&sampled, &ended);
        self.seen.steps += 1;
        self.seen.shared += usize::from(step.work.len() > 1);
    }

    /// Checks that generated tokens are those of the request alone, and that an ended request has all of them.
    fn note(&mut self, sampled: &[Sampled], ended: &[RequestId]) {
        for (at, Sampled { request, token, .. }) in sampled.iter().enumerate() {
            let Some(running) = self.requests.get_mut(request) else {
                continue;
            };
            running.generated.push(*token);
            running.history.push(*token);
            let alone = &running.alone;
            let expected = &alone.tokens[alone.prompt..][..running.generated.len()];
            assert_eq!(running.generated, expected);
            let complete = running.generated.len() == alone.tokens.len() - alone.prompt;
            let next = sampled.get(at + 1);
            let more = next.is_some_and(|next| next.request == *request);
            assert_eq!(ended.contains(request) && !more, complete);
            if complete {
                self.requests.remove(request);
                self.seen.finished += 1;
            }
        }
    }

    /// Computes a part like a model: reads the positions before it, writes its own and those of proposed tokens, and chooses tokens.
    fn compute(&mut self, mut work: Work) -> Vec<Sampled> {
        let guess = self.guess(&work);
        work.propose(&guess);
        assert_eq!(work.proposal(), guess);
        let running = &self.requests[&work.request];
        let start = start(running.alone.salt);
        let place = |position: usize| (work.pages[position / PAGE] as usize, position % PAGE);
        let mut computed = Vec::new();
        for (position, token) in work.positions.clone().zip(&work.tokens) {
            let before = position.checked_sub(1).map(|before| {
                let (page, at) = place(before);
                self.memory[page][at].unwrap()
            });
            let last = held(before.unwrap_or(start), *token);
            let (page, at) = place(position);
            self.memory[page][at] = Some(last);
            computed.push(last);
        }
        let Some(index) = work.samples else {
            return Vec::new();
        };
        assert_eq!(index, running.generated.len());
        let (mut history, mut chosen) = (running.history.clone(), Vec::new());
        let first = computed.len() - 1 - work.proposed;
        for (number, last) in computed[first..].iter().enumerate() {
            let place = (index + number) as u64;
            let sampling = &running.alone.sampling;
            let token = sampling.sample(&logits(*last), &history, place);
            let token = token.unwrap().id;
            history.push(token);
            let last = token == 0;
            chosen.push(Sampled {
                request: work.request,
                token,
                last,
            });
            if last || guess.get(number) != Some(&token) {
                break;
            }
        }
        self.seen.accepted += chosen.len() - 1;
        self.seen.rejected += guess.len() + 1 - chosen.len();
        chosen
    }

    /// The tokens that a request will get, as many as there is room for, of which a random one or none is replaced by another.
    fn guess(&mut self, work: &Work) -> Vec<u32> {
        let alone = &self.requests[&work.request].alone;
        let next = alone.tokens[work.positions.end..].iter();
        let mut guess: Vec<u32> = next.copied().take(work.room).collect();
        let wrong = self.random.below(work.room + 2);
        if let Some(token) = guess.get_mut(wrong) {
            *token = (*token + 1) % VOCABULARY;
        }
        guess
    }

    /// Checks that a step keeps the limits, continues the first request, reads only what was written, and writes only pages that no other
    /// request has.
    fn check_step(&mut self, step: &Step) {
        assert_eq!(step.work.is_empty(), self.requests.is_empty());
        let with_room = |work: &Work| work.positions.len() + work.room;
        let tokens: usize = step.work.iter().map(with_room).sum();
        assert!(tokens <= self.limits.batch_tokens);
        assert!(step.preempted.is_empty() || step.admitted.is_empty());
        let first = step.work.first().map(|work| work.request);
        assert_eq!(first.as_ref(), self.requests.keys().next());
        assert!(step.work.is_sorted_by(|a, b| a.request < b.request));
        let mut users = HashMap::<u32, usize>::new();
        for (_, pages) in self.scheduler.running() {
            pages
                .iter()
                .for_each(|page| *users.entry(*page).or_default() += 1);
        }
        for work in &step.work {
            let alone = &self.requests[&work.request].alone;
            let (start, end) = (work.positions.start, work.positions.end);
            assert!(start < end);
            assert_eq!(work.tokens, alone.tokens[start..end]);
            assert_eq!(work.pages.len(), (end + work.room).div_ceil(PAGE));
            assert!(work.room == 0 || work.samples.is_some());
            for position in 0..start {
                let page = self.memory[work.pages[position / PAGE] as usize];
                assert_eq!(
                    page[position % PAGE],
                    Some(alone.held[position]),
                    "{work:?}"
                );
            }
            let written = &work.pages[start / PAGE..];
            assert!(written.iter().all(|page| users[page] == 1), "{work:?}");
            let known = alone.prompt + self.requests[&work.request].generated.len();
            assert_eq!(work.samples.is_some(), end == known);
            self.seen.cut += usize::from(end < alone.prompt);
        }
    }

    /// Checks that no page is lost, that requests share a page only at the same position, and that requests run in the order of arrival.
    fn check(&self) {
        let (mut used, mut running) = (HashMap::<u32, usize>::new(), Vec::new());
        for (id, pages) in self.scheduler.running() {
            running.push(id);
            let request = &self.requests[&id];
            let known = request.alone.prompt + request.generated.len();
            assert!(pages.len() <= known.div_ceil(PAGE), "{id:?} {pages:?}");
            let distinct: HashSet<&u32> = pages.iter().collect();
            assert_eq!(distinct.len(), pages.len());
            for (at, page) in pages.iter().enumerate() {
                assert!((*page as usize) < self.limits.pages);
                assert_eq!(*used.entry(*page).or_insert(at), at);
            }
        }
        let usage = self.scheduler.usage();
        assert_eq!(usage.used, used.len());
        assert_eq!(usage.free + usage.cached + usage.used, self.limits.pages);
        assert!(running.len() <= self.limits.running);
        running.extend(self.scheduler.waiting());
        assert!(running.iter().eq(self.requests.keys()), "{running:?}");
    }
}
