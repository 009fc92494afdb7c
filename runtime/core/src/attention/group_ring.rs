//! Attention within a sequence whose chunks are spread over the devices of an XLA group.

use super::attend::sizes;
use super::{Attend, Attended};
use crate::Error;
use crate::check::check_same;
use crate::ops::DeviceValue;
use crate::xla::{DeviceGroup, Pass, Programs, data};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius_ops::attention::{Chunks, Sizes};
use moebius_ops::{Attention, AttentionPass, Fault, Mismatch, Operation};
use moebius_pjrt::Buffer;
use moebius_xla::parallel::{Ring, join};

/// The devices of a [`DeviceGroup`], each with a chunk of a sequence: ring attention (Liu et al. 2023) as one program, in which XLA's own
/// exchange passes keys and values from device to device. Pairs of chunks that the rules hide completely aren't computed; under a causal
/// rule the last device computes most.
///
/// A program is compiled for each attention and its sizes; up to 32 programs are kept. Each chunk goes through the host to its device, and
/// results come back to the device of q.
#[derive(Debug)]
pub struct GroupRing {
    group: DeviceGroup,
    programs: Programs<(Ring, Pass)>,
}

/// The results of [`GroupRing::gradients`].
#[derive(Clone, Debug)]
pub struct RingGradients {
    /// The result of [`GroupRing::forward`].
    pub out: Attended,
    /// The gradient of q, in its shape and dtype.
    pub dq: Tensor<4>,
    /// The gradient of k, in its shape and dtype.
    pub dk: Tensor<4>,
    /// The gradient of v, in its shape and dtype.
    pub dv: Tensor<4>,
    /// The gradient of the table of biases by distance \[Hq, 2n + 1\], f32, if there is such a table.
    pub relative: Option<Tensor<2>>,
    /// The gradient of the sinks \[Hq\], f32, if there are sinks.
    pub sinks: Option<Tensor<1>>,
}

impl GroupRing {
    /// A ring of the devices of `group`, in the order of the sequence.
    pub fn new(group: &DeviceGroup) -> Self {
        Self {
            group: group.clone(),
            programs: Programs::new(),
        }
    }

    /// Computes what [`Attend::forward`] does, up to the order of sums, for q \[B, Hq, S, D\], k \[B, Hkv, S, D\] and v \[B, Hkv, S, Dv\]
    /// on a device that records no gradients; in f16 and bf16 the result of each chunk of keys is rounded before it is merged.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the number of devices doesn't divide the number of tokens, if there are other
    /// numbers of keys than of queries, and for no sequences or tokens, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a
    /// position, a dropout, a rule of the program's own, and a rule that depends neither on distances nor on documents (causal from the top
    /// left, prefix, global, blocks, mask, bias), [`ErrorKind::Device`](crate::ErrorKind::Device) for a device that records gradients, and
    /// when a device fails; and the errors of [`Attend::forward`].
    pub fn forward(
        &self,
        attend: &Attend,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
    ) -> Result<Attended, Error> {
        let device = q.device();
        let (_, results) = self.run(attend, [q, k, v], None)?;
        attended(&results, &device)
    }

    /// Computes what [`GroupRing::forward`] does, and the gradients of all inputs from the gradient `d_o` \[B, Hq, S, Dv\] of o.
    ///
    /// # Errors
    /// As [`GroupRing::forward`], and for a `d_o` of another shape or dtype than o.
    pub fn gradients(
        &self,
        attend: &Attend,
        [q, k, v]: [Tensor<4>; 3],
        d_o: Tensor<4>,
    ) -> Result<RingGradients, Error> {
        let device = q.device();
        let ([b, h, s, _], [_, _, _, dim]) = (q.dims(), v.dims());
        check_same("shape of do", d_o.dims(), [b, h, s, dim])?;
        check_same("dtype of do", d_o.dtype(), q.dtype())?;
        let (ring, results) = self.run(attend, [q, k, v], Some(d_o))?;
        let problem = ring.chunks.chunk();
        let rows = |at: usize| whole(&results[at], &device);
        // Every device has the same sums; the first device's are taken.
        let mut sums = results[5..].iter();
        let mut sum = |there: bool| -> Result<Option<TensorData>, Error> {
            let parts = if there { sums.next() } else { None };
            parts
                .map(|parts| join(&parts[..1]).map_err(Error::device))
                .transpose()
        };
        let relative = sum(problem.rules().relative().is_some())?;
        let sinks = sum(problem.sinks())?;
        let float = (&device, DType::F32);
        Ok(RingGradients {
            out: attended(&results, &device)?,
            dq: rows(2)?,
            dk: rows(3)?,
            dv: rows(4)?,
            relative: relative.map(|data| Tensor::from_data(data, float)),
            sinks: sinks.map(|data| Tensor::from_data(data, float)),
        })
    }

