//! Attention over a sequence whose chunks lie in several queues of a device, or on several devices, equals the reference
//! over the whole sequence.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius::ErrorKind;
use moebius::attention::{Attend, Attended, Ring};
use moebius_ops::Element;
use moebius_ops::attention::{
    Gradients, Inputs, Problem, Rule, Rules, Sizes, Tables, alibi_slopes, reference,
    reference_backward,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::{exact, floats};
use moebius_tests::refusal::assert_refused;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};

const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 4,
    kv_heads: 2,
    queries: 24,
    keys: 24,
    head_dim: 8,
    value_dim: 6,
};

/// Rules under which chunks of 6 and 8 tokens are visible in full, in part or not at all, and whether there are sinks.
fn cases() -> Vec<(Vec<Rule>, bool)> {
    vec![
        (vec![], true),
        (vec![Rule::Alibi, Rule::Causal], false),
        (vec![Rule::Window(7)], true),
        (vec![Rule::Softcap(2.0), Rule::SymmetricWindow(5)], false),
        (
            vec![Rule::Relative(9), Rule::Softcap(2.0), Rule::Causal],
            true,
        ),
        (vec![Rule::Documents, Rule::Causal], false),
        (vec![Rule::Dilated(5), Rule::Relative(2)], false),
    ]
}

/// The inputs of an attention on the host, and the gradient of o.
struct Given {
    problem: Problem,
    qkv: [Vec<f32>; 3],
    d_o: Vec<f32>,
    documents: Vec<u32>,
    relative: Vec<f32>,
    sinks: Vec<f32>,
}

impl Given {
    fn new(rules: Vec<Rule>, sinks: bool) -> Self {
        let rules = Rules::new(rules).unwrap();
        let problem = Problem::new(SIZES).unwrap().with_sinks(sinks);
        let mut rng = Rng::new(11);
        let s = SIZES;
        let heads = [
            (s.heads, s.head_dim),
            (s.kv_heads, s.head_dim),
            (s.kv_heads, s.value_dim),
        ];
        let qkv = heads.map(|(heads, dim)| rng.vec(s.batch * s.keys * heads * dim, 2.0));
        let table = rules.relative().map_or(0, |n| s.heads * (2 * n + 1));
        Self {
            problem: problem.with_rules(rules).unwrap(),
            qkv,
            d_o: rng.vec(s.batch * s.heads * s.queries * s.value_dim, 1.0),
            // Documents of seven tokens, so that some span two chunks.
            documents: (0..48).map(|token| token % 24 / 7).collect(),
            relative: rng.vec(table, 2.0),
            sinks: rng.vec(if sinks { s.heads } else { 0 }, 2.0),
        }
    }

    /// The reference's results and gradients for the whole sequence.
    fn want(&self) -> (moebius_ops::attention::Attended, Gradients) {
        let [q, k, v] = [0, 1, 2].map(|at: usize| exact(&self.qkv[at]));
        let [d_o, relative, sinks] = [&self.d_o, &self.relative, &self.sinks].map(|x| exact(x));
        let slopes = exact(&alibi_slopes(SIZES.heads));
        let tables = Tables {
            query_documents: &self.documents,
            key_documents: &self.documents,
            slopes: &slopes,
            relative: &relative,
            sinks: &sinks,
            ..Tables::default()
        };
        let inputs = Inputs {
            q: &q,
            k: &k,
            v: &v,
            tables,
        };
        let d_lse = vec![0.0; self.problem.query_rows()];
        let gradients = reference_backward(&self.problem, &inputs, &d_o, &d_lse);
        (reference(&self.problem, &inputs), gradients)
    }

    fn rows(&self, at: usize, device: &Device) -> Tensor<4> {
        let s = SIZES;
        let (values, heads, width) = match at {
            0 => (&self.qkv[0], s.heads, s.head_dim),
            1 => (&self.qkv[1], s.kv_heads, s.head_dim),
            2 => (&self.qkv[2], s.kv_heads, s.value_dim),
            _ => (&self.d_o, s.heads, s.value_dim),
        };
        let data = TensorData::new(values.clone(), [s.batch, heads, s.keys, width]);
        Tensor::from_data(data, device)
    }

    fn qkv(&self, device: &Device) -> [Tensor<4>; 3] {
        [0, 1, 2].map(|at| self.rows(at, device))
    }

    fn relative(&self, device: &Device) -> Tensor<2> {
        let shape = [SIZES.heads, self.relative.len() / SIZES.heads];
        let table = TensorData::new(self.relative.clone(), shape);
        Tensor::from_data(table, device)
    }

