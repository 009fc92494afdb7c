//! The contenders of one run: our attention, and what it is compared with. Contenders on our device are first checked against the f64
//! oracle, which computes the attention of sampled queries and heads.

use super::setup::{Output, Setup, Way};
use super::{AttentionBench, AttentionPeer};
use crate::oracle::{distance, floats, only, spread};
use crate::peer::{Peer, Turns};
use crate::timing::{Timing, seconds_of, timings_of};
use crate::{BenchError, Progress};
use burn::tensor::{Int, Tensor};
use moebius::Error;
use moebius_ops::attention::Problem;
use moebius_ops::{Attention, AttentionPass, Gradient, HostTensor, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of heads that are checked, over all sequences, and queries checked per head; both are spread evenly.
const SAMPLES: [usize; 2] = [2, 16];

/// Results of [`measure`].
pub(super) struct Measured {
    /// Largest relative L2 error of any checked contender.
    pub(super) max_rel_l2: f64,
    /// Time of our attention.
    pub(super) time: Timing,
    pub(super) peers: Vec<Peer>,
}

/// One contender, timed in turns with the others.
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

    /// Whether this contender has to run after all others.
    ///
    /// Burn's kernels on CubeCL's CPU runtime have barriers, whose threads stay and slow down whatever comes after.
    fn comes_last(&self, setup: &Setup) -> bool {
        setup.place.on_cpu_runtime() && matches!(self, Self::Way(Way::Burn | Way::Composition))
    }

    /// Runs once and returns the seconds that took.
    fn seconds(&mut self, setup: &Setup) -> Result<f64, BenchError> {
        match self {
            Self::Way(way) => seconds_of(|| setup.run(*way)),
            Self::Torch(turns) => {
                let seconds = turns.seconds()?;
                // PyTorch's threads spin for some milliseconds before they sleep, on the cores that the next turn
                // needs.
                std::thread::sleep(Duration::from_millis(20));
                Ok(seconds)
            }
        }
    }

    /// This contender's row in the report, compared with our time.
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
        let flops = bench.flops(bench.problem()?.pairs());
        Ok(Peer {
            name,
            speed: time.speed(flops),
            ratio: time.seconds / ours.seconds,
        })
    }
}

/// Verifies and times our attention and its peers, in turns where they don't disturb each other.
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
                max_rel_l2 = max_rel_l2.max(error(bench, setup, *way)?);
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

/// Largest relative L2 error of a way for sampled queries and heads: of outputs and log-sum-exps; with gradients also of dq, and
/// of dk and dv in full when do is 0 for all other queries.
fn error(bench: &AttentionBench, setup: &Setup, way: Way) -> Result<f64, BenchError> {
    let oracle = Oracle::new(&way.of(bench), setup)?;
    let Some(d_o) = &setup.d_o else {
        return Ok(oracle.forward_error(&setup.forward(way)?)?);
    };
    let (out, [dq, _, _]) = setup.both(way, d_o)?;
    let outputs = oracle.forward_error(&out)?;
    drop(out);
    let (_, [_, dk, dv]) = setup.both(way, &oracle.sampled(d_o))?;
    Ok(outputs.max(oracle.backward_error(d_o, [&dq, &dk, &dv])?))
}

/// The sampled queries and heads, and the problem and operands they belong to.
struct Oracle<'a> {
    problem: Problem,
    setup: &'a Setup,
    /// The sampled query heads by sequence and key head.
    heads: BTreeMap<[usize; 2], Vec<usize>>,
    queries: Vec<usize>,
}

/// The attention of sampled queries in the heads that share a key head, with the expected results.
struct Part {
    operation: Operation,
    operands: Vec<HostTensor>,
    /// Expected o and log-sum-exp.
    results: Vec<HostTensor>,
}

impl<'a> Oracle<'a> {
    fn new(bench: &AttentionBench, setup: &'a Setup) -> Result<Self, Error> {
        let problem = bench.problem()?;
        let mut heads: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for row in spread(SAMPLES[0], bench.batch * bench.heads) {
            let (batch, head) = (row / bench.heads, row % bench.heads);
            let key_head = [batch, head / problem.group()];
            heads.entry(key_head).or_default().push(head);
        }
        Ok(Self {
            problem,
            setup,
            heads,
            queries: spread(SAMPLES[1], bench.queries()).collect(),
        })
    }

