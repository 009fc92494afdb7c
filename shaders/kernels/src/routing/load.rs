//! How CubeCL computes [`moebius_ops::routing::load_reference`].
//!
//! Two launches: the counts of blocks of [`BLOCK`] tokens, then their sums; a single one if a group is one block. On a GPU each
//! unit counts one expert in a block, with T·K·E compares in total; on a CPU each unit counts all experts, with T·K +
//! T·E/[`BLOCK`] increments.

use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::routing::LoadProblem;

const KERNEL: &str = "expert_load";

/// Tokens per block.
const BLOCK: usize = 256;

/// The number of blocks of a group.
fn blocks(problem: &LoadProblem) -> usize {
    problem.tokens().div_ceil(BLOCK)
}

/// A [`LoadProblem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    problem: LoadProblem,
    /// Whether each unit counts all experts of a block.
    all_experts: bool,
    blocks: Grid,
    sum: Grid,
}

/// Plans the counts.
///
/// # Errors
/// [`Unsupported`] for more than a binding or a grid holds.
pub fn plan_load(problem: LoadProblem, device: &Capability) -> Result<LoadPlan, Unsupported> {
    let experts = problem.routing().experts();
    let blocks = problem.groups() * blocks(&problem);
    crate::fits_binding(KERNEL, problem.routing().slots() * 4, device)?;
    crate::fits_binding(KERNEL, blocks.max(problem.groups()) * experts * 4, device)?;
    let all_experts = device.cpu_cores.is_some();
    let of_block = looped(BLOCK, looped(problem.choices(), 0));
    let of_group = looped(self::blocks(&problem), 0);
    fits_rounds(KERNEL, of_block.max(of_group), device)?;
    let units = blocks * if all_experts { 1 } else { experts };
    Ok(LoadPlan {
        problem,
        all_experts,
        blocks: Grid::elementwise(KERNEL, units, device)?,
        sum: Grid::elementwise(KERNEL, problem.counts(), device)?,
    })
}

/// Sizes given at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    experts: usize,
    /// Indices per token, and how many of them count.
    top_k: usize,
    choices: usize,
    /// Tokens and blocks per group, and blocks of all groups.
    tokens: usize,
    blocks: usize,
    all_blocks: usize,
}

/// Computes counts\[block, e\]; one unit per block and expert, or per block if `all_experts`.
#[cube(launch_unchecked)]
fn load_blocks(indices: &[u32], counts: &mut [u32], sizes: Sizes, #[comptime] all_experts: bool) {
    let experts = sizes.experts;
    let block = if comptime!(all_experts) {
        ABSOLUTE_POS
    } else {
        ABSOLUTE_POS / experts
    };
    if block < sizes.all_blocks {
        let group = block / sizes.blocks * sizes.tokens;
        let first = block % sizes.blocks * comptime!(BLOCK);
        let last = group + min(first + comptime!(BLOCK), sizes.tokens);
        let first = group + first;
        if comptime!(all_experts) {
            for e in 0..experts {
                counts[block * experts + e] = 0;
            }
            for token in first..last {
                for k in 0..sizes.choices {
                    let expert = indices[token * sizes.top_k + k] as usize;
                    if expert < experts {
                        counts[block * experts + expert] += 1;
                    }
                }
            }
        } else {
            let expert = (ABSOLUTE_POS % experts) as u32;
            let mut count = 0u32;
            for token in first..last {
                for k in 0..sizes.choices {
                    let here = indices[token * sizes.top_k + k] == expert;
                    count += select(here, 1u32, 0u32);
                }
            }
            counts[ABSOLUTE_POS] = count;
        }
    }
}

/// Computes counts\[g,e\], the sum over the blocks of group g.
#[cube(launch_unchecked)]
fn load_sum(partial: &[u32], counts: &mut [u32], experts: usize, blocks: usize) {
    if ABSOLUTE_POS < counts.len() {
        let first = ABSOLUTE_POS / experts * blocks;
        let expert = ABSOLUTE_POS % experts;
        let mut sum = 0u32;
        for block in first..first + blocks {
            sum += partial[block * experts + expert];
        }
        counts[ABSOLUTE_POS] = sum;
    }
}

/// Enqueues the counts \[G,E\] of `indices` \[T,K\]: at most two launches. Without tokens, the counts are zeros.
pub fn launch_load(client: &Client, plan: &LoadPlan, indices: Handle, counts: Handle) {
    let problem = &plan.problem;
    if blocks(problem) == 1 {
        launch_blocks(client, plan, indices, counts);
        return;
    }
    let words = problem.counts() * blocks(problem);
    let partial = empty_words(client, words);
    if words > 0 {
        launch_blocks(client, plan, indices, partial.clone());
    }
    launched::note(|| "load_sum");
    // SAFETY: `partial` has the experts of every block, and `counts` is as long as it is described.
    unsafe {
        load_sum::launch_unchecked(
            client,
            plan.sum.count(),
            plan.sum.dim(),
            bind(partial),
            bind(counts),
            problem.routing().experts(),
            blocks(problem),
        );
    }
}

fn launch_blocks(client: &Client, plan: &LoadPlan, indices: Handle, counts: Handle) {
    let problem = &plan.problem;
    let (experts, top_k) = (problem.routing().experts(), problem.routing().top_k());
    launched::note(|| "load_blocks");
    // SAFETY: `indices` is as long as it is described, and `counts` has the experts of every block; blocks end at the last token of
    // their group.
    unsafe {
        load_blocks::launch_unchecked(
            client,
            plan.blocks.count(),
            plan.blocks.dim(),
            bind(indices),
            bind(counts),
            SizesLaunch::new(
                experts,
                top_k,
                problem.choices(),
                problem.tokens(),
                blocks(problem),
                problem.groups() * blocks(problem),
            ),
            plan.all_experts,
        );
    }
}
