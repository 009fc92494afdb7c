//! Rows moved between the order of tokens and the order of experts: combine, dispatch, and the
//! gradient for the weights, against their f64 oracles.

use crate::Outcome;
use crate::permute::sort;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_ops::permute::{NOWHERE, RowsProblem, Sorted};
use moebius_ops::{Element, routing};
use moebius_shaders::permute::{self, RowsPlan, combine, dispatch, weights_gradient};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::target::{
    Target, download, download_f32, nans, poisoned, upload, upload_f32, upload_u32,
};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// Tokens and sorted rows with their routing, rounded to the element type.
struct Rows {
    problem: RowsProblem,
    keys: Vec<u32>,
    sorted: Sorted,
    x: Vec<f32>,
    rows: Vec<f32>,
    weights: Vec<f32>,
}

impl Rows {
    /// Rows of `width` elements for the slots with `keys`, as many as there are slots with experts
    /// and `spare` more; those hold NaN, and so do the weights of the slots that go nowhere.
    fn new(keys: Vec<u32>, experts: usize, top_k: usize, width: usize, spare: usize) -> Self {
        let sorted = moebius_ops::permute::reference(&keys, experts);
        let used = sorted.offsets[experts] as usize;
        let routing = routing::Problem::new(keys.len() / top_k, experts, top_k).unwrap();
        let problem = RowsProblem::new(&routing, used + spare, width, Element::F32).unwrap();
        let mut rng = Rng::new((keys.len() * 31 + width) as u64);
        let mut rows = rng.vec((used + spare) * width, 1.0);
        rows[used * width..].fill(f32::NAN);
        let mut weights = rng.vec(keys.len(), 1.0);
        for (weight, row) in weights.iter_mut().zip(&sorted.positions) {
            if *row == NOWHERE {
                *weight = f32::NAN;
            }
        }
        Self {
            problem,
            x: rng.vec(keys.len() / top_k * width, 1.0),
            rows,
            weights,
            sorted,
            keys,
        }
    }

    /// Random experts, and none for every eighth slot or so.
    fn random(tokens: usize, experts: usize, top_k: usize, width: usize) -> Self {
        let mut rng = Rng::new((tokens + width) as u64);
        let mut key = |slot: usize| match rng.below(8) {
            0 if slot > 0 => experts as u32,
            _ => rng.below(experts) as u32,
        };
        let keys = (0..tokens * top_k).map(&mut key).collect();
        Self::new(keys, experts, top_k, width, 0)
    }

    fn of(mut self, element: Element) -> Self {
        let p = &self.problem;
        let routing = routing::Problem::new(p.tokens(), p.experts(), p.top_k()).unwrap();
        self.problem = RowsProblem::new(&routing, p.row_bound(), p.width(), element).unwrap();
        for values in [&mut self.x, &mut self.rows] {
            values.iter_mut().for_each(|v| *v = rounded(*v, element));
        }
        self
    }

