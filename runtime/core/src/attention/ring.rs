//! Attention within a sequence whose chunks are on several devices, or in several queues of one device.

use super::attend::sizes;
use super::parts::merge;
use super::{Attend, Attended};
use crate::Error;
use crate::check::{check_same, moved};
use burn::tensor::{DType, Device, StreamId, Tensor};
use moebius_ops::attention::Chunks;
use moebius_ops::{Fault, Mismatch};

/// Places that hold a chunk of a sequence each: ring attention (Liu et al. 2023). Queries stay in their place; keys and values go from each
/// place to the next while the place computes, and the attentions to all chunks are merged exactly, by their log-sum-exps. Pairs of chunks
/// that the rules hide completely aren't computed; under a causal rule the last place computes most.
///
/// Each place has one queue for its kernels and one for copies from other devices; nothing waits for a device. Burn computes the gradients,
/// through every chunk, in the queue of the caller. Burn also copies chunks between devices of one kind, through the host where the devices
/// can't reach one another.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::{Attend, Ring};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let x = Tensor::<4>::random([1, 4, 96, 16], Distribution::Default, &device);
/// // Three queues of one device, each with 32 of the 96 tokens.
/// let ring = Ring::new(&[device.clone(), device.clone(), device])?;
/// let attend = Attend::new().causal().alibi();
/// let out = ring.forward(&attend, x.clone(), x.clone(), x.clone())?;
/// let whole = attend.forward(x.clone(), x.clone(), x)?;
/// assert!((out.o - whole.o).abs().max().into_scalar::<f32>() < 1e-5);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ring(Vec<Place>);

#[derive(Clone, Debug)]
struct Place {
    device: Device,
    kernels: StreamId,
    copies: StreamId,
}

impl Ring {
    /// One place on each of `devices`, in the order of the sequence; a device may be named several times and has a place for each time.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for an empty list.
    pub fn new(devices: &[Device]) -> Result<Self, Error> {
        let some = !devices.is_empty();
        Fault::Config.unless(some, "devices of a ring", "at least 1", 0)?;
        let place = |device: &Device| Place {
            device: device.clone().inner(),
            kernels: StreamId::allocate(),
            copies: StreamId::allocate(),
        };
        Ok(Self(devices.iter().map(place).collect()))
    }

    /// Computes what [`Attend::forward`] does for q \[B, Hq, S, D\], k \[B, Hkv, S, D\] and v \[B, Hkv, S, Dv\], up to the order of sums;
    /// in f16 and bf16 the result of each chunk of keys is rounded before it is merged. Chunks go from the device of q to their places, and
    /// o and lse come back.
    ///
    /// # Errors
    /// As [`Ring::forward_chunks`]; also if the number of places doesn't divide the number of tokens, or if there are other numbers of keys
    /// than of queries.
    pub fn forward(
        &self,
        attend: &Attend,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
    ) -> Result<Attended, Error> {
        let (count, device) = (self.0.len(), q.device());
        let [_, _, tokens, _] = q.dims();
        Mismatch::unless(tokens > 0, "tokens", "at least 1", 0)?;
        let expected = format_args!("a multiple of {count} places");
        Mismatch::unless(tokens.is_multiple_of(count), "tokens", expected, tokens)?;
        for (what, other) in [("tokens of k", &k), ("tokens of v", &v)] {
            check_same(what, other.dims()[2], tokens)?;
        }
        let size = tokens / count;
        let chunk = |(at, place): (usize, &Place)| {
            [&q, &k, &v].map(|x| place.take(x.clone().narrow(2, at * size, size)))
        };
        let chunks = self.0.iter().enumerate().map(chunk).collect();
        let parts = self.forward_chunks(attend, chunks)?.into_iter();
        let (o, lse) = parts
            .map(|part| (moved(part.o, &device), moved(part.lse, &device)))
            .unzip();
        Ok(Attended {
            o: Tensor::cat(o, 2),
            lse: Tensor::cat(lse, 2),
        })
    }

