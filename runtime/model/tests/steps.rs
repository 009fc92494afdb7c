//! Published decoders step by step: any split of a sequence into steps gives the bits of the whole, and gradients reach every weight.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

mod folders;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use folders::folders;
use half::bf16;
use moebius::attention::{CacheFormat, Pages, Span};
use moebius::fp8::{Fp8Conversion, Fp8Format, Granularity, Quantizer, ScaleRule};
use moebius::moe::{Router, Routing};
use moebius::pad::Buckets;
use moebius_model::decoder::{Cache, FeedForward, Model, Projections, Slot, Values};
use moebius_model::load::{LoadOptions, ModelFiles, Progress};
use moebius_weights::{Dtype, ReadAt, Reader, TensorSpec, Writer};

/// The folder of this name.
fn named(name: &str) -> PathBuf {
    let mut folders = folders().into_iter();
    folders.find(|folder| folder.ends_with(name)).unwrap()
}

/// Tokens of a sequence of the caches here.
const ROOM: usize = 48;

/// The folders of models that such a cache can hold: those whose attention has no smaller chunks.
fn cached() -> Vec<PathBuf> {
    let mut folders = folders();
    folders.retain(|folder| {
        let files = ModelFiles::open(folder).unwrap();
        let layers = files.spec().layers.iter();
        let mut chunks = layers.filter_map(|layer| layer.attention()?.chunk);
        chunks.all(|chunk| chunk >= ROOM)
    });
    folders
}

fn load(folder: &Path, device: &Device) -> Model {
    load_with(folder, LoadOptions::default(), device)
}

fn load_with(folder: &Path, options: LoadOptions, device: &Device) -> Model {
    let files = ModelFiles::open(folder).unwrap();
    files.load(device, options, &mut |_| ()).unwrap()
}

/// The tokens of a folder's case.
fn tokens(folder: &Path) -> Vec<i32> {
    let case = Reader::open(&folder.join("logits.case.safetensors")).unwrap();
    let bytes = case.read("in.tokens").unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|&word| i32::from_le_bytes(word)).collect()
}

fn ids(tokens: &[i32], sequences: usize, device: &Device) -> Tensor<2, Int> {
    let data = TensorData::new(tokens.to_vec(), [sequences, tokens.len() / sequences]);
    Tensor::from_data(data, device)
}

/// The bits of logits [B, S, V], a list for each row.
fn bits(logits: Tensor<3>) -> Vec<Vec<u32>> {
    let [_, _, width] = logits.dims();
    let values: Vec<f32> = logits.into_data().iter().collect();
    let rows = values.chunks(width);
    rows.map(|row| row.iter().map(|value| value.to_bits()).collect())
        .collect()
}

fn cache(model: &Model, pages: Pages, device: &Device) -> Cache {
    Cache::new(model.spec(), pages, CacheFormat::F32, device).unwrap()
}

#[test]
fn steps_give_the_bits_of_the_whole() {
    let device = Device::flex();
    for folder in cached() {
        let model = load(&folder, &device);
        let tokens = tokens(&folder);
        let whole = bits(model.forward(ids(&tokens, 1, &device)).unwrap().logits);
        let cuts: [&[usize]; 3] = [&[41], &[1; 41], &[5, 1, 20, 1, 14]];
        for cut in cuts {
            let pages = Pages::paged(1, 3, ROOM).unwrap();
            let mut cache = cache(&model, pages, &device);
            let (mut got, mut rest) = (Vec::new(), &tokens[..]);
            for &count in cut {
                let (now, later) = rest.split_at(count);
                rest = later;
                let step = model.step(ids(now, 1, &device), &[count], &mut cache);
                got.extend(bits(step.unwrap().logits));
            }
            assert!(rest.is_empty());
            let same = got.iter().zip(&whole).filter(|(got, want)| got == want);
            let (same, name) = (same.count(), folder.display());
            assert_eq!(same, whole.len(), "{name}, {} steps", cut.len());
        }
    }
}

