//! One weight of all experts: on the host expert by expert, and on the device in a fixed number of places.

use crate::Error;
use crate::blocks::{BlockFormat, BlockLayout, BlockTensor, interleaved};
use crate::check::{check_same, element};
use crate::fp8::{
    ActivationScaling, Activations, Codes, Fp8Layout, Fp8Matrices, Fp8Scales, Fp8Scheme,
    Instructions, Weight,
};
use burn::module::{Module, Param};
use burn::tensor::kind::Basic;
use burn::tensor::{Bytes, DType, Device, Int, Tensor, TensorData};
use moebius_ops::fp8::{LANES_PER_WORD, pack};
use moebius_ops::grouped_gemm::fp8::PANEL;
use moebius_ops::scaling::HostScales;
use moebius_ops::{Fault, Mismatch};

/// A weight \[out, in\] of one expert in host memory.
#[derive(Clone, Debug, PartialEq)]
pub enum HostWeight {
    /// Values in floating point.
    Float(TensorData),
    /// FP8 codes and scales.
    Fp8(HostCodes),
    /// Blocks of codes.
    Blocks(HostBlocks),
}

/// FP8 codes and scales of one matrix \[out, in\] in host memory, as they lie in the memory of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCodes {
    panels: TensorData,
    scales: TensorData,
    /// The layout of a stack of this one matrix.
    layout: Fp8Layout,
    parts: usize,
}

/// Blocks of codes of one matrix \[out, in\] in host memory, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBlocks {
    words: TensorData,
    /// The layout of a stack of this one matrix.
    layout: BlockLayout,
    /// The dtype of the products' inputs and outputs.
    dtype: DType,
}

/// What all matrices of a weight have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float(DType),
    Fp8 { scheme: Fp8Scheme, parts: usize },
    Blocks { format: BlockFormat, dtype: DType },
}

impl Kind {
    /// The dtype of products, which that of FP8 codes doesn't tell.
    pub(super) fn dtype(self) -> Option<DType> {
        match self {
            Self::Float(dtype) | Self::Blocks { dtype, .. } => Some(dtype),
            Self::Fp8 { .. } => None,
        }
    }
}

impl From<TensorData> for HostWeight {
    fn from(values: TensorData) -> Self {
        Self::Float(values)
    }
}

impl From<HostCodes> for HostWeight {
    fn from(codes: HostCodes) -> Self {
        Self::Fp8(codes)
    }
}

impl From<HostBlocks> for HostWeight {
    fn from(blocks: HostBlocks) -> Self {
        Self::Blocks(blocks)
    }
}

impl HostBlocks {
    /// The words of one matrix, as [`BlockTensor::from_words`](crate::blocks::BlockTensor::from_words) takes them, for inputs and outputs of `dtype`. `layout` is that of a stack of this one matrix.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for several matrices, rows that aren't whole blocks, words of another shape or type than the
    /// layout has, and a dtype that isn't f32, f16 or bf16.
    pub fn new(words: TensorData, layout: BlockLayout, dtype: DType) -> Result<Self, Error> {
        Mismatch::check("matrices of an expert's weight", 1, layout.shape[0])?;
        element(dtype)?;
        layout.check_words(&words)?;
        Ok(Self {
            words,
            layout,
            dtype,
        })
    }
}

impl HostCodes {
    /// The codes \[out, in\] and scales of one matrix, row by row without padding as files have them, in the layout of products:
    /// [`Fp8Matrices::new`] makes the same of them on a device. `layout` is that of a stack of this one matrix, whose rows are those of
    /// `parts` projections, one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of codes or scales than the layout has, scales of the wrong kind, and
    /// `parts` that don't divide the rows, [`ErrorKind::Config`](crate::ErrorKind::Config) when the width of a scale block isn't a multiple
    /// of 4 columns.
    pub fn new(
        codes: &[u8],
        scales: &HostScales,
        layout: Fp8Layout,
        parts: usize,
    ) -> Result<Self, Error> {
        let [count, n, k] = layout.shape;
        let right = count == 1 && parts > 0 && n.is_multiple_of(parts) && n * k > 0;
        let expected = format_args!("1 matrix of {parts} parts with equal rows");
        let got = format_args!("{:?}", layout.shape);
        Mismatch::unless(right, "fp8 weight of an expert", expected, got)?;
        layout.scheme.check(k)?;
        Mismatch::check("fp8 codes", n * k, codes.len())?;
        let (rows, words) = (n / parts, k.div_ceil(LANES_PER_WORD));
        let of_part = rows.div_ceil(PANEL);
        let mut panels = vec![0_i32; parts * of_part * words * PANEL];
        for (row, codes) in codes.chunks_exact(k).enumerate() {
            let (panel, column) = (
                row / rows * of_part + row % rows / PANEL,
                row % rows % PANEL,
            );
            for (word, four) in pack(codes).into_iter().enumerate() {
                panels[(panel * words + word) * PANEL + column] = four as i32;
            }
        }
        Ok(Self {
            panels: TensorData::new(panels, [parts * of_part, words, PANEL]),
            scales: stored_scales(scales, layout)?,
            layout,
            parts,
        })
    }
}