    /// Computes what [`Ring::forward`] does for chunks \[q, k, v\] of S/n neighbouring tokens that are already in their places; returns o
    /// and lse of each chunk in its place. Tables of `attend` are those of the whole sequence (documents \[B, S\]), on the device of the
    /// first chunk.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of chunks than places, chunks that differ from the first in shape
    /// or dtype, and no sequences or tokens, [`ErrorKind::Device`](crate::ErrorKind::Device) for chunks on other devices than their places,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a position, a dropout, a rule of the program's own, and a rule that
    /// depends neither on distances nor on documents (causal from the top left, prefix, global, blocks, mask, bias); and the errors of
    /// [`Attend::forward`].
    pub fn forward_chunks(
        &self,
        attend: &Attend,
        chunks: Vec<[Tensor<4>; 3]>,
    ) -> Result<Vec<Attended>, Error> {
        let chunked = self.check(attend, &chunks)?;
        let (count, size) = (self.0.len(), chunked.tokens());
        let mut seen: Vec<Option<Attended>> = vec![None; count];
        let (queries, mut keys): (Vec<_>, Vec<_>) =
            chunks.into_iter().map(|[q, k, v]| (q, [k, v])).unzip();
        let mut last = 0;
        for turn in chunked.turns() {
            let by = turn - last;
            last = turn;
            if by > 0 {
                keys.rotate_right(by);
                let places = self.0.iter().zip(keys);
                keys = places
                    .map(|(place, kv)| kv.map(|x| place.take(x)))
                    .collect();
            }
            for (at, place) in self.0.iter().enumerate() {
                let from = (at + count - turn) % count;
                if chunked.pair(at as i64 - from as i64).is_none() {
                    continue;
                }
                let ([k, v], q) = (keys[at].clone(), queries[at].clone());
                let before = seen[at].take();
                let part = || {
                    let piece = attend.piece([at, from], size, &q.device());
                    more(&piece, [q, k, v], before)
                };
                seen[at] = Some(place.kernels.executes(part)?);
            }
        }
        let of = |(place, (part, q)): (&Place, (Option<Attended>, Tensor<4>))| {
            let part = part.unwrap_or_else(|| unreachable!("a chunk sees itself"));
            let o = place.kernels.executes(|| part.o.cast(q.dtype()));
            Attended { o, ..part }
        };
        Ok(self
            .0
            .iter()
            .zip(seen.into_iter().zip(queries))
            .map(of)
            .collect())
    }

    /// Checks the chunks, and the attention within the whole sequence.
    fn check(&self, attend: &Attend, chunks: &[[Tensor<4>; 3]]) -> Result<Chunks, Error> {
        check_same("chunks of a ring", chunks.len(), self.0.len())?;
        let [first, k, v] = &chunks[0];
        for ([q, keys, values], place) in chunks.iter().zip(&self.0) {
            sizes(q, keys, values)?;
            check_same("q of a chunk [B, Hq, S/n, D]", q.dims(), first.dims())?;
            check_same("k of a chunk [B, Hkv, S/n, D]", keys.dims(), k.dims())?;
            check_same("v of a chunk [B, Hkv, S/n, Dv]", values.dims(), v.dims())?;
            check_same("dtype of a chunk", q.dtype(), first.dtype())?;
            let (what, device) = ("device of a chunk", q.device().inner());
            let (expected, got) = (format!("{:?}", place.device), format!("{device:?}"));
            Fault::Device.unless(device == place.device, what, expected, got)?;
            let alike = q.device().is_autodiff() == first.device().is_autodiff();
            let what = "chunks that record gradients";
            Fault::Device.unless(alike, what, "all or none", "some")?;
        }
        let count = self.0.len();
        attend.chunks(&sizes(first, k, v)?, first, count)
    }
}

impl Place {
    /// Moves a tensor to the device of this place, in the queue of its copies.
    fn take<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.copies.executes(|| moved(x, &self.device))
    }
}

/// Merges the attention to one more chunk of keys into the result `before`; o is f32.
fn more(
    piece: &Attend,
    [q, k, v]: [Tensor<4>; 3],
    before: Option<Attended>,
) -> Result<Attended, Error> {
    let part = piece.forward(q, k, v)?;
    let o = part.o.cast(DType::F32);
    let part = Attended { o, ..part };
    match before {
        Some(before) => merge(&[before, part]),
        None => Ok(part),
    }
}
