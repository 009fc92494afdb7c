//! Tests of indexing.

use super::harness::{Case, case};
use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor};

const UPDATES: [IndexingUpdateOp; 4] = [
    IndexingUpdateOp::Add,
    IndexingUpdateOp::Mul,
    IndexingUpdateOp::Min,
    IndexingUpdateOp::Max,
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = reads();
    cases.extend(writes());
    cases
}

fn reads() -> Vec<Case> {
    vec![
        case("select", |io| {
            let x = io.float([4, 3, 5]);
            for dim in 0..3 {
                let at = io.int([6], 0, 3);
                io.out(x.clone().select(dim, at));
            }
            let (x, at) = (io.int([4], 0, 9), io.int([3], 0, 4));
            io.out_int(x.select(0, at));
            let (x, at) = (io.bool([4, 2]), io.int([3], 0, 4));
            io.out_bool(x.select(0, at));
            let (x, at) = (io.float([4, 2]), io.int([0], 0, 4));
            io.out(x.select(0, at));
        }),
        case("gather", |io| {
            let x = io.float([3, 4, 2]);
            let at = io.int([3, 7, 2], 0, 4);
            io.out(x.gather(1, at));
            let (x, at) = (io.float([5]), io.int([3], 0, 5));
            io.out(x.gather(0, at));
            let (x, at) = (io.int([3, 4], 0, 99), io.int([3, 2], 0, 4));
            io.out_int(x.gather(1, at));
            let (x, at) = (io.bool([3, 4]), io.int([2, 4], 0, 3));
            io.out_bool(x.gather(0, at));
        }),
        case("gather with narrow indices", |io| {
            let x = io.float([3, 4]);
            let at = io.integers([3, 2], &[0, 3, 1, 1, 2, 0], DType::I32);
            io.out(x.gather(1, at));
        }),
        case("gather_nd", |io| {
            let (x, at) = (io.float([3, 4, 5]), io.int([6, 2], 0, 3));
            io.out::<2>(x.clone().gather_nd::<2, 2>(at));
            let at = io.int([2, 3, 1], 0, 3);
            io.out::<4>(x.clone().gather_nd::<3, 4>(at));
            let at = io.int([4, 3], 0, 3);
            io.out::<1>(x.gather_nd::<2, 1>(at));
            let (x, at) = (io.int([3, 4], 0, 99), io.int([5, 2], 0, 3));
            io.out_int::<1>(x.gather_nd::<2, 1>(at));
        }),
    ]
}

fn writes() -> Vec<Case> {
    vec![
        case("scatter", |io| {
            let x = io.float([3, 4]);
            for update in UPDATES {
                let (at, y) = (io.int([3, 6], 0, 4), io.float([3, 6]));
                io.out(x.clone().scatter(1, at, y, update));
            }
            let at = io.integers([2, 4], &[0, 2, 1, 1, 2, 0, 0, 2], DType::I64);
            let y = io.float([2, 4]);
            io.out(x.scatter(0, at, y, IndexingUpdateOp::Assign));
            let (x, at, y) = (io.int([5], 0, 9), io.int([8], 0, 5), io.int([8], 0, 9));
            io.out_int(x.scatter(0, at, y, IndexingUpdateOp::Add));
            let (x, at, y) = (io.bool([5]), io.int([8], 0, 5), io.bool([8]));
            io.out_bool(x.scatter(0, at, y, IndexingUpdateOp::Add));
        }),
        case("scatter of nothing", |io| {
            let (x, at, y) = (io.float([3, 4]), io.int([3, 0], 0, 4), io.float([3, 0]));
            io.out(x.scatter(1, at, y, IndexingUpdateOp::Add));
        }),
        case("select_assign", |io| {
            let x = io.float([4, 3]);
            for update in UPDATES {
                let (at, y) = (io.int([6], 0, 4), io.float([6, 3]));
                io.out(x.clone().select_assign(0, at, y, update));
            }
            let at = Tensor::<1, Int>::from_data([2, 0], &io.device);
            let y = io.float([4, 2]);
            io.out(x.select_assign(1, at, y, IndexingUpdateOp::Assign));
            let (x, at, y) = (
                io.int([5, 2], 0, 9),
                io.int([3], 0, 5),
                io.int([3, 2], 0, 9),
            );
            io.out_int(x.select_assign(0, at, y, IndexingUpdateOp::Add));
            let (x, at, y) = (io.bool([5]), io.int([3], 0, 5), io.bool([3]));
            io.out_bool(x.select_assign(0, at, y, IndexingUpdateOp::Add));
        })
        .slack(2.0),
        case("scatter_nd", |io| {
            let x = io.float([3, 4, 2]);
            for update in UPDATES {
                let (at, y) = (io.int([5, 2], 0, 3), io.float([5, 2]));
                io.out(x.clone().scatter_nd::<2, 2>(at, y, update));
            }
            let at = io.integers([2, 1], &[2, 0], DType::I64);
            let y = io.float([2, 4, 2]);
            io.out(x.scatter_nd::<2, 3>(at, y, IndexingUpdateOp::Assign));
            let (x, at, y) = (io.int([4], 0, 9), io.int([5, 1], 0, 4), io.int([5], 0, 9));
            io.out_int(x.scatter_nd::<2, 1>(at, y, IndexingUpdateOp::Add));
        }),
    ]
}
