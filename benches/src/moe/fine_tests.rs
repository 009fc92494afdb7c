use super::*;
use burn::tensor::DType;
use moebius::Device;

#[test]
fn both_layers_do_the_same_work() {
    let bench = |hidden| MoeBench {
        hidden,
        inter: Some(1),
        experts: 1,
        top_k: 1,
        batch: 1,
        seq: 1,
        dtype: DType::F32,
        gated: true,
        variant: None,
        device: Device::Flex,
        peer: Some(crate::BenchPeer::Torch),
    };
    let [coarse, fine] = layers(&bench(48)).expect("an even width");
    assert_eq!(coarse.top_k * coarse.inter(), fine.top_k * fine.inter());
    assert!(layers(&bench(3)).is_err() && layers(&bench(usize::MAX - 1)).is_err());
}
