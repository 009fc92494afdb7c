//! How Burn's walks, records and adapters treat a weight.

use burn::module::{Lora, Module, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor};
use moebius::blocks::{BlockFormat, BlockLayout, BlockTensor};
use moebius::fp8::training::{Fp8Recipe, products, update};
use moebius::fp8::{Fp8Format, Granularity, Precision, Quantizer, Weight};
use moebius::nn::{Linear, LinearConfig};

fn e4m3() -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, Granularity::Row)
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

/// Burn's own walks, which know nothing of precisions, keep them.
#[test]
fn walks_keep_the_precision() {
    let device = Device::flex().autodiff();
    let config = LinearConfig::new(32, 3).with_bias(false);
    let trained = config.with_fp8(Some(Fp8Recipe::delayed()));
    let kept = |layer: Linear, precision| {
        let layers = [
            layer.clone().no_grad(),
            layer.valid().train(),
            layer.clone().fork(&device),
            layer.load_record(config_record(precision, &device)),
        ];
        assert!(layers.iter().all(|l| l.weight.precision() == precision));
    };
    kept(config.init(&device).unwrap(), Precision::Float);
    kept(trained.init(&device).unwrap(), Precision::Fp8Training);
    let codes = config.init(&device).unwrap().quantize(&e4m3()).unwrap();
    kept(codes, Precision::Fp8);
    let sparse = config.init(&device).unwrap().sparsify().unwrap();
    kept(sparse, Precision::Sparse24);
    let layer = config.init(&device).unwrap();
    kept(in_precision(layer, Precision::Blocks), Precision::Blocks);
}

fn config_record(precision: Precision, device: &Device) -> ModuleRecord {
    let layer = LinearConfig::new(32, 3).with_bias(false);
    let layer = match precision {
        Precision::Fp8Training => layer.with_fp8(Some(Fp8Recipe::delayed())),
        _ => layer,
    };
    let layer = layer.init(device).unwrap();
    in_precision(layer, precision).into_record()
}

/// The layer in a precision that takes the place of its values.
fn in_precision(layer: Linear, precision: Precision) -> Linear {
    match precision {
        Precision::Fp8 => layer.quantize(&e4m3()).unwrap(),
        Precision::Sparse24 => layer.sparsify().unwrap(),
        Precision::Blocks => {
            let layout = BlockLayout {
                shape: [1, 3, 32],
                format: BlockFormat::Q8_0,
            };
            let blocks = BlockTensor::from_bytes(&[0; 3 * 34], layout, &layer.weight.device());
            Linear::new(Weight::from_blocks(blocks.unwrap()).unwrap(), None).unwrap()
        }
        Precision::Float | Precision::Fp8Training => layer,
    }
}

/// A record of one precision can't be loaded into a weight of another.
#[test]
fn records_of_other_precisions_are_refused() {
    let device = Device::flex();
    let all = [
        Precision::Float,
        Precision::Fp8Training,
        Precision::Fp8,
        Precision::Sparse24,
        Precision::Blocks,
    ];
    for from in all {
        for into in all {
            let target = LinearConfig::new(32, 3).with_bias(false);
            let target = match into {
                Precision::Fp8Training => target.with_fp8(Some(Fp8Recipe::delayed())),
                _ => target,
            };
            let target = in_precision(target.init(&device).unwrap(), into);
            let loaded = target.try_load_record(config_record(from, &device));
            assert_eq!(loaded.is_ok(), from == into, "{from:?} into {into:?}");
        }
    }
}

#[test]
fn what_is_folded_is_in_floating_point() {
    let device = Device::flex();
    let values = Tensor::<2>::from_floats([[1.0, 0.5], [-2.0, 0.0]], &device);
    let weight = Weight::from(Param::from_tensor(values.clone()));
    let (codes, error) = weight.quantize(&e4m3()).unwrap();
    assert!(error < 1e-6, "{error}");
    let trained = weight.in_fp8(Fp8Recipe::current()).unwrap();
    for weight in [codes, trained] {
        assert_ne!(weight.precision(), Precision::Float);
        assert_eq!(floats(weight.values().unwrap()), floats(values.clone()));
        let folded = weight.materialize();
        assert_eq!(folded.precision(), Precision::Float);
        assert_eq!(floats(folded.values().unwrap()), floats(values.clone()));
    }
}

#[test]
fn adapters_of_burn_work_on_floats() {
    let device = Device::flex().autodiff();
    let layer = LinearConfig::new(4, 3).init(&device).unwrap();
    let x = Tensor::<2>::ones([2, 4], &device);
    let y = floats(layer.forward(x.clone()).unwrap());
    let adapted = layer.apply_lora(Lora::new(2, 4.0));
    // The second factor begins with zeros.
    assert_eq!(floats(adapted.forward(x).unwrap()), y);
    assert!(adapted.num_params() > 15);
}

/// The walk of an update finds the scales of every weight, and codes don't train.
#[test]
fn an_update_reaches_every_weight() {
    let device = Device::flex().autodiff();
    let config = LinearConfig::new(4, 4).with_fp8(Some(Fp8Recipe::delayed()));
    let layers: Vec<Linear> = (0..2).map(|_| config.init(&device).unwrap()).collect();
    let x = Tensor::<2>::full([2, 4], 3.0, &device);
    let y = layers.iter().try_fold(x, |x, layer| layer.forward(x));
    update(&layers, &y.unwrap().sum().backward(), None);
    let products = products(&layers);
    assert_eq!(products.len(), 2);
    for product in products {
        let scales = product.state.unwrap().scales.value();
        assert_ne!(floats(scales), [1.0; 3]);
    }
    let codes = layers[0].weight.quantize(&e4m3()).unwrap().0;
    assert!(codes.in_fp8(Fp8Recipe::delayed()).is_err());
}