#[test]
fn a_cache_that_grows_gives_the_bits_of_the_whole() {
    let device = Device::flex();
    for folder in cached() {
        let model = load(&folder, &device);
        let tokens = tokens(&folder);
        let whole = bits(model.forward(ids(&tokens, 1, &device)).unwrap().logits);
        let mut cache = cache(&model, Pages::paged(1, 1, 16).unwrap(), &device).up_to(48);
        let first = model.step(ids(&tokens[..16], 1, &device), &[16], &mut cache);
        let mut got = bits(first.unwrap().logits);
        let page = cache.bytes();
        cache.grow(3, 48).unwrap();
        assert_eq!((cache.bytes(), cache.page_count()), (3 * page, 3));
        let more = tokens.len() - 16;
        let rest = model.step(ids(&tokens[16..], 1, &device), &[more], &mut cache);
        got.extend(bits(rest.unwrap().logits));
        assert_eq!(got, whole, "{}", folder.display());
        // A cache doesn't become smaller.
        assert!(cache.grow(2, 48).is_err());
    }
}

#[test]
fn sequences_of_other_lengths_change_nothing() {
    let device = Device::flex();
    for folder in cached() {
        let model = load(&folder, &device);
        let tokens = tokens(&folder);
        let whole = bits(model.forward(ids(&tokens, 1, &device)).unwrap().logits);
        let pages = Pages::paged(2, 6, ROOM).unwrap();
        let mut cache = cache(&model, pages, &device);
        // The second sequence begins later and sees the same tokens.
        let mut batch = tokens[..20].to_vec();
        batch.extend(&tokens[..7]);
        batch.extend([0; 13]);
        let first = model.step(ids(&batch, 2, &device), &[20, 7], &mut cache);
        let first = bits(first.unwrap().logits);
        assert_eq!(first[..20], whole[..20], "{}", folder.display());
        assert_eq!(first[20..27], whole[..7], "{}", folder.display());
        let pair = [tokens[20], tokens[7]];
        let second = model.step(ids(&pair, 2, &device), &[1, 1], &mut cache);
        let second = bits(second.unwrap().logits);
        let expected = [&whole[20][..], &whole[7][..]];
        assert_eq!(second, expected, "{}", folder.display());
    }
}

#[test]
fn a_batch_gives_the_bits_of_its_sequences() {
    let device = Device::flex();
    for folder in folders() {
        let model = load(&folder, &device);
        let tokens = tokens(&folder);
        let [whole, alone] =
            [(&tokens[..40], 2), (&tokens[20..40], 1)].map(|(tokens, sequences)| {
                let logits = model.forward(ids(tokens, sequences, &device));
                bits(logits.unwrap().logits)
            });
        assert_eq!(whole[20..], alone, "{}", folder.display());
    }
}

#[test]
fn a_step_down_the_gradient_lowers_the_loss() {
    use burn::optim::{GradientsParams, SgdConfig};
    let device = Device::flex().autodiff();
    for folder in folders() {
        // Codes don't train.
        let decoded = LoadOptions {
            keep_fp8: false,
            ..LoadOptions::default()
        };
        let mut model = load_with(&folder, decoded, &device);
        let tokens = tokens(&folder);
        let (seen, next) = (&tokens[..40], ids(&tokens[1..], 1, &device));
        let loss = |model: &Model| {
            let logits = model.forward(ids(seen, 1, &device)).unwrap().logits;
            let [_, count, width] = logits.dims();
            let logs = burn::tensor::activation::log_softmax(logits.reshape([count, width]), 1);
            let next = next.clone().reshape([count, 1]);
            -logs.gather(1, next).mean()
        };
        let before = loss(&model);
        let gradients = GradientsParams::from_grads(before.backward(), &model);
        let params = parameters(&model);
        assert_eq!(gradients.len(), params, "{}", folder.display());
        model = SgdConfig::new().init().step(0.05, model, gradients);
        let [before, after] = [before, loss(&model)].map(|loss| loss.into_scalar::<f32>());
        assert!(after < before, "{}: {before} {after}", folder.display());
    }
}

/// Number of tensors that a model trains.
fn parameters(model: &Model) -> usize {
    use burn::module::{Module, ModuleVisitor, Param};
    struct Count(usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            // Running state isn't trained.
            self.0 += usize::from(param.is_require_grad());
        }
    }
    let mut count = Count(0);
    model.visit(&mut count);
    count.0
}