    fn check(&self, target: &Target) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let plan = match permute::plan_rows(self.problem, target.capability()) {
            Ok(plan) => plan,
            Err(error) => return Outcome::Unsupported(error.to_string()),
        };
        for weighted in [false, true] {
            self.check_combine(&client, &plan, weighted);
            self.check_dispatch(target, &client, &plan, weighted);
        }
        self.check_weights_gradient(&client, &plan);
        Outcome::Ran
    }

    fn upload(&self, client: &Client, values: &[f32]) -> Handle {
        upload(client, values, self.problem.element())
    }

    fn assert_close(&self, what: &str, got: &[f32], want: &[f64]) {
        let what = format!("{what} of {:?}", self.problem);
        assert_close(&what, got, want, rel_l2(self.problem.element()));
    }

    fn check_combine(&self, client: &Client, plan: &RowsPlan, weighted: bool) {
        let p = &self.problem;
        let y = self.upload(client, &vec![f32::NAN; self.x.len()]);
        let buffers = combine::CombineBuffers {
            positions: upload_u32(client, &self.sorted.positions),
            weights: weighted.then(|| upload_f32(client, &self.weights)),
            rows: self.upload(client, &self.rows),
            y: y.clone(),
        };
        combine::launch(client, plan, buffers);
        let got = download(client, y, self.x.len(), p.element());
        let (weights, rows) = (wide(&self.weights), wide(&self.rows));
        let weights = weighted.then_some(&weights[..]);
        let want =
            moebius_ops::permute::combine::reference(p, &self.sorted.positions, weights, &rows)
                .unwrap();
        self.assert_close("combine", &got, &want);
    }

    /// With the order that the device's own sort finds.
    fn check_dispatch(&self, target: &Target, client: &Client, plan: &RowsPlan, weighted: bool) {
        let p = &self.problem;
        let problem = moebius_ops::permute::Problem::new(p.slots(), p.experts(), 4).unwrap();
        let sorted = sort(target, client, &self.keys, problem).buffers;
        let rows = self.upload(client, &vec![f32::NAN; self.rows.len()]);
        let buffers = dispatch::DispatchBuffers {
            order: sorted.order,
            offsets: sorted.offsets,
            weights: weighted.then(|| upload_f32(client, &self.weights)),
            x: self.upload(client, &self.x),
            rows: rows.clone(),
        };
        dispatch::launch(client, plan, buffers);
        let got = download(client, rows, self.rows.len(), p.element());
        let (weights, x) = (wide(&self.weights), wide(&self.x));
        let weights = weighted.then_some(&weights[..]);
        let want = moebius_ops::permute::dispatch::reference(p, &self.sorted, weights, &x).unwrap();
        self.assert_close("dispatch", &got, &want);
        if !weighted {
            let want: Vec<f32> = want.iter().map(|v| *v as f32).collect();
            assert_eq!(got, want, "a copy differs");
        }
    }

    fn check_weights_gradient(&self, client: &Client, plan: &RowsPlan) {
        let p = &self.problem;
        let dweights = nans(client, p.slots());
        let buffers = weights_gradient::WeightsGradientBuffers {
            positions: upload_u32(client, &self.sorted.positions),
            dy: self.upload(client, &self.x),
            rows: self.upload(client, &self.rows),
            dweights: dweights.clone(),
        };
        weights_gradient::launch(client, plan, buffers);
        let got = download_f32(client, dweights, p.slots());
        let (dy, rows) = (wide(&self.x), wide(&self.rows));
        let want = moebius_ops::permute::weights_gradient::reference(
            p,
            &self.sorted.positions,
            &dy,
            &rows,
        )
        .unwrap();
        // Products of rounded values are exact in f32, so only the sum rounds.
        assert_close("weights gradient", &got, &want, rel_l2(Element::F32));
        for (slot, row) in self.sorted.positions.iter().enumerate() {
            assert!(*row != NOWHERE || got[slot] == 0.0, "slot {slot}");
        }
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Widths around vectors and the units that share a row, tokens around cubes.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let widths = [1, 2, 3, 4, 6, 12, 16, 100, 127, 128, 132, 260];
    let tokens = [1, 2, 63, 64, 65, 33, 7, 5, 4, 3, 129, 20];
    Outcome::of(widths.into_iter().zip(tokens).flat_map(|(width, tokens)| {
        [1, 2, 5].map(|top_k| Rows::random(tokens, 6, top_k, width).check(target))
    }))
}

/// More slots than one dimension of a grid has cubes for.
pub(crate) fn many_slots(target: &Target) -> Outcome {
    Rows::random(70_000, 4, 4, 5).check(target)
}

pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let one: Vec<u32> = vec![3; 100];
    let some = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let mut last = vec![8; 64];
    last[63] = 7;
    Outcome::of([
        Rows::new(one, 8, 2, 24, 0).check(target),
        Rows::new(some, 5, 3, 24, 0).check(target),
        Rows::new(last, 8, 4, 8, 0).check(target),
    ])
}

/// Fewer rows than slots, and fewer routed than there are rows: the others are NaN and not read.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..120).map(|s| if s % 4 == 1 { 1 } else { 3 }).collect();
    Outcome::of([0, 1, 20].map(|spare| Rows::new(keys.clone(), 3, 2, 20, spare).check(target)))
}

/// A position past the last row is as good as none.
pub(crate) fn positions_past_the_rows(target: &Target) -> Outcome {
    let mut rows = Rows::random(40, 4, 2, 12);
    let bound = rows.problem.row_bound() as u32;
    rows.sorted.positions[7] = bound;
    rows.sorted.positions[8] = bound + 1000;
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let plan = permute::plan_rows(rows.problem, target.capability()).unwrap();
    rows.check_combine(&client, &plan, false);
    rows.check_weights_gradient(&client, &plan);
    Outcome::Ran
}

/// The same bits on every run.
pub(crate) fn repeats_bit_for_bit(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let rows = Rows::random(100, 4, 2, 132);
    let plan = permute::plan_rows(rows.problem, target.capability()).unwrap();
    let run = || {
        let dweights = poisoned(&client, 200);
        let buffers = weights_gradient::WeightsGradientBuffers {
            positions: upload_u32(&client, &rows.sorted.positions),
            dy: upload_f32(&client, &rows.x),
            rows: upload_f32(&client, &rows.rows),
            dweights: dweights.clone(),
        };
        weights_gradient::launch(&client, &plan, buffers);
        download_f32(&client, dweights, 200)
    };
    let first = run();
    (0..5).for_each(|_| assert_eq!(run(), first));
    Outcome::Ran
}

fn halves(target: &Target, element: Element) -> Outcome {
    Outcome::of(
        [1, 7, 64, 100].map(|width| Rows::random(40, 5, 2, width).of(element).check(target)),
    )
}

pub(crate) fn f16(target: &Target) -> Outcome {
    halves(target, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    halves(target, Element::Bf16)
}
