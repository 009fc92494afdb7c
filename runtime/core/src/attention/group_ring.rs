//! Attention within a sequence whose chunks are on the devices of a group of XLA.

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

/// The devices of a [`DeviceGroup`], each with a chunk of a sequence: ring attention (Liu et al. 2023) as one program, in which
/// keys and values go from device to device by XLA's own exchange. Chunks of which the rules hide all aren't computed; under a causal
/// rule the last device computes most.
///
/// A program is compiled for each attention and its sizes; up to 32 are kept. Tensors go to the devices through the host, each chunk to
/// its own device, and results come back to the device of q.
#[derive(Debug)]
pub struct GroupRing {
    group: DeviceGroup,
    programs: Programs<(Ring, Pass)>,
}

/// What [`GroupRing::gradients`] returns.
#[derive(Clone, Debug)]
pub struct RingGradients {
    /// What [`GroupRing::forward`] gives.
    pub out: Attended,
    /// Of q, in its shape and dtype.
    pub dq: Tensor<4>,
    /// Of k.
    pub dk: Tensor<4>,
    /// Of v.
    pub dv: Tensor<4>,
    /// Of the table of biases by distance \[Hq, 2n + 1\], f32, where there is one.
    pub relative: Option<Tensor<2>>,
    /// Of the sinks \[Hq\], f32, where there are some.
    pub sinks: Option<Tensor<1>>,
}

impl GroupRing {
    /// A ring of the devices, in the order of the sequence.
    pub fn new(group: &DeviceGroup) -> Self {
        Self {
            group: group.clone(),
            programs: Programs::new(),
        }
    }

    /// What [`Attend::forward`] gives for q \[B, Hq, S, D\], k \[B, Hkv, S, D\] and v \[B, Hkv, S, Dv\] on a device that records no gradients,
    /// but for the order of sums; in f16 and bf16 what a query sees of each chunk is rounded before it is merged.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for tokens that aren't a multiple of the devices, other keys than queries, no sequences or tokens,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a position, a dropout, a rule of the program's own or one that neither
    /// follows from distances nor from documents (causal from the top left, prefix, global, blocks, mask, bias), and what
    /// [`Attend::forward`] says; [`ErrorKind::Device`](crate::ErrorKind::Device) for a device that records gradients, and when a device fails.
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

    /// The same, and the gradients through that of o, `d_o` \[B, Hq, S, Dv\].
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
        // The same on every device.
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

    /// The ring, and the results of a pass, each a list of one buffer for each device.
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

    /// What rules and sinks read, in the order of the description, on every device.
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

/// \[n, B, H, S/n, D\] of \[B, H, S, D\]: n chunks of neighbouring tokens.
fn cut(rows: Tensor<4>, n: usize) -> Result<TensorData, Error> {
    let [b, h, s, d] = rows.dims();
    data(rows.reshape([b, h, n, s / n, d]).permute([2, 0, 1, 3, 4]))
}

/// The tensor of chunks that [`cut`] made.
fn whole(parts: &[Buffer], device: &Device) -> Result<Tensor<4>, Error> {
    let data = join(parts).map_err(Error::device)?;
    let dtype = data.dtype();
    let rows = Tensor::<5>::from_data(data, (device, dtype)).permute([1, 2, 0, 3, 4]);
    let [b, h, n, size, d] = rows.dims();
    Ok(rows.reshape([b, h, n * size, d]))
}

/// The words of a table; waits for them.
fn words(table: Tensor<3, Int>) -> Result<TensorData, Error> {
    table.try_into_data().map_err(Error::device)
}
