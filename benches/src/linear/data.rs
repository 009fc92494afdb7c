//! Operands of the product on the host, where the oracle needs them, and copies of the weights that take turns: with few tokens,
//! each product then reads weights from memory, as in a model whose other layers have pushed them out of the caches.

use super::LinearBench;
use crate::ceiling::{copies_beyond, last_level_cache};
use crate::options::element;
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData, bf16};
use moebius::Error;
use moebius_ops::Mismatch;
use moebius_ops::blocks::{BlockFormat, Levels, Scales};
use moebius_ops::grouped_gemm::Problem;
use std::cell::Cell;
use std::f64::consts::TAU;

/// Number of tokens up to which reading the weights is most of the work.
const FEW_TOKENS: usize = 16;
/// Largest number of copies of the codes; smaller layers stay in the caches, whatever their type.
const MOST: u64 = 256;

/// x \[m, k\] and W \[n, k\], normally distributed.
pub(super) struct HostData {
    /// x as the layers read it: rounded to the type of the benchmark.
    pub(super) x: Vec<f32>,
    pub(super) weights: Vec<f32>,
}

impl HostData {
    pub(super) fn new(bench: &LinearBench) -> Self {
        let x = normal(bench.m * bench.k, 1);
        Self {
            x: rounded(x, bench.dtype),
            weights: normal(bench.n * bench.k, 2),
        }
    }

    /// Wᵀ \[k, n\], the layout of Burn's layers.
    pub(super) fn transposed(&self, bench: &LinearBench) -> Vec<f32> {
        let LinearBench { n, k, .. } = *bench;
        let mut turned = vec![0.0; n * k];
        for (column, row) in self.weights.chunks(k).enumerate() {
            for (weight, line) in row.iter().zip(turned.chunks_mut(n)) {
                line[column] = *weight;
            }
        }
        turned
    }
}

/// The values, rounded to `dtype`.
pub(super) fn rounded(values: Vec<f32>, dtype: DType) -> Vec<f32> {
    if dtype == DType::F32 {
        return values;
    }
    let len = values.len();
    let rounded = TensorData::new(values, [len]).convert_dtype(dtype);
    rounded.iter::<f32>().collect()
}

/// Number of weights of the layer.
pub(super) fn weights(bench: &LinearBench) -> u64 {
    bench.n as u64 * bench.k as u64
}

/// The bytes of W \[n, k\] in blocks: BF16 up to 1/64, or any codes, in a format that begins with a scale in F16, or with that of scales and that of
/// minima: both are 2^-8.
pub(super) fn blocks(bench: &LinearBench, format: BlockFormat) -> Vec<u8> {
    let layout = format.layout();
    let count = weights(bench) as usize / layout.values * layout.bytes;
    let byte = |i: usize| ((i as u32).wrapping_mul(0x9E37_79B9) >> 24) as u8;
    let mut bytes: Vec<u8> = (0..count).map(byte).collect();
    if layout.levels == Levels::Bf16 {
        for pair in bytes.as_chunks_mut::<2>().0 {
            *pair = bf16::from_f32(f32::from(pair[0].cast_signed()) / 8192.0).to_le_bytes();
        }
        return bytes;
    }
    let halves = 1 + usize::from(layout.scales == Scales::SixBits);
    for block in bytes.chunks_exact_mut(layout.bytes) {
        for half in block.as_chunks_mut::<2>().0.iter_mut().take(halves) {
            *half = 0x1C00_u16.to_le_bytes();
        }
    }
    bytes
}

/// W \[n, k\] that these blocks decode to.
///
/// # Errors
/// [`ErrorKind::Shape`](moebius::ErrorKind::Shape) for rows that aren't whole blocks.
pub(super) fn decoded_blocks(bench: &LinearBench, format: BlockFormat) -> Result<Vec<f32>, Error> {
    let words = format.to_words(&blocks(bench, format), bench.k)?;
    Ok(format.decoded(&words, bench.k))
}

/// x \[m, k\] on a device.
pub(super) fn input(bench: &LinearBench, device: &Device, data: &HostData) -> Tensor<2> {
    let x = TensorData::new(data.x.clone(), [bench.m, bench.k]).convert_dtype(bench.dtype);
    Tensor::from_data(x, (device, bench.dtype))
}

/// The product with float weights.
///
/// # Errors
/// [`ErrorKind::Shape`](moebius::ErrorKind::Shape) for a size of 0 or one too large,
/// [`ErrorKind::Config`](moebius::ErrorKind::Config) for another type than f32, f16 and bf16.
pub(super) fn float_problem(bench: &LinearBench) -> Result<Problem, Error> {
    if bench.m == 0 {
        return Err(Mismatch::new("rows", "at least 1", bench.m).into());
    }
    Ok(Problem {
        element: element(bench.dtype)?,
        ..Problem::dense(bench.m, bench.n, bench.k)?
    })
}