#[test]
fn a_cache_of_more_than_a_chunk_is_refused() {
    let device = Device::flex();
    let model = load(&named("decoder_llama4_text"), &device);
    let made = |longest: usize| {
        let pages = Pages::paged(1, 3, longest).unwrap();
        Cache::new(model.spec(), pages, CacheFormat::F32, &device)
    };
    let error = made(ROOM).unwrap_err().to_string();
    assert!(error.contains("at most 16, the chunk"), "{error}");
    // Within a chunk steps give the bits of the whole.
    let tokens = &tokens(&named("decoder_llama4_text"))[..16];
    let whole = bits(model.forward(ids(tokens, 1, &device)).unwrap().logits);
    let mut cache = made(16).unwrap();
    let mut got = Vec::new();
    for part in [&tokens[..7], &tokens[7..]] {
        let step = model.step(ids(part, 1, &device), &[part.len()], &mut cache);
        got.extend(bits(step.unwrap().logits));
    }
    assert_eq!(got, whole);
}

#[test]
fn tokens_that_do_not_fit_a_cache_are_refused() {
    let device = Device::flex();
    let folder = &folders()[0];
    let model = load(folder, &device);
    let mut small = cache(&model, Pages::paged(1, 1, 16).unwrap(), &device);
    let tokens = tokens(folder);
    let mut step = |tokens: &[i32], counts: &[usize], sequences| {
        let ids = ids(tokens, sequences, &device);
        model.step(ids, counts, &mut small).map(|_| ())
    };
    assert!(step(&tokens[..17], &[17], 1).is_err());
    assert!(step(&tokens[..4], &[2, 2], 2).is_err());
    assert!(step(&tokens[..4], &[3], 1).is_err());
    assert!(step(&tokens[..16], &[16], 1).is_ok());
}

/// The last progress report has the bytes of all tensors, and each is read once.
#[test]
fn progress_ends_with_all_bytes() {
    let device = Device::flex();
    for folder in folders() {
        let files = ModelFiles::open(&folder).unwrap();
        let (mut last, mut calls) = ([0, 0], 0);
        let mut told = |progress: Progress<'_>| {
            assert!(progress.read >= last[0]);
            (last, calls) = ([progress.read, progress.bytes], calls + 1);
        };
        files
            .load(&device, LoadOptions::default(), &mut told)
            .unwrap();
        assert_eq!(last[0], last[1], "{}", folder.display());
        assert!(calls > 10);
    }
}

/// A file in memory that counts how often each of its bytes was read.
#[derive(Debug)]
struct Counted {
    bytes: Vec<u8>,
    reads: Arc<Mutex<Vec<u8>>>,
}

impl ReadAt for Counted {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let mut reads = self.reads.lock().unwrap();
        let reads = &mut reads[at as usize..][..out.len()];
        reads.iter_mut().for_each(|count| *count += 1);
        self.bytes.read_at(at, out)
    }
}

/// A load reads each byte of the weights once, and as many as its progress says.
#[test]
fn no_byte_is_read_twice() {
    let device = Device::flex();
    for folder in folders() {
        // One of the models lies in two files.
        let Ok(bytes) = fs::read(folder.join("model.safetensors")) else {
            continue;
        };
        let config = fs::read(folder.join("config.json")).unwrap();
        let config = serde_json::from_slice(&config).unwrap();
        let reads = Arc::new(Mutex::new(vec![0; bytes.len()]));
        let counted: Box<dyn ReadAt> = Box::new(Counted {
            bytes,
            reads: reads.clone(),
        });
        let files = [("model.safetensors".to_owned(), counted)];
        let reader = Reader::from_sources(files, Some(("config.json", config))).unwrap();
        let files = ModelFiles::of(reader).unwrap();
        // Opening has read the header.
        reads.lock().unwrap().fill(0);
        for options in [LoadOptions::default(), LoadOptions::fp8()] {
            let mut last = 0;
            let mut told = |progress: Progress<'_>| last = progress.read;
            files.load(&device, options, &mut told).unwrap();
            let mut reads = reads.lock().unwrap();
            let twice = reads.iter().position(|&count| count > 1);
            assert_eq!(twice, None, "{}, {options:?}", folder.display());
            let once = reads.iter().filter(|&&count| count == 1).count();
            assert_eq!(once as u64, last, "{}", folder.display());
            reads.fill(0);
        }
    }
}

