//! All cases in one program, to take to a machine with a GPU.

mod files;

use moebius_conformance as lists;

fn main() {
    let all = [
        lists::QUANTIZE,
        lists::ROUTING,
        lists::PERMUTE,
        lists::GROUPED_GEMM,
        lists::FP8_GEMM,
        lists::SEGMENT_ATTENTION,
        lists::ATTENTION,
        lists::KV_CACHE,
        lists::EXACT,
        lists::NN,
        lists::MOE,
        lists::FP8_LAYERS,
        files::CASES,
    ];
    lists::run(all.concat().leak());
}