/// The layer's weight, from `values`, not trainable.
pub(super) fn weight(
    values: &[f32],
    shape: [usize; 2],
    dtype: DType,
    device: &Device,
) -> Param<Tensor<2>> {
    let weight = TensorData::new(values.to_vec(), shape).convert_dtype(dtype);
    let weight = Tensor::from_data(weight, (device, dtype));
    Param::from_tensor(weight).set_require_grad(false)
}

/// `len` normally distributed numbers by the Box–Muller transform, the same in every run.
fn normal(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        // SplitMix64; the upper 53 bits, shifted by half a step so that none is 0.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((((bits ^ (bits >> 31)) >> 11) as f64) + 0.5) * f64::exp2(-53.0)
    };
    let mut values = Vec::with_capacity(len + 1);
    while values.len() < len {
        let radius = (-2.0 * uniform().ln()).sqrt();
        let (sine, cosine) = (TAU * uniform()).sin_cos();
        values.extend([(radius * sine) as f32, (radius * cosine) as f32]);
    }
    values.truncate(len);
    values
}

/// Copies of a value that are used in turns.
pub(super) struct Turns<T> {
    all: Vec<T>,
    next: Cell<usize>,
}

impl<T> Turns<T> {
    /// Makes `copies` copies, at least one.
    pub(super) fn of<E>(copies: usize, make: impl Fn() -> Result<T, E>) -> Result<Self, E> {
        let all = (0..copies.max(1)).map(|_| make());
        Ok(Self {
            all: all.collect::<Result<_, E>>()?,
            next: Cell::new(0),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn first(&self) -> &T {
        &self.all[0]
    }

    /// The copy whose turn it is.
    pub(super) fn next(&self) -> &T {
        let next = self.next.get();
        self.next.set((next + 1) % self.all.len());
        &self.all[next]
    }
}

/// Number of copies of weights that take `bytes`: for few tokens on the processor, so many that they are together at
/// least four times its last-level cache; else 1.
pub(super) fn copies(bench: &LinearBench, on_processor: bool, bytes: u64) -> usize {
    if !on_processor || bench.m > FEW_TOKENS {
        return 1;
    }
    let (cache, _) = last_level_cache();
    let codes = copies_beyond(cache, bench.n as u64 * bench.k as u64);
    let copies = if codes > MOST {
        1
    } else {
        copies_beyond(cache, bytes)
    };
    usize::try_from(copies).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius::fp8::{Activations, Fp8Format, Granularity};

    #[test]
    fn the_numbers_are_normally_distributed() {
        let values = normal(100_001, 7);
        let moment = |power: i32| {
            let sum: f64 = values.iter().map(|x| f64::from(*x).powi(power)).sum();
            sum / values.len() as f64
        };
        assert!(moment(1).abs() < 0.01, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.1, "{}", moment(4));
        assert_ne!(normal(8, 1), normal(8, 2));
    }

    fn bench(m: usize, n: usize) -> LinearBench {
        LinearBench {
            m,
            n,
            k: n,
            format: Fp8Format::E4M3,
            granularity: Granularity::Row,
            dtype: DType::F32,
            activations: Activations::Float,
            device: moebius::Device::Flex,
            peer: None,
        }
    }

    #[test]
    fn few_tokens_on_the_processor_read_more_than_the_cache_holds() {
        let (cache, _) = last_level_cache();
        let bytes = cache / 4;
        let wide = bench(16, (bytes as f64).sqrt() as usize);
        assert!((16..=17).contains(&copies(&wide, true, bytes)));
        assert_eq!(copies(&wide, true, 100 * cache), 2);
        // One copy on a GPU, with more tokens, or where too many copies would be needed, in any type.
        assert_eq!(copies(&wide, false, bytes), 1);
        assert_eq!(copies(&LinearBench { m: 17, ..wide }, true, bytes), 1);
        assert_eq!(copies(&bench(1, 64), true, bytes), 1);
    }

    #[test]
    fn each_use_takes_the_next_and_the_first_comes_again() {
        let made = Cell::new(0);
        let turns = Turns::of(3, || -> Result<i32, ()> {
            made.set(made.get() + 1);
            Ok(made.get())
        });
        let turns = turns.expect("made");
        let order: Vec<i32> = (0..5).map(|_| *turns.next()).collect();
        assert_eq!((order, turns.count()), (vec![1, 2, 3, 1, 2], 3));
        assert_eq!(*turns.first(), 1);
        assert!(Turns::<()>::of(2, || Err("no memory")).is_err());
    }
}