/// Copies the checkpoint in `from` to `to` with values rounded to bf16, in this dtype.
fn rounded(from: &Path, to: &Path, dtype: Dtype) {
    let reader = Reader::open(from).unwrap();
    let specs = reader.tensors().map(|(name, info)| TensorSpec {
        name: name.to_owned(),
        dtype,
        shape: info.shape.clone(),
    });
    let specs: Vec<_> = specs.collect();
    let mut writer = Writer::folder(to, &specs, &BTreeMap::new(), None).unwrap();
    for TensorSpec { name, .. } in &specs {
        let values = reader.read_f32(name).unwrap();
        let values = values.into_iter().map(bf16::from_f32);
        let bytes: Vec<u8> = match dtype {
            Dtype::BF16 => values.flat_map(bf16::to_le_bytes).collect(),
            _ => values.flat_map(|v| v.to_f32().to_le_bytes()).collect(),
        };
        writer.append(name, &bytes).unwrap();
    }
    writer.finish().unwrap();
    fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
}

/// Values of 16 bits that a model computes in come from the file as they are: those that f32 in the file becomes, wherever its layout puts them.
#[test]
fn halves_are_loaded_as_they_are() {
    let options = LoadOptions {
        dtype: DType::BF16,
        ..LoadOptions::default()
    };
    for name in [
        "decoder_olmoe",
        "decoder_gpt_oss",
        "decoder_phi3",
        "decoder_deepseek_v3",
        "decoder_gemma3",
    ] {
        let [halves, singles] = [Dtype::BF16, Dtype::F32].map(|dtype| {
            let folder = tempfile::tempdir().unwrap();
            rounded(&named(name), folder.path(), dtype);
            load_with(folder.path(), options, &Device::flex())
        });
        for place in Slot::places(halves.spec()) {
            let [got, want] = [&halves, &singles].map(|mut model| model.values(place).unwrap());
            assert_eq!(got, want, "{name}, {place:?}");
        }
    }
}

/// FP8 weights stay codes where their scales allow it, and give the results of their decoded values.
#[test]
fn codes_stay_codes() {
    let device = Device::flex();
    let folder = &named("decoder_deepseek_v3_fp8");
    let decoded = LoadOptions {
        keep_fp8: false,
        ..LoadOptions::default()
    };
    let models = [LoadOptions::default(), decoded].map(|how| load_with(folder, how, &device));
    let attention = models[0].blocks[1].attention.as_ref().unwrap();
    let Projections::Latent(latent) = &attention.projection else {
        panic!("latent attention");
    };
    assert!(latent.query.weight.codes().is_some());
    let tokens = tokens(folder);
    let [codes, values] = models.map(|model| {
        let logits = model.forward(ids(&tokens, 1, &device)).unwrap().logits;
        logits.into_data().iter().collect::<Vec<f32>>()
    });
    for (code, value) in codes.iter().zip(&values) {
        assert!((code - value).abs() < 1e-4, "{code} {value}");
    }
}

/// Weights that are quantised during loading equal those of a conversion of the loaded model.
#[test]
fn rounding_on_the_way_is_a_conversion() {
    let device = Device::flex();
    let block = Granularity::Block {
        rows: 128,
        columns: 128,
    };
    let largest = Quantizer::new(Fp8Format::E4M3, block);
    let rounding = |quantizer| LoadOptions {
        round: Some(quantizer),
        ..LoadOptions::default()
    };
    for name in ["decoder_olmoe", "decoder_gpt_oss", "decoder_deepseek_v3"] {
        let folder = &named(name);
        let least = largest.with_scales(ScaleRule::LeastSquares);
        for quantizer in [largest, least, LoadOptions::fp8().round.unwrap()] {
            let conversion = Fp8Conversion::new(quantizer);
            let converted = conversion.convert(load(folder, &device), &device);
            let rounded = load_with(folder, rounding(quantizer), &device);
            let tokens = ids(&tokens(folder), 1, &device);
            let [one, other] = [rounded, converted.unwrap().0]
                .map(|model| bits(model.forward(tokens.clone()).unwrap().logits));
            assert_eq!(one, other, "{name}, {quantizer:?}");
        }
    }
    // Models that compute in 16 bits aren't quantised.
    let halves = LoadOptions {
        dtype: DType::BF16,
        ..rounding(largest)
    };
    let model = load_with(&named("decoder_olmoe"), halves, &device);
    let attention = model.blocks[0].attention.as_ref().unwrap();
    let Projections::Direct(direct) = &attention.projection else {
        panic!("direct attention");
    };
    assert!(direct.query.weight.codes().is_none());
}

