//! The compiled variants of operations with the same bits everywhere.

use crate::emit::{KernelEntry, Machine, Planned, valid};
use crate::exact::{attend, route, rows};
use crate::operation::Family;
use moebius_ops::attention::{self, Rule, Rules, Sizes};
use moebius_ops::exact::{Activate, Combine, Function, Norm, Product, Rotate};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::kv_cache::{Attend, CacheFormat, Layout};
use moebius_ops::routing::{Problem, Score};
use moebius_ops::{Exact, Operation};

/// Operands that an operation may lack.
const OPTIONAL: [&str; 6] = ["indices", "b", "bias", "weights", "base", "sinks"];

fn launched(at: &Machine, exact: Exact) -> Planned {
    let signature = Operation::from(exact).signature();
    let tensors = || signature.operands.iter().chain(&signature.results);
    let there = OPTIONAL.map(|name| (name, tensors().any(|info| info.name == name)));
    let kernels = exact.kernels(&(), &at.capability)?;
    let buffers = (at, &there[..]);
    kernels.launch(at.client(), &signature, &buffers, &mut |_| ());
    Ok(())
}

fn entry(variant: &'static str, name: impl Into<String>, exact: Exact) -> KernelEntry {
    KernelEntry::new("exact", variant, name, move |at: &Machine| {
        launched(at, exact)
    })
}

fn products() -> impl Iterator<Item = KernelEntry> {
    let variants = [(false, false), (false, true), (true, false), (true, true)];
    variants.into_iter().map(|(chosen, bias)| {
        let dense = Product::dense(64, 256, 128);
        let product = Product {
            experts: if chosen { 8 } else { 1 },
            share: if chosen { 2 } else { 1 },
            chosen,
            bias,
            ..dense
        };
        let name = rows::product_name(&product);
        entry("product", name, Exact::Product(product))
    })
}

fn activations() -> impl Iterator<Item = KernelEntry> {
    let variants = Activation::ALL
        .into_iter()
        .flat_map(|of| [(of, false), (of, true)]);
    variants.map(|(activation, gated)| {
        let activate = Activate {
            rows: 64,
            inter: 128,
            gated,
            activation,
        };
        let name = rows::activation_name(&activate);
        entry("activation", name, Exact::Activate(activate))
    })
}

fn sums() -> impl Iterator<Item = KernelEntry> {
    let variants = [(false, false), (false, true), (true, false), (true, true)];
    variants.into_iter().map(|(weighted, based)| {
        let combine = Combine {
            tokens: 64,
            top_k: 2,
            width: 128,
            weighted,
            based,
            scale: 1.0,
        };
        let name = rows::combine_name(&combine);
        entry("sum", name, Exact::Combine(combine))
    })
}

fn rotations() -> impl Iterator<Item = KernelEntry> {
    [false, true].into_iter().map(|interleaved| {
        let rotate = Rotate {
            batch: 2,
            tokens: 16,
            heads: 4,
            width: 32,
            half: 16,
            at: 0,
            interleaved,
            shared: true,
        };
        let name = rows::rotate_name(&rotate);
        entry("rotation", name, Exact::Rotate(rotate))
    })
}

fn choices() -> impl Iterator<Item = KernelEntry> {
    let scores = [Score::Softmax, Score::Sigmoid];
    let raw = scores
        .into_iter()
        .flat_map(|score| [(score, false), (score, true)]);
    let all = raw.flat_map(|(score, raw)| [(score, raw, false), (score, raw, true)]);
    all.map(|(score, raw, bias)| {
        let problem = valid(Problem::new(64, 8, 2)).with_score(score, !raw);
        let name = route::name(&problem, bias);
        entry("choice", name, Exact::Route { problem, bias })
    })
}

fn attentions() -> impl Iterator<Item = KernelEntry> {
    let attend_of = |rules: &[Rule], sinks: bool| {
        let sizes = Sizes {
            batch: 2,
            heads: 8,
            kv_heads: 2,
            queries: 4,
            keys: 512,
            head_dim: 16,
            value_dim: 8,
        };
        let rules = valid(Rules::new(rules.iter().copied()));
        let problem = valid(valid(attention::Problem::new(sizes)).with_rules(rules));
        let layout = valid(Layout::new([64, 16], 2, [16, 8], CacheFormat::F32));
        valid(Attend::new(problem.with_sinks(sinks), layout, 32))
    };
    let plain = attend_of(&[Rule::Causal], false);
    let other = attend_of(&[Rule::Window(16), Rule::Softcap(30.0)], true);
    let kernels = [
        ("exact_scores", plain),
        ("exact_scores", other),
        ("exact_softmax", plain),
        ("exact_softmax", other),
        ("exact_values", plain),
    ];
    kernels.into_iter().map(|(kernel, problem)| {
        let name = attend::name(kernel, &problem);
        entry("attention", name, Exact::Attend(problem))
    })
}

/// Every operation in all of its forms.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let maps = Function::ALL.into_iter().map(|function| {
        let elements = 1024;
        let map = Exact::Map { function, elements };
        entry("function", rows::map_name(function), map)
    });
    let norm = Norm {
        rows: 64,
        width: 128,
        epsilon: 1e-5,
    };
    let norm = entry("norm", "exact_norm", Exact::Norm(norm));
    let all = maps.chain([norm]).chain(products()).chain(activations());
    let all = all.chain(sums()).chain(rotations()).chain(choices());
    all.chain(attentions()).collect()
}