/// The scales of one matrix as they lie in the memory of a device.
fn stored_scales(scales: &HostScales, layout: Fp8Layout) -> Result<TensorData, Error> {
    let [_, n, k] = layout.shape;
    let granularity = layout.scheme.granularity;
    let [down, across] = granularity.blocks(n, k);
    check_same(
        "type of scales",
        scales.scale_type(),
        granularity.scale_type(),
    )?;
    Mismatch::check("scales", down * across, scales.len())?;
    Ok(match scales {
        HostScales::F32(scales) => TensorData::new(scales.clone(), layout.scales_shape()),
        HostScales::E8M0(bytes) => {
            let rows = bytes.chunks(across.max(1));
            let words = rows.flat_map(|row| pack(row).into_iter().map(|word| word as i32));
            TensorData::new(words.collect::<Vec<i32>>(), layout.scales_shape())
        }
    })
}

impl HostWeight {
    /// Reads the weight of expert number `expert`; waits for the device.
    pub fn read(weight: &Weight<3>, expert: usize) -> Result<Self, Error> {
        weight.check_unchanged()?;
        if let Some(blocks) = weight.blocks() {
            let BlockLayout {
                shape: [_, n, k],
                format,
            } = blocks.layout();
            let shape = [1, n, k];
            return Ok(Self::Blocks(HostBlocks {
                words: entries(&blocks.words(expert, 1)?, 0, 1)?,
                layout: BlockLayout { shape, format },
                dtype: blocks.dtype(),
            }));
        }
        let Some(codes) = weight.codes() else {
            return Ok(Self::Float(part(&weight.float()?, expert)?));
        };
        let (layout, (panels, scales)) = (codes.layout(), codes.stored());
        let [experts, n, k] = layout.shape;
        let of_each = panels.dims()[0] / experts;
        let scales = match scales {
            Fp8Scales::F32(scales) => entries(&scales, expert, 1)?,
            Fp8Scales::E8M0(words) => entries(&words, expert, 1)?,
        };
        Ok(Self::Fp8(HostCodes {
            panels: entries(&panels, expert * of_each, of_each)?,
            scales,
            layout: Fp8Layout {
                shape: [1, n, k],
                ..layout
            },
            parts: codes.parts(),
        }))
    }

    /// The shape \[out, in\].
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Float(values) => values.shape().to_vec(),
            Self::Fp8(codes) => codes.layout.shape[1..].to_vec(),
            Self::Blocks(blocks) => blocks.layout.shape[1..].to_vec(),
        }
    }

    /// Bytes of the values, of codes and scales with their padding, or of blocks with theirs.
    pub fn bytes(&self) -> u64 {
        let bytes = |data: &TensorData| data.bytes().len() as u64;
        match self {
            Self::Float(values) => bytes(values),
            Self::Fp8(codes) => bytes(&codes.panels) + bytes(&codes.scales),
            Self::Blocks(blocks) => bytes(&blocks.words),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Float(values) => Kind::Float(values.dtype()),
            Self::Fp8(codes) => Kind::Fp8 {
                scheme: codes.layout.scheme,
                parts: codes.parts,
            },
            Self::Blocks(blocks) => Kind::Blocks {
                format: blocks.layout.format,
                dtype: blocks.dtype,
            },
        }
    }
}

/// How products use the codes of a weight, whichever matrices they belong to.
#[derive(Clone, Debug)]
pub(super) struct CodedProducts {
    activations: ActivationScaling,
    instructions: Instructions,
    /// The dtype of the products' inputs and outputs.
    pub(super) dtype: DType,
}

impl CodedProducts {
    /// Those of a weight; `None` for one without codes.
    ///
    /// # Errors
    /// [`Mismatch`] for activations whose scales follow what a forward measures, as it computes a batch in several waves.
    pub(super) fn of(weight: &Weight<3>) -> Result<Option<Self>, Mismatch> {
        let Some(codes) = weight.codes_of() else {
            return Ok(None);
        };
        let what = "activations of switched experts";
        let expected = "scales that no batch changes";
        let source = codes.activations.source();
        let got = format_args!("{source:?}");
        Fault::Unsupported.unless(!codes.activations.measures(), what, expected, got)?;
        Ok(Some(Self {
            activations: codes.activations.clone(),
            instructions: codes.instructions,
            dtype: codes.dtype,
        }))
    }