/// A narrow embedding and head are the file's values rounded to bf16; everything else stays f32.
#[test]
fn a_narrow_embedding_is_the_rounded_one() {
    let device = Device::flex();
    let narrow = LoadOptions {
        narrow_embedding: true,
        ..LoadOptions::default()
    };
    for folder in folders() {
        let (exact, model) = (load(&folder, &device), load_with(&folder, narrow, &device));
        let rounded = |weight: Tensor<2>| weight.cast(DType::BF16);
        let [wide, got] = [&exact, &model].map(|model| model.embedding.val());
        assert_eq!(rounded(wide).into_data(), got.into_data());
        let mut by_hand = exact;
        let widened = |weight: Tensor<2>| rounded(weight).cast(DType::F32);
        by_hand.embedding = by_hand.embedding.map(widened);
        by_hand.head = by_hand.head.map(|head| head.map(widened));
        let tokens = ids(&tokens(&folder), 1, &device);
        let logits = |model: &Model| model.forward(tokens.clone()).unwrap().logits;
        assert_eq!(logits(&model).dtype(), DType::F32);
        // Both models have the same values, and so the same products.
        assert_eq!(bits(logits(&model)), bits(logits(&by_hand)), "{folder:?}");
    }
}

/// Tokens that fill a sequence up change no bit of its last logits, in any family.
#[test]
fn filling_up_changes_no_bit() {
    let device = Device::flex();
    let buckets = Buckets::new(1..=64, 0.5, 2).unwrap();
    assert_eq!(buckets.sizes(), [32, 64]);
    for folder in folders() {
        let model = load(&folder, &device);
        let ids: Vec<u32> = tokens(&folder).into_iter().map(|id| id as u32).collect();
        for length in [1, 20, 33, 40] {
            let ids = &ids[..length];
            let want = model.last_logits(ids, &device).unwrap();
            let got = model.last_logits_padded(ids, &buckets, &device).unwrap();
            assert_eq!(got, want, "{length} tokens of {}", folder.display());
        }
        assert!(model.last_logits_padded(&[], &buckets, &device).is_err());
    }
}

/// Steps of two sequences over pages of one pool: the sequence, and the range of its new tokens. The first page of the pool, in which rows
/// without a token could be taken for tokens, is the first sequence's.
const PAGES: [&[u32]; 2] = [&[0, 3], &[2]];
const STEPS: [&[(usize, [usize; 2])]; 4] = [
    &[(0, [0, 19])],
    &[(1, [0, 5])],
    &[(0, [19, 20]), (1, [5, 6])],
    &[(0, [20, 22]), (1, [6, 8])],
];

/// What the steps are filled up to: sequences, and tokens of each.
const SHAPES: [[usize; 2]; 4] = [[1, 24], [3, 8], [4, 1], [2, 5]];

fn spans(step: &[(usize, [usize; 2])]) -> Vec<Span<'static>> {
    let span = |&(of, [start, end]): &(usize, [usize; 2])| Span {
        pages: &PAGES[of][..end.div_ceil(16)],
        start,
        end,
    };
    step.iter().map(span).collect()
}

/// The experts of each row \[rows, K\], for every layer that has experts, and their number.
fn experts(routing: Vec<Routing>) -> Vec<(Vec<Vec<usize>>, usize)> {
    let of = |of: Routing| {
        let ([_, top_k], experts) = (of.indices.dims(), of.experts());
        let indices: Vec<u32> = of.indices.into_data().iter().collect();
        let rows = indices.chunks(top_k);
        let row = |row: &[u32]| row.iter().map(|&expert| expert as usize).collect();
        (rows.map(row).collect(), experts)
    };
    routing.into_iter().map(of).collect()
}