    /// Runs a pass; returns the ring and the results, each a list of one buffer per device.
    fn run(
        &self,
        attend: &Attend,
        qkv: [Tensor<4>; 3],
        d_o: Option<Tensor<4>>,
    ) -> Result<(Ring, Vec<Vec<Buffer>>), Error> {
        let (group, count) = (&self.group.0, self.group.count());
        let (what, expected) = ("device of q", "one that records no gradients");
        let autodiff = qkv[0].device().is_autodiff();
        Fault::Device.unless(!autodiff, what, expected, "one that does")?;
        let whole = sizes(&qkv[0], &qkv[1], &qkv[2])?;
        for (what, tokens) in [("tokens", whole.queries), ("keys", whole.keys)] {
            let expected = format_args!("a multiple of {count} devices");
            Mismatch::unless(tokens.is_multiple_of(count), what, expected, tokens)?;
        }
        let chunk = Sizes {
            queries: whole.queries / count,
            keys: whole.keys / count,
            ..whole
        };
        let chunks = attend.chunks(&chunk, &qkv[0], count)?;
        let ring = Ring { chunks };
        let tables = self.tables(attend, &chunks, &qkv[0])?;
        let pass = match d_o {
            Some(_) => Pass::Both,
            None => Pass::Forward,
        };
        let described = || -> Result<_, Error> {
            Ok(match pass {
                Pass::Forward => ring.forward(),
                Pass::Both => ring.gradients(),
            })
        };
        let program = self.programs.get(&self.group, (ring, pass), described)?;
        let mut arguments = Vec::new();
        for rows in qkv {
            arguments.push(group.divide(&cut(rows, count)?).map_err(Error::device)?);
        }
        arguments.extend(tables);
        if let Some(d_o) = d_o {
            arguments.push(group.divide(&cut(d_o, count)?).map_err(Error::device)?);
        }
        let arguments: Vec<&[Buffer]> = arguments.iter().map(Vec::as_slice).collect();
        let results = group.run(&program, &arguments).map_err(Error::device)?;
        Ok((ring, results))
    }

    /// Places what rules and sinks read on every device, in the order of the description.
    fn tables(
        &self,
        attend: &Attend,
        chunks: &Chunks,
        q: &Tensor<4>,
    ) -> Result<Vec<Vec<Buffer>>, Error> {
        let (group, problem, pass) = (&self.group.0, *chunks.chunk(), AttentionPass::Forward);
        let described = Operation::from(Attention { problem, pass }).signature();
        let names = described.operands[3..].iter().map(|operand| operand.name);
        let of_chunk = |at| {
            let piece = attend.piece([at, at], chunks.tokens(), &q.device());
            Ok(piece.problem(problem.sizes(), q)?.1)
        };
        let all = (0..chunks.count()).map(of_chunk);
        let all: Vec<Vec<DeviceValue>> = all.collect::<Result<_, Error>>()?;
        let table = |(at, name): (usize, &str)| {
            let first = all[0][at].clone();
            let buffers = match name {
                "query_documents" | "key_documents" => {
                    let ids = all.iter().map(|tables| tables[at].clone().words::<2>());
                    group.divide(&words(Tensor::stack(ids.collect(), 0))?)
                }
                "relative" => group.copy(&data(first.floats::<2>())?),
                _ => group.copy(&data(first.floats::<1>())?),
            };
            buffers.map_err(Error::device)
        };
        names.enumerate().map(table).collect()
    }
}

fn attended(results: &[Vec<Buffer>], device: &Device) -> Result<Attended, Error> {
    let lse = join(&results[1]).map_err(Error::device)?;
    let lse = Tensor::<4>::from_data(lse, (device, DType::F32)).permute([1, 2, 0, 3]);
    let [b, h, n, size] = lse.dims();
    Ok(Attended {
        o: whole(&results[0], device)?,
        lse: lse.reshape([b, h, n * size]),
    })
}

/// Cuts \[B, H, S, D\] into n chunks of neighbouring tokens: \[n, B, H, S/n, D\].
fn cut(rows: Tensor<4>, n: usize) -> Result<TensorData, Error> {
    let [b, h, s, d] = rows.dims();
    data(rows.reshape([b, h, n, s / n, d]).permute([2, 0, 1, 3, 4]))
}

/// Joins the chunks that [`cut`] made into a tensor \[B, H, S, D\].
fn whole(parts: &[Buffer], device: &Device) -> Result<Tensor<4>, Error> {
    let data = join(parts).map_err(Error::device)?;
    let dtype = data.dtype();
    let rows = Tensor::<5>::from_data(data, (device, dtype)).permute([1, 2, 0, 3, 4]);
    let [b, h, n, size, d] = rows.dims();
    Ok(rows.reshape([b, h, n * size, d]))
}

/// Reads the words of a table; waits for the device.
fn words(table: Tensor<3, Int>) -> Result<TensorData, Error> {
    table.try_into_data().map_err(Error::device)
}
