//! Tests of programs: what compilation refuses, what an executable tells, and what is kept of it.

use std::fs;

use moebius_pjrt::{
    Cached, Code, CompileOptions, DiskCache, Donate, ElementType, Error, TensorType, Topology,
    Value, program_counts,
};

use super::{ONE_TO_FOUR, client, code, compile, f32s, plugin, read, sum, sum_text, vector};

fn refused(text: &str, options: &CompileOptions) -> Error {
    client().compile(text, options, Vec::new()).unwrap_err()
}

fn message(error: &Error) -> &str {
    match error {
        Error::Plugin { message, .. } => message,
        other => panic!("not the plugin's: {other}"),
    }
}

#[test]
fn mistakes_in_a_text_are_told_with_their_place() {
    let body = |body: &str| {
        format!("func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n}}")
    };
    let texts = [
        ("not a program at all".to_owned(), "-:1:1"),
        (body("%0 = stablehlo.no_such %a : tensor<2xf32>"), "-:2:"),
        (body("%0 = stablehlo.add %a, %b : tensor<2xf32>"), "-:2:"),
        (body("%0 = stablehlo.add %a, %a : tensor<3xf32>"), "-:2:"),
        (body("return %a : tensor<2xf32>")[..40].to_owned(), "-:1:"),
    ];
    for (text, place) in texts {
        let error = refused(&text, &CompileOptions::default());
        assert_eq!(error.code(), Some(Code::Unknown), "{error}");
        assert!(message(&error).contains(place), "{error}");
    }
    for text in ["", "\0", "module {}"] {
        let error = refused(text, &CompileOptions::default());
        assert!(message(&error).contains("main"), "{error}");
    }
}

#[test]
fn what_the_plugin_does_not_have_is_an_error() {
    let call = "func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.custom_call @nowhere(%a) {api_version = 4 : i32} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }";
    assert_eq!(
        refused(call, &CompileOptions::default()).code(),
        Some(Code::NotFound)
    );
    for options in [
        CompileOptions::new(9, 1).unwrap(),
        CompileOptions::new(1, 9).unwrap(),
        CompileOptions::on_device(77).unwrap(),
    ] {
        let error = refused(&sum_text(""), &options);
        assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
    }
    let complex = "func.func public @main() -> tensor<2xcomplex<f32>> {
        %0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>
        return %0 : tensor<2xcomplex<f32>>
      }";
    let error = refused(complex, &CompileOptions::default());
    assert!(matches!(error, Error::UnknownElementType(14)), "{error}");
    assert_eq!(
        code(Topology::create(plugin(), "cpu", &[])),
        Code::Unimplemented
    );
}

#[test]
fn texts_that_overflow_a_small_stack_compile() {
    let branches = |depth: usize| {
        let mut text = "stablehlo.return %a : tensor<f32>".to_owned();
        for i in 0..depth {
            let result = if i + 1 == depth {
                "return"
            } else {
                "stablehlo.return"
            };
            text = format!(
                "%x{i} = \"stablehlo.if\"(%p) ({{ {text} }}, {{ stablehlo.return %a : tensor<f32> }})
                   : (tensor<i1>) -> tensor<f32>
                 {result} %x{i} : tensor<f32>"
            );
        }
        format!(
            "func.func public @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {{ {text} }}"
        )
    };
    let inputs = [TensorType::new([], ElementType::Pred), f32s([])];
    compile(&branches(120), inputs);
}

#[test]
fn memory_that_is_not_there_is_an_error_of_the_execution() {
    let large = "tensor<1000000x1000000xf32>";
    let result = format!(
        "func.func public @main() -> {large} {{
           %0 = stablehlo.constant dense<1.0> : tensor<f32>
           %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> {large}
           return %1 : {large}
         }}"
    );
    let program = compile(&result, []);
    assert_eq!(
        program.executable().memory().unwrap().outputs,
        4_000_000_000_000
    );
    // A plugin that is busy tells by the result's event, and not by the call.
    let executed = program.execute(&[], Donate::Marked);
    let ended = executed.and_then(|results| results[0].ready()?.wait());
    assert_eq!(code(ended), Code::ResourceExhausted);
    let between = format!(
        "func.func public @main() -> tensor<f32> {{
           %0 = stablehlo.iota dim = 0 : {large}
           %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : ({large}, {large}) -> {large}
           %c = stablehlo.constant dense<0.0> : tensor<f32>
           %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0, 1]
             : ({large}, tensor<f32>) -> tensor<f32>
           return %2 : tensor<f32>
         }}"
    );
    // This memory is allocated after the execution has begun, so the results carry the error.
    let begun = compile(&between, []).execute(&[], Donate::Marked).unwrap();
    let error = begun[0].read().unwrap_err();
    assert!(message(&error).contains("Out of memory"), "{error}");
    assert!(begun[0].ready().unwrap().wait().is_err());
    let next = sum_text("").replace("4x", "");
    let error =
        compile(&next, [f32s([]), f32s([])]).execute(&[&begun[0], &begun[0]], Donate::Marked);
    let error = error.and_then(|result| result[0].read()).unwrap_err();
    assert!(message(&error).contains("Out of memory"), "{error}");
}