    fn sinks(&self, device: &Device) -> Tensor<1> {
        Tensor::from_floats(&self.sinks[..], device)
    }

    fn attend(&self, relative: &Tensor<2>, sinks: &Tensor<1>, device: &Device) -> Attend {
        let ids: Vec<i32> = self.documents.iter().map(|id| *id as i32).collect();
        let ids = TensorData::new(ids, [SIZES.batch, SIZES.keys]);
        let ids = || Tensor::<2, Int>::from_data(ids.clone(), device);
        let mut attend = Attend::new();
        for rule in self.problem.rules().iter() {
            attend = match rule {
                Rule::Causal => attend.causal(),
                Rule::Window(w) => attend.window(w as usize),
                Rule::SymmetricWindow(w) => attend.symmetric_window(w as usize),
                Rule::Dilated(d) => attend.dilated(d as usize),
                Rule::Softcap(cap) => attend.softcap(cap),
                Rule::Alibi => attend.alibi(),
                Rule::Documents => attend.documents(ids(), ids()),
                Rule::Relative(_) => attend.relative(relative.clone()),
                other => panic!("no case has {other:?}"),
            };
        }
        if self.problem.sinks() {
            attend.sinks(sinks.clone())
        } else {
            attend
        }
    }
}

fn open(name: &str) -> Device {
    moebius::open(&name.parse().unwrap()).unwrap()
}