    /// The sampled query rows of the head at `[batch, head]`.
    fn rows(&self, tensor: &Tensor<4>, at: [usize; 2]) -> Vec<f32> {
        let rows: Vec<i64> = self.queries.iter().map(|query| *query as i64).collect();
        let head = head(tensor, at);
        let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &head.device());
        floats(head.select(2, rows))
    }

    /// The sampled query rows of several heads of a sequence.
    fn rows_of(&self, tensor: &Tensor<4>, batch: usize, heads: &[usize]) -> HostTensor {
        let rows = heads.iter().map(|head| self.rows(tensor, [batch, *head]));
        HostTensor::of_f32(&rows.collect::<Vec<_>>().concat())
    }

    fn part(&self, at: [usize; 2], heads: &[usize]) -> Result<Part, Error> {
        let [q, k, v] = &self.setup.operands;
        let (problem, mask) = self.problem.of_queries(heads.len(), &self.queries)?;
        let all = |tensor| HostTensor::of_f32(&floats(head(tensor, at)));
        let operands = vec![self.rows_of(q, at[0], heads), all(k), all(v), mask.into()];
        let pass = AttentionPass::Forward;
        let operation = Operation::from(Attention { problem, pass });
        Ok(Part {
            results: operation.reference(&operands)?,
            operation,
            operands,
        })
    }

    /// Largest relative L2 error of one head's sampled rows in `got` against `want`.
    fn error(&self, got: &Tensor<4>, batch: usize, heads: &[usize], want: &HostTensor) -> f64 {
        let want = want.floats();
        let of_head = heads.iter().zip(want.chunks(want.len() / heads.len()));
        let errors = of_head.map(|(head, want)| distance(&self.rows(got, [batch, *head]), want));
        errors.fold(0.0, f64::max)
    }

    fn forward_error(&self, out: &Output) -> Result<f64, Error> {
        let mut error = 0.0f64;
        for (at, heads) in &self.heads {
            let part = self.part(*at, heads)?;
            error = error.max(self.error(&out.o, at[0], heads, &part.results[0]));
            if let Some(lse) = &out.lse {
                let lse = lse.clone().unsqueeze_dim::<4>(3);
                error = error.max(self.error(&lse, at[0], heads, &part.results[1]));
            }
        }
        Ok(error)
    }

    /// do with 0 for every query that isn't sampled.
    fn sampled(&self, d_o: &Tensor<4>) -> Tensor<4> {
        let [_, heads, queries, _] = d_o.dims();
        let sampled = self.heads.iter().flat_map(|([batch, _], sampled)| {
            let heads = sampled.iter().map(move |head| batch * heads + head);
            heads.flat_map(move |head| self.queries.iter().map(move |i| head * queries + i))
        });
        only(d_o, sampled)
    }

    /// Largest error of dq, computed from do, and of dk and dv, computed from [`Self::sampled`].
    fn backward_error(&self, d_o: &Tensor<4>, [dq, dk, dv]: [&Tensor<4>; 3]) -> Result<f64, Error> {
        let mut error = 0.0f64;
        for (at, heads) in &self.heads {
            let gradients = self
                .part(*at, heads)?
                .gradients(self.rows_of(d_o, at[0], heads))?;
            error = error.max(self.error(dq, at[0], heads, &gradients[0]));
            for (got, want) in [dk, dv].into_iter().zip(&gradients[1..]) {
                error = error.max(distance(&floats(head(got, *at)), want.floats()));
            }
        }
        Ok(error)
    }
}

impl Part {
    /// Expected dq, dk and dv for the output gradient do.
    fn gradients(self, d_o: HostTensor) -> Result<Vec<HostTensor>, Error> {
        let gradient = self.operation.gradient("o", |_| true);
        let Some(Gradient::By { operation, .. }) = gradient else {
            unreachable!("the output of an attention has gradients");
        };
        let operands = [self.operands, self.results, vec![d_o]].concat();
        Ok(operation.reference(&operands)?)
    }
}

/// The \[1, 1, S, D\] part of one sequence and head, detached from the autodiff graph if there is one.
fn head(tensor: &Tensor<4>, [batch, head]: [usize; 2]) -> Tensor<4> {
    let tensor = tensor.clone().inner();
    tensor.narrow(0, batch, 1).narrow(1, head, 1)
}