/// Rows that fill a step up change no bit of its tokens' logits and of later ones, and go to no expert, in any family.
#[test]
fn filling_up_a_step_changes_no_bit() {
    let device = Device::flex();
    for folder in cached() {
        let (model, tokens, name) = (load(&folder, &device), tokens(&folder), folder.display());
        let empty = || cache(&model, Pages::paged(0, 4, ROOM).unwrap(), &device);
        let (mut plain, mut filled) = (empty(), empty());
        for (step, [rows, length]) in STEPS.into_iter().zip(SHAPES) {
            let spans = spans(step);
            let count = spans[0].end - spans[0].start;
            let own = spans.iter().flat_map(|of| &tokens[of.start..of.end]);
            let own: Vec<i32> = own.copied().collect();
            let mut all = vec![3; rows * length];
            for (row, own) in all.chunks_mut(length).zip(own.chunks(count)) {
                row[..count].copy_from_slice(own);
            }
            let last = count.min(2);
            let own = ids(&own, spans.len(), &device);
            let want = model.last_few_of(own, last, &spans, &mut plain).unwrap();
            let all = ids(&all, rows, &device);
            let got = model.last_few_of_padded(all, last, &spans, &mut filled);
            let got = got.unwrap();
            let logits = bits(got.logits);
            assert_eq!(logits[..spans.len() * last], bits(want.logits), "{name}");
            let routing = experts(got.routing).into_iter().zip(experts(want.routing));
            for ((got, number), (want, _)) in routing {
                for (row, got) in got.iter().enumerate() {
                    let (sequence, at) = (row / length, row % length);
                    if sequence < spans.len() && at < count {
                        assert_eq!(*got, want[sequence * count + at], "{name}, row {row}");
                    } else {
                        assert!(got.iter().all(|&of| of == number), "{name}, row {row}");
                    }
                }
            }
        }
        let one = || ids(&tokens[..1], 1, &device);
        let refused = |spans: &[Span<'_>], last, cache: &mut Cache| {
            model.last_few_of_padded(one(), last, spans, cache).is_err()
        };
        assert!(refused(&[], 1, &mut filled));
        assert!(refused(&spans(STEPS[2]), 1, &mut filled));
        assert!(refused(&spans(STEPS[0]), 1, &mut filled));
        assert!(refused(&spans(&[(1, [8, 8])]), 1, &mut filled));
        assert!(refused(&spans(&[(1, [8, 9])]), 2, &mut filled));
    }
}

/// On a device that records gradients a pass trains routers that balance themselves; one that is filled up trains none.
#[test]
fn filling_up_trains_no_router() {
    let device = Device::flex().autodiff();
    let folder = named("decoder_deepseek_v3");
    let (model, tokens) = (load(&folder, &device), tokens(&folder));
    let biases = || {
        let bias = |of: &FeedForward| match of {
            FeedForward::Experts(layer) => match &layer.router {
                Router::SigmoidBias(router) => Some(router.bias.value().into_data()),
                _ => None,
            },
            _ => None,
        };
        let layers = model.blocks.iter().map(|block| &block.feed_forward);
        layers.filter_map(bias).collect::<Vec<TensorData>>()
    };
    let before = biases();
    assert!(!before.is_empty());
    let buckets = Buckets::doubling(8, 64).unwrap();
    let text: Vec<u32> = tokens[..20].iter().map(|&id| id as u32).collect();
    model.last_logits_padded(&text, &buckets, &device).unwrap();
    let pages = Pages::paged(0, 4, ROOM).unwrap();
    let mut cache = cache(&model, pages, &Device::flex());
    let mut row = tokens[..19].to_vec();
    row.resize(24, 0);
    let step = model.last_few_of_padded(ids(&row, 1, &device), 1, &spans(STEPS[0]), &mut cache);
    step.unwrap();
    assert_eq!(biases(), before);
    model.last_logits(&text, &device).unwrap();
    assert_ne!(biases(), before, "an ordinary pass trains them");
}