    /// Those of a weight that [`Weight::from_fp8`] makes: activations aren't rounded.
    pub(super) fn plain(device: &Device) -> Self {
        Self {
            activations: ActivationScaling::new(Activations::Float, device),
            instructions: Instructions::None,
            dtype: DType::F32,
        }
    }

    fn to_device(&self, device: &Device) -> Self {
        Self {
            activations: self.activations.clone().to_device(device),
            ..self.clone()
        }
    }
}

/// A weight of the experts that have places on the device.
#[derive(Debug)]
pub(super) enum Places {
    /// Values \[places, out, in\].
    Float(Box<Tensor<3>>),
    Fp8(Box<CodedPlaces>),
    Blocks(Box<BlockPlaces>),
}

/// FP8 codes and scales of the experts that have places on the device.
#[derive(Debug)]
pub(super) struct CodedPlaces {
    panels: Tensor<3, Int>,
    scales: Fp8Scales,
    layout: Fp8Layout,
    parts: usize,
    products: CodedProducts,
}

/// Blocks of codes of the experts that have places on the device.
#[derive(Debug)]
pub(super) struct BlockPlaces {
    /// The words \[places, out, words of a row\], as they lie in the memory of the device.
    words: Tensor<3, Int>,
    layout: BlockLayout,
    dtype: DType,
}

impl Places {
    /// Places for `count` weights like `one`, which hold zeros. FP8 codes need `products`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for codes without products, and for more blocks than a buffer of the device holds.
    pub(super) fn new(
        one: &HostWeight,
        count: usize,
        products: Option<&CodedProducts>,
        device: &Device,
    ) -> Result<Self, Error> {
        match one {
            HostWeight::Float(values) => {
                let shape: Vec<usize> = [count].into_iter().chain(one.shape()).collect();
                let zeros = Tensor::zeros(shape, (device, values.dtype()));
                Ok(Self::Float(Box::new(zeros)))
            }
            HostWeight::Fp8(codes) => {
                let what = "products of switched experts";
                let products = products.ok_or_else(|| {
                    Fault::Unsupported.error(what, "those of FP8 codes", "those of values")
                })?;
                let places = CodedPlaces::new(codes, count, products, device);
                Ok(Self::Fp8(Box::new(places)))
            }
            HostWeight::Blocks(blocks) => {
                let places = BlockPlaces::new(blocks, count, device)?;
                Ok(Self::Blocks(Box::new(places)))
            }
        }
    }

    /// The weight of all places. While it exists, a place that is overwritten costs a copy of all.
    pub(super) fn weight(&self) -> Result<Weight<3>, Error> {
        match self {
            Self::Float(values) => Ok(frozen(Tensor::clone(values)).into()),
            Self::Fp8(codes) => Ok(codes.weight()),
            Self::Blocks(blocks) => blocks.weight(),
        }
    }

    /// Overwrites the weight in `place`, in place.
    ///
    /// # Errors
    /// [`Mismatch`] for a weight that isn't like the others: one of another shape or dtype, or codes where values are.
    pub(super) fn overwrite(&mut self, place: usize, with: HostWeight) -> Result<(), Mismatch> {
        let (shape, kind) = (with.shape(), with.kind());
        check_same("shape of an expert's weight", shape, self.shape_of_one())?;
        check_same("kind of an expert's weight", kind, self.kind())?;
        match (self, with) {
            (Self::Float(values), HostWeight::Float(new)) => assign(values, new, place),
            (Self::Fp8(places), HostWeight::Fp8(new)) => {
                let of_each = new.panels.shape()[0];
                assign_entries(&mut places.panels, new.panels, place * of_each);
                match &mut places.scales {
                    Fp8Scales::F32(scales) => assign_entries(scales, new.scales, place),
                    Fp8Scales::E8M0(words) => assign_entries(words, new.scales, place),
                }
            }
            (Self::Blocks(places), HostWeight::Blocks(new)) => {
                let format = places.layout.format;
                let words = interleaved::stored(new.words, format, &places.words.device());
                assign_entries(&mut places.words, words, place);
            }
            _ => unreachable!("the kinds are the same"),
        }
        Ok(())
    }

