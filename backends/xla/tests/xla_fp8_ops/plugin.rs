use moebius_xla::ElementType;
use moebius_xla::custom::Call;
use moebius_xla::stablehlo::{Builder, TensorType, Value};
use pjrt_sample::{Api, compile_options};

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub ty: TensorType,
    pub bytes: Vec<u8>,
}
include!("host.rs");
pub fn call(call: &Call, inputs: &[Host]) -> Vec<Host> {
    let unpacked = Call::unpack(&call.pack()).expect("a descriptor survives its scalars");
    assert_eq!(&unpacked, call);
    let types: Vec<TensorType> = inputs.iter().map(|input| input.ty.clone()).collect();
    let mut b = Builder::new();
    let arguments: Vec<Value> = types.iter().map(|ty| b.argument(ty.clone())).collect();
    let results = call.lower(&mut b, &arguments);
    let program = b.finish(&results);
    let plugin = std::env::var("PLUGIN").unwrap();
    let api = Api::load(&plugin).unwrap();
    let client = api.client(&[]).unwrap();
    let dev = client.devices().unwrap()[0];
    let exe = client.compile(program.text.as_bytes(), "mlir", &compile_options(1, 1));
    let exe = exe.unwrap_or_else(|e| panic!("{e}\n{}", program.text));
    let code = |t: ElementType| match t {
        ElementType::Pred => 1,
        ElementType::S32 => 4,
        ElementType::S64 => 5,
        ElementType::U8 => 6,
        ElementType::U32 => 8,
        ElementType::F16 => 10,
        ElementType::F32 => 11,
        ElementType::BF16 => 13,
        _ => panic!(),
    };
    let bufs: Vec<_> = inputs
        .iter()
        .map(|i| {
            let d: Vec<i64> = i.ty.shape.iter().map(|d| *d as i64).collect();
            client
                .upload(dev, code(i.ty.element), &d, &i.bytes, 0)
                .unwrap()
        })
        .collect();
    let refs: Vec<_> = bufs.iter().collect();
    let out = exe.run(&refs).unwrap();
    out.iter()
        .zip(program.outputs)
        .map(|(o, ty)| Host {
            bytes: o.download().unwrap(),
            ty,
        })
        .collect()
}
