//! Programs compiled for TPUs by libtpu, on machines with or without a TPU.
//!
//! libtpu isn't free software and not installed everywhere: without it there are no tests here, and the result says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use moebius_pjrt::{
    Client, Code, CompileOptions, ElementType, Error, Plugin, TensorType, Topology, Value,
};

/// Topologies with their numbers of devices and the kind of each device.
const TOPOLOGIES: &[(&str, usize, &str)] = &[
    ("v5e:1x1", 1, "TPU v5 lite"),
    ("v5e:2x2", 4, "TPU v5 lite"),
    ("v5p:2x2x1", 4, "TPU v5"),
    ("v6e:2x2", 4, "TPU v6 lite"),
    ("tpu7x:2x2x1", 8, "TPU7x"),
];

/// A time limit shorter than the first of the minutes in which libtpu asks a cloud's metadata server.
const WATCHDOG: Duration = Duration::from_secs(30);

fn main() {
    let arguments = Arguments::from_args();
    let Some(plugin) = moebius_tests::target::libtpu() else {
        libtest_mimic::run(&arguments, Vec::new()).exit();
    };
    let mut tests = vec![
        test("client", move || client_without_tpu(plugin)),
        test("names", move || names_that_are_no_topologies(plugin)),
        test("memory", move || memory_that_a_chip_does_not_have(plugin)),
        test("collectives", move || programs_of_four_chips(plugin)),
        test("mistakes", move || mistakes_in_a_text(plugin)),
    ];
    for &(name, count, kind) in TOPOLOGIES {
        let described = move || devices_are_described(plugin, name, count, kind);
        tests.push(test(&format!("{name}::devices"), described));
        for element in [ElementType::F32, ElementType::BF16, ElementType::F8E4M3FN] {
            let compiled = move || a_product_compiles(plugin, name, element);
            tests.push(test(&format!("{name}::{element}"), compiled));
        }
    }
    libtest_mimic::run(&arguments, tests).exit();
}

fn test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    let run = || {
        run();
        Ok(())
    };
    Trial::test(name, run)
}

fn create(plugin: Plugin, name: &str) -> Topology {
    Topology::create(plugin, name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Asking for a client without a TPU gives a client or an error soon; libtpu itself would search for minutes.
fn client_without_tpu(plugin: Plugin) {
    let start = Instant::now();
    match Client::new(plugin, &[]) {
        Ok(client) => assert!(!client.devices().is_empty()),
        Err(Error::Plugin { code, message, .. }) => {
            assert_eq!(code, Code::NotFound, "{message}");
            assert!(start.elapsed() < WATCHDOG, "{:?}", start.elapsed());
        }
        Err(other) => panic!("{other}"),
    }
}

fn devices_are_described(plugin: Plugin, name: &str, count: usize, kind: &str) {
    let topology = create(plugin, name);
    assert_eq!(topology.platform_name(), "tpu");
    assert!(topology.platform_version().contains("TPU"));
    assert_eq!(topology.devices().len(), count);
    for device in topology.devices() {
        assert_eq!(device.kind, kind);
        let mut attributes = device.attributes.iter();
        let limit = attributes.find(|(name, _)| name == "device_memory_bytes_limit");
        // The smallest device has 16 GiB, less what the system reserves.
        assert!(
            matches!(limit, Some((_, Value::Int(bytes))) if *bytes > 15 << 30),
            "{limit:?}"
        );
    }
}

fn a_product_compiles(plugin: Plugin, name: &str, element: ElementType) {
    let [matrix, result] = [element, ElementType::F32].map(|ty| TensorType::new([1024, 1024], ty));
    let text = format!(
        "func.func public @main(%a: {matrix}, %b: {matrix}) -> {result} {{
           %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {result}
           return %0 : {result}
         }}"
    );
    let executable = create(plugin, name)
        .compile(&text, &CompileOptions::default())
        .unwrap();
    let memory = executable.memory().unwrap();
    let (inputs, output) = (2 * matrix.bytes() as u64, result.bytes() as u64);
    let planned = (memory.arguments, memory.outputs, memory.aliased);
    assert_eq!(planned, (inputs, output, 0));
    let enough = memory.code > 0 && memory.peak >= inputs + output;
    assert!(enough, "{memory:?}");
    assert_eq!(executable.outputs().unwrap(), [result]);
    assert!(executable.serialize().unwrap().len() > 1000);
    assert!(!executable.fingerprint().unwrap().is_empty());
}