    fn shape_of_one(&self) -> Vec<usize> {
        match self {
            Self::Float(values) => values.dims()[1..].to_vec(),
            Self::Fp8(codes) => codes.layout.shape[1..].to_vec(),
            Self::Blocks(blocks) => blocks.layout.shape[1..].to_vec(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Float(values) => Kind::Float(values.dtype()),
            Self::Fp8(codes) => Kind::Fp8 {
                scheme: codes.layout.scheme,
                parts: codes.parts,
            },
            Self::Blocks(blocks) => Kind::Blocks {
                format: blocks.layout.format,
                dtype: blocks.dtype,
            },
        }
    }
}

impl BlockPlaces {
    fn new(one: &HostBlocks, count: usize, device: &Device) -> Result<Self, Error> {
        let [_, n, k] = one.layout.shape;
        let layout = BlockLayout {
            shape: [count, n, k],
            ..one.layout
        };
        layout.check(device)?;
        let options = (device, one.words.dtype());
        Ok(Self {
            words: Tensor::zeros(layout.words_shape(), options),
            layout,
            dtype: one.dtype,
        })
    }

    fn weight(&self) -> Result<Weight<3>, Error> {
        let words = self.words.clone();
        Weight::from_blocks(BlockTensor::of_words(words, self.layout, self.dtype))
    }
}

impl CodedPlaces {
    fn new(one: &HostCodes, count: usize, products: &CodedProducts, device: &Device) -> Self {
        let [_, n, k] = one.layout.shape;
        let shape = |data: &TensorData| -> Vec<usize> {
            let mut shape = data.shape().to_vec();
            shape[0] *= count;
            shape
        };
        let panels = Tensor::zeros(shape(&one.panels), (device, one.panels.dtype()));
        let options = (device, one.scales.dtype());
        let scales = match one.scales.dtype() {
            DType::F32 => Fp8Scales::F32(Tensor::zeros(shape(&one.scales), options)),
            _ => Fp8Scales::E8M0(Tensor::zeros(shape(&one.scales), options)),
        };
        Self {
            panels,
            scales,
            layout: Fp8Layout {
                shape: [count, n, k],
                ..one.layout
            },
            parts: one.parts,
            products: products.to_device(device),
        }
    }

    fn weight(&self) -> Weight<3> {
        let stored = (self.panels.clone(), self.scales.clone());
        Weight::of_codes(Codes {
            matrices: Fp8Matrices::from_stored(stored, self.layout, self.parts),
            activations: self.products.activations.clone(),
            instructions: self.products.instructions,
            dtype: self.products.dtype,
        })
    }
}

/// A parameter that isn't trained.
pub(super) fn frozen<const D: usize>(values: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(values).set_require_grad(false)
}

/// Reads entry `e` of a stack to the host, without the stack's first dimension.
pub(super) fn part<const D: usize>(stack: &Tensor<D>, e: usize) -> Result<TensorData, Error> {
    let (bytes, shape, dtype) = entries(&stack.clone().without_autodiff(), e, 1)?.into_parts();
    Ok(TensorData::from_bytes(bytes, shape[1..].to_vec(), dtype))
}

/// Reads `count` entries of a stack to the host.
fn entries<const D: usize, K: Basic>(
    stack: &Tensor<D, K>,
    first: usize,
    count: usize,
) -> Result<TensorData, Error> {
    let some = stack.clone().narrow(0, first, count);
    let data = some.try_into_data().map_err(Error::device)?;
    let (bytes, shape, dtype) = data.into_parts();
    // The bytes may be a view of memory that still belongs to the device; a copy lets the device free it.
    let bytes = Bytes::from_bytes_vec(bytes.to_vec());
    Ok(TensorData::from_bytes(bytes, shape, dtype))
}

/// Overwrites one entry of a stack in place with `data`, which lacks the stack's first dimension.
pub(super) fn assign<const D: usize>(stack: &mut Tensor<D>, data: TensorData, place: usize) {
    let (bytes, shape, dtype) = data.into_parts();
    let shape: Vec<usize> = [1].into_iter().chain(shape.to_vec()).collect();
    assign_entries(stack, TensorData::from_bytes(bytes, shape, dtype), place);
}

/// Overwrites as many entries of a stack as `data` has, in place, from entry `first` on.
fn assign_entries<const D: usize, K: Basic>(
    stack: &mut Tensor<D, K>,
    data: TensorData,
    first: usize,
) {
    let options = (&stack.device(), stack.dtype());
    let some = Tensor::<D, K>::from_data(data, options);
    // The stack gives up its tensor first, because a shared one would be copied as a whole.
    let hole = Tensor::empty([1; D], options);
    let tensor = std::mem::replace(stack, hole);
    let end = first + some.dims()[0];
    *stack = tensor.slice_assign(first..end, some);
}
