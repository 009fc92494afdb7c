//! Attention on strided views: heads split from token rows, from one joint projection, or one key head expanded to all.

use super::case::floats;
use burn::tensor::{Device, Tensor, s};
use moebius::Error;
use moebius::attention::{Attend, Attended};
use moebius_tests::record::{Launch, launched_by};
use moebius_tests::target::Target;

const BATCH: usize = 2;

/// q, k and v \[B, H, S, D\] as views.
type Views = [Tensor<4>; 3];

/// Values \[B, S, H · D\], as a linear layer outputs them.
fn rows(device: &Device, tokens: usize, columns: usize) -> Tensor<3> {
    let count = BATCH * tokens * columns;
    let numbers = Tensor::arange(0..count as i64, device).float();
    (numbers * 0.7).sin().reshape([BATCH, tokens, columns])
}

fn heads(rows: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, tokens, columns] = rows.dims();
    let split = rows.reshape([batch, tokens, heads, columns / heads]);
    split.swap_dims(1, 2)
}

/// Three kinds of views: a projection for each of q, k and v; one joint projection; and one key and value head expanded to
/// four, with few queries.
fn all(device: &Device) -> [Views; 3] {
    let projection = |tokens, columns, count| heads(rows(device, tokens, columns), count);
    let apart = [(70, 64, 4), (90, 32, 2), (90, 48, 2)];
    let apart = apart.map(|(tokens, columns, count)| projection(tokens, columns, count));
    let together = projection(50, 12 * 16, 12);
    let parts = [0, 4, 8].map(|first| together.clone().slice(s![.., first..first + 4]));
    let shared = |dim| projection(80, dim, 1).expand([BATCH, 4, 80, dim]);
    [apart, parts, [projection(3, 64, 4), shared(16), shared(24)]]
}

/// A contiguous copy of a view.
fn whole(view: &Tensor<4>) -> Tensor<4> {
    Tensor::from_data(view.clone().into_data(), &view.device())
}

fn attend(of: Views) -> Result<Attended, Error> {
    let [q, k, v] = of;
    Attend::new().causal().softcap(3.0).forward(q, k, v)
}

/// The bits of o, the log-sum-exp, and the gradients of q, k and v.
fn bits(of: Views) -> Result<Vec<u32>, Error> {
    let of = of.map(Tensor::require_grad);
    let out = attend(of.clone())?;
    let results = [floats(&out.o), floats(&out.lse)].concat();
    let weights = floats_like(&out.o);
    let found = (out.o * weights).sum().backward();
    let gradients = of.map(|tensor| floats(&tensor.grad(&found).unwrap()));
    let all = [results, gradients.concat()].concat();
    Ok(all.into_iter().map(f32::to_bits).collect())
}

/// A tensor of this shape with a different number in each element.
fn floats_like(like: &Tensor<4>) -> Tensor<4> {
    let dims = like.dims();
    let count: usize = dims.iter().product();
    let numbers = Tensor::arange(0..count as i64, &like.device()).float();
    (numbers * 1.3).cos().reshape(dims)
}

/// Checks that views give the same bits as contiguous tensors, and that the forward pass launches only attention kernels.
pub(crate) fn views(target: &Target) -> Result<(), Error> {
    for views in all(&target.burn().autodiff()) {
        let shapes = views.each_ref().map(|view| view.dims());
        let same = views.each_ref().map(whole);
        let name = &target.name;
        assert_eq!(bits(views)?, bits(same)?, "{shapes:?} on {name}");
    }
    for views in all(&target.burn()) {
        let shapes = views.each_ref().map(|view| view.dims());
        target.burn().sync().unwrap();
        let launched = launched_by(|| {
            drop(attend(views));
            target.burn().sync().unwrap();
        });
        let (own, name) = (launched.iter().all(Launch::ours), target.name);
        assert!(own, "{launched:?} for views of {shapes:?} on {name}");
    }
    Ok(())
}