/// The results o and lse, and the gradients with their names.
type Found = (Attended, Vec<(&'static str, Vec<f32>)>);

/// Runs the ring over queues of these devices, with tensors on the first one and gradients by Burn.
fn by_queues(given: &Given, devices: &[Device]) -> Found {
    let device = devices[0].clone().autodiff();
    let relative = given.relative(&device).require_grad();
    let sinks = given.sinks(&device).require_grad();
    let attend = given.attend(&relative, &sinks, &device);
    let [q, k, v] = given.qkv(&device).map(Tensor::require_grad);
    let ring = Ring::new(devices).unwrap();
    let out = ring.forward(&attend, q.clone(), k.clone(), v.clone());
    let out = out.unwrap();
    assert_eq!(out.o.device(), device);
    let found = (out.o.clone() * given.rows(3, &device)).sum().backward();
    let of = |x: &Tensor<4>| floats(x.grad(&found).unwrap());
    let mut gradients = vec![("dq", of(&q)), ("dk", of(&k)), ("dv", of(&v))];
    let rules = given.problem.rules();
    if rules.relative().is_some() {
        gradients.push(("drelative", floats(relative.grad(&found).unwrap())));
    }
    if given.problem.sinks() {
        gradients.push(("dsinks", floats(sinks.grad(&found).unwrap())));
    }
    (out, gradients)
}

fn compare(what: &str, given: &Given, (out, gradients): Found) {
    let (want, expected) = given.want();
    let what = format!("{:?} {what}", given.problem.rules());
    let tolerance = rel_l2(Element::F32);
    assert_close(&what, &floats(out.o), &want.o, tolerance);
    assert_close(&what, &floats(out.lse), &want.lse, tolerance);
    let named = [
        ("dq", &expected.dq),
        ("dk", &expected.dk),
        ("dv", &expected.dv),
        ("drelative", &expected.drelative),
        ("dsinks", &expected.dsinks),
    ];
    for (name, want) in named.into_iter().filter(|(_, want)| !want.is_empty()) {
        let (_, got) = gradients.iter().find(|(other, _)| *other == name).unwrap();
        assert_gradient(&format!("{name} of {what}"), got, want, Element::F32);
    }
}

#[test]
fn queues_of_a_device_compute_what_the_whole_is() {
    for name in ["cpu", "flex", "wgpu"] {
        let queues = [(); 3].map(|()| open(name));
        for (rules, sinks) in cases() {
            let given = Given::new(rules, sinks);
            compare(name, &given, by_queues(&given, &queues));
        }
    }
}

#[test]
fn places_may_be_on_different_devices() {
    let devices = ["flex", "cpu", "flex", "cpu"].map(open);
    for (rules, sinks) in cases() {
        let given = Given::new(rules, sinks);
        let device = &devices[0];
        let attend = given.attend(&given.relative(device), &given.sinks(device), device);
        let [q, k, v] = given.qkv(device);
        let out = Ring::new(&devices).unwrap().forward(&attend, q, k, v);
        let (want, _) = given.want();
        let o = floats(out.unwrap().o);
        assert_close("o on two devices", &o, &want.o, rel_l2(Element::F32));
    }
}

#[test]
fn results_repeat_bit_for_bit() {
    let bits = |(out, gradients): Found| -> Vec<u32> {
        let all = [floats(out.o), floats(out.lse)].into_iter();
        let all = all.chain(gradients.into_iter().map(|(_, values)| values));
        all.flatten().map(f32::to_bits).collect()
    };
    let given = Given::new(vec![Rule::Relative(9), Rule::Causal], true);
    let queues = [(); 3].map(|()| open("cpu"));
    let run = || bits(by_queues(&given, &queues));
    assert_eq!(run(), run());
}

#[test]
fn halves_are_merged_in_f32() {
    let given = Given::new(vec![Rule::Causal], false);
    let attend = Attend::new().causal();
    let device = open("cpu");
    let [q, k, v] = given.qkv(&device).map(|x| x.cast(DType::BF16));
    let whole = attend.forward(q.clone(), k.clone(), v.clone()).unwrap();
    let want = exact(&floats(whole.o));
    let queues = Ring::new(&[(); 3].map(|()| device.clone())).unwrap();
    let out = queues.forward(&attend, q, k, v).unwrap();
    assert_eq!([out.o.dtype(), out.lse.dtype()], [DType::BF16, DType::F32]);
    assert_close("o in bf16", &floats(out.o), &want, rel_l2(Element::Bf16));
}

#[test]
fn what_chunks_cannot_tell_is_refused() {
    let device = open("flex");
    let zeros = |tokens: usize| Tensor::<4>::zeros([1, 2, tokens, 8], &device);
    let queues = Ring::new(&[(); 4].map(|()| device.clone())).unwrap();
    let got = |kind, attend: Attend, queries: usize, keys: usize| {
        let out = queues.forward(&attend, zeros(queries), zeros(keys), zeros(keys));
        assert_refused(kind, out)
    };
    let bias = Tensor::<4>::zeros([1, 1, 8, 8], &device);
    let attend = Attend::new;
    let rule = "rule of a sequence in chunks: expected one that follows from distances, documents or scores, got";
    let table = "rule of a sequence in chunks: expected one without a table of pairs, got";
    let cases = [
        (attend().prefix(3), format!("{rule} prefix")),
        (attend().global(1, 2), format!("{rule} global")),
        (
            attend().causal_top_left(),
            format!("{rule} causal_top_left"),
        ),
        (attend().bias(bias), format!("{table} bias")),
        (
            attend().dropout(0.5, 3),
            "dropout of a sequence in chunks: expected none, got some".into(),
        ),
        (
            attend().position(4),
            "position of a sequence in chunks: expected none, got 4".into(),
        ),
    ];
    for (attend, expected) in cases {
        assert_eq!(got(ErrorKind::Unsupported, attend, 8, 8), expected);
    }
    for (tokens, expected) in [
        ([6, 6], "tokens: expected a multiple of 4 places, got 6"),
        ([8, 12], "tokens of k: expected 8, got 12"),
        ([0, 0], "tokens: expected at least 1, got 0"),
    ] {
        let [queries, keys] = tokens;
        assert_eq!(got(ErrorKind::Shape, attend(), queries, keys), expected);
    }
}

#[test]
fn chunks_that_are_elsewhere_are_refused() {
    let [flex, cpu] = ["flex", "cpu"].map(open);
    let none = assert_refused(ErrorKind::Config, Ring::new(&[]));
    assert_eq!(none, "devices of a ring: expected at least 1, got 0");
    let ring = Ring::new(&[flex.clone(), cpu.clone()]).unwrap();
    let chunk = |tokens: usize, device: &Device| {
        [(); 3].map(|()| Tensor::<4>::zeros([1, 2, tokens, 8], device))
    };
    let forward = |chunks| ring.forward_chunks(&Attend::new(), chunks);
    assert!(forward(vec![chunk(4, &flex), chunk(4, &cpu)]).is_ok());
    let message = assert_refused(ErrorKind::Shape, forward(vec![chunk(4, &flex)]));
    assert_eq!(message, "chunks of a ring: expected 2, got 1");
    let elsewhere = forward(vec![chunk(4, &flex), chunk(4, &flex)]);
    let message = assert_refused(ErrorKind::Device, elsewhere);
    let begins = message.starts_with("device of a chunk: expected Device");
    assert!(begins, "{message}");
    let uneven = forward(vec![chunk(4, &flex), chunk(5, &cpu)]);
    let message = assert_refused(ErrorKind::Shape, uneven);
    assert!(message.starts_with("q of a chunk"), "{message}");
    let halves = chunk(4, &cpu).map(|x| x.cast(DType::BF16));
    let message = assert_refused(ErrorKind::Shape, forward(vec![chunk(4, &flex), halves]));
    assert_eq!(message, "dtype of a chunk: expected F32, got BF16");
}