fn memory_that_a_chip_does_not_have(plugin: Plugin) {
    let large = "tensor<131072x131072xf32>";
    let text = format!(
        "func.func public @main(%a: {large}) -> {large} {{
           %0 = stablehlo.add %a, %a : {large}
           return %0 : {large}
         }}"
    );
    let refused = create(plugin, "v5e:1x1").compile(&text, &CompileOptions::default());
    let error = refused.unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
    let too_much = error.to_string().contains("exceeds available HBM");
    assert!(too_much, "{error}");
}

fn programs_of_four_chips(plugin: Plugin) {
    let sum = "module attributes {mhlo.num_replicas = 4 : i32} {
        func.func public @main(%x: tensor<256xf32>) -> tensor<256xf32> {
          %0 = \"stablehlo.all_reduce\"(%x) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %s = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<256xf32>) -> tensor<256xf32>
          return %0 : tensor<256xf32>
        }
      }";
    let sharded = r#"module attributes {mhlo.num_partitions = 4 : i32} {
        func.func public @main(%x: tensor<64x128xbf16> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
            -> (tensor<64x128xbf16> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
          %0 = stablehlo.add %x, %x : tensor<64x128xbf16>
          return %0 : tensor<64x128xbf16>
        }
      }"#;
    let in_shardys_dialect = r#"module attributes {mhlo.num_partitions = 4 : i32} {
        sdy.mesh @mesh = <["x"=4]>
        func.func public @main(%x: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
            -> (tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
          %0 = stablehlo.add %x, %x : tensor<64x128xbf16>
          return %0 : tensor<64x128xbf16>
        }
      }"#;
    let topology = create(plugin, "v5e:2x2");
    let replicas = CompileOptions::new(4, 1).unwrap();
    let executable = topology.compile(sum, &replicas).unwrap();
    assert_eq!(executable.memory().unwrap().arguments, 1024);
    let partitions = CompileOptions::new(1, 4).unwrap();
    let shardy = partitions.clone().with_shardy();
    for (text, options) in [(sharded, partitions), (in_shardys_dialect, shardy)] {
        let executable = topology.compile(text, &options).unwrap();
        assert_eq!(executable.memory().unwrap().arguments, 16 * 128 * 2);
    }
    let too_many = create(plugin, "v5e:1x1").compile(sum, &replicas);
    assert!(matches!(too_many, Err(Error::CompileOptions { .. })));
}

fn names_that_are_no_topologies(plugin: Plugin) {
    for name in ["v99:2x2", "v5e:3x3"] {
        let error = Topology::create(plugin, name, &[]).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArgument), "{name}: {error}");
    }
    // libtpu divides by these sizes and would end the process.
    for name in ["v5e:0x0", "v5e:2x2x0", "v5e:100000x100000", "nonsense", ""] {
        let refused = Topology::create(plugin, name, &[]);
        assert!(matches!(refused, Err(Error::Topology { .. })), "{name}");
    }
    let hosts = [("chips_per_host_bounds", Value::Ints(vec![1, 1, 1]))];
    let topology = Topology::create(plugin, "v5e:2x2", &hosts).unwrap();
    let processes = topology.devices().iter().map(|device| device.process_index);
    let mut processes: Vec<i32> = processes.collect();
    processes.sort_unstable();
    assert_eq!(processes, [0, 1, 2, 3]);
}

fn mistakes_in_a_text(plugin: Plugin) {
    let topology = create(plugin, "v6e:2x2");
    let options = CompileOptions::default();
    let compile = |text: &str| topology.compile(text, &options).unwrap_err();
    let unknown = compile("func.func public @main() { stablehlo.no_such return }");
    assert!(matches!(unknown, Error::Plugin { .. }), "{unknown}");
    let nested = compile(&"tuple<".repeat(10_000));
    assert!(matches!(nested, Error::Program { .. }), "{nested}");
}