#[test]
fn a_compiled_program_says_what_it_needs() {
    let text = "module @named {
        func.func public @main(%w: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<512x512xf32>)
            -> (tensor<512x512xf32>, tensor<ui8>) {
          %0 = stablehlo.subtract %w, %g : tensor<512x512xf32>
          %1 = stablehlo.constant dense<1> : tensor<ui8>
          return %0, %1 : tensor<512x512xf32>, tensor<ui8>
        }
      }";
    let matrix = f32s([512, 512]);
    let program = compile(text, [matrix.clone(), matrix.clone()]);
    let byte = TensorType::new([], ElementType::U8);
    assert_eq!(program.outputs().collect::<Vec<_>>(), [&matrix, &byte]);
    let executable = program.executable();
    assert_eq!(executable.outputs().unwrap(), [matrix, byte]);
    assert_eq!(executable.name().unwrap(), "named");
    let (memory, mebibyte) = (executable.memory().unwrap(), 1 << 20);
    assert_eq!((memory.arguments, memory.aliased), (2 * mebibyte, mebibyte));
    assert!(
        memory.outputs > mebibyte && memory.peak >= 2 * mebibyte,
        "{memory:?}"
    );
    let cost = executable.cost().unwrap();
    let flops = cost.iter().find(|(name, _)| name == "flops").unwrap();
    assert_eq!(flops.1, Value::Float(512.0 * 512.0));
    assert!(executable.memory().unwrap().outputs > 0);
    let optimized = executable.optimized().unwrap();
    assert_eq!(optimized.format, "hlo_with_config");
    assert!(optimized.code.windows(5).any(|part| part == b"named"));
    let print = |program: &str| {
        compile(program, [f32s([4]), f32s([4])])
            .executable()
            .fingerprint()
            .unwrap()
    };
    let (same, other) = (sum_text(""), sum_text("").replace("add", "multiply"));
    assert_eq!(print(&same), print(&same));
    assert_ne!(print(&same), print(&other));
}

#[test]
fn programs_without_arguments_or_results_run() {
    let nothing = "func.func public @main(%a: tensor<4xf32>) { return }";
    let nothing = compile(nothing, [f32s([4])]);
    assert!(
        nothing
            .execute(&[&vector(&ONE_TO_FOUR)], Donate::Marked)
            .unwrap()
            .is_empty()
    );
    let empty = "func.func public @main() -> (tensor<0x3xf32>, tensor<f32>) {
        %0 = stablehlo.constant dense<1.0> : tensor<0x3xf32>
        %1 = stablehlo.constant dense<2.0> : tensor<f32>
        return %0, %1 : tensor<0x3xf32>, tensor<f32>
      }";
    let results = compile(empty, []).execute(&[], Donate::Marked).unwrap();
    assert_eq!((read(&results[0]), read(&results[1])), (vec![], vec![2.0]));
}

#[test]
fn a_program_is_serialised_and_loaded_again() {
    let signature = vec![f32s([4]), f32s([4])];
    let bytes = sum().executable().serialize().unwrap();
    let loaded = client().deserialize(&bytes, signature.clone()).unwrap();
    let a = vector(&ONE_TO_FOUR);
    let result = loaded.execute(&[&a, &a], Donate::Marked).unwrap();
    assert_eq!(read(&result[0]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(loaded.inputs(), signature);
    assert_eq!(loaded.outputs().collect::<Vec<_>>(), [&f32s([4])]);
    // The plugin itself ends the process at one in twenty changed bytes.
    let mut changed = bytes.clone();
    for at in (0..bytes.len()).step_by(97) {
        changed[at] ^= 0x55;
        let error = client()
            .deserialize(&changed, signature.clone())
            .unwrap_err();
        assert!(
            matches!(error, Error::Serialized { .. }),
            "byte {at}: {error}"
        );
        changed[at] ^= 0x55;
    }
    for cut in [&[][..], &bytes[..50], &bytes[..bytes.len() - 1], &[7; 1000]] {
        let error = client().deserialize(cut, signature.clone()).unwrap_err();
        assert!(matches!(error, Error::Serialized { .. }), "{error}");
    }
}

#[test]
fn the_disk_keeps_programs_and_survives_what_happens_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path(), 1 << 20).unwrap();
    let a = vector(&ONE_TO_FOUR);
    let run = |cache: &DiskCache, text: &str, options: &CompileOptions| {
        let signature = vec![f32s([4]), f32s([4])];
        let (program, cached) = cache
            .compile_cached(client(), text, options, signature)
            .unwrap();
        if program.devices()[0].index() == 0 {
            let result = program.execute(&[&a, &a], Donate::Marked).unwrap();
            assert_eq!(read(&result[0]), [2.0, 4.0, 6.0, 8.0]);
        }
        cached
    };
    let (text, options) = (sum_text(""), CompileOptions::default());
    let before = program_counts();
    assert!(matches!(run(&cache, &text, &options), Cached::Miss));
    let between = program_counts();
    assert!(matches!(run(&cache, &text, &options), Cached::Hit));
    // Other tests count programs at the same time.
    assert!(between.compiled > before.compiled && program_counts().loaded > between.loaded);
    assert!(matches!(
        run(&cache, &format!("{text} "), &options),
        Cached::Miss
    ));
    let other = CompileOptions::on_device(1).unwrap();
    assert!(matches!(run(&cache, &text, &other), Cached::Miss));
    assert!(matches!(run(&cache, &text, &other), Cached::Hit));

    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path(), 1 << 20).unwrap();
    run(&cache, &text, &options);
    let file = folder
        .path()
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let harm = [&whole[..whole.len() / 2], &[], b"something else", &changed];
    for content in harm {
        fs::write(&file, content).unwrap();
        assert!(matches!(run(&cache, &text, &options), Cached::Miss));
        assert!(matches!(run(&cache, &text, &options), Cached::Hit));
    }
    let tiny = DiskCache::new(folder.path(), 10).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(matches!(
        run(&tiny, &text, &options),
        Cached::NotKept(Error::Io { .. })
    ));
    // A mistake in the text is an error whatever the cache holds.
    let wrong = cache.compile_cached(client(), "wrong", &options, Vec::new());
    assert_eq!(code(wrong), Code::Unknown);
}
