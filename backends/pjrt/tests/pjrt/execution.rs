//! Tests of executions: arguments, donation, devices, threads.

use moebius_pjrt::{Buffer, Code, CompileOptions, Device, Donate, ElementType, Error, TensorType};

use super::{
    DEVICES, ONE_TO_FOUR, bytes, client, code, compile, device, donating_sum, f32s, new_client,
    read, sum, values, vector,
};

#[test]
fn every_element_type_goes_through_a_program() {
    for element in ElementType::ALL {
        let spec = TensorType::new([3, 2], element);
        let text = format!(
            "func.func public @main(%a: {spec}) -> tensor<2x3x{element}> {{
               %0 = stablehlo.transpose %a, dims = [1, 0] : ({spec}) -> tensor<2x3x{element}>
               return %0 : tensor<2x3x{element}>
             }}"
        );
        let program = compile(&text, [spec.clone()]);
        let output = TensorType::new([2, 3], element);
        assert_eq!(program.outputs().collect::<Vec<_>>(), [&output]);
        let width = element.bytes();
        let row = |i: usize| vec![u8::from(i % 2 == 1); width];
        let host: Vec<u8> = (0..6).flat_map(row).collect();
        let buffer = Buffer::from_host(&device(), &spec, &host).unwrap();
        let result = program.execute(&[&buffer], Donate::Marked).unwrap();
        let expected: Vec<u8> = [0, 2, 4, 1, 3, 5].into_iter().flat_map(row).collect();
        assert_eq!(result[0].read().unwrap(), expected, "{element}");
        assert_eq!(result[0].spec(), &output);
    }
}

#[test]
fn arguments_that_are_not_the_signatures_are_refused() {
    let program = compile(
        "func.func public @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> { return %a : tensor<2x3xf32> }",
        [f32s([2, 3])],
    );
    let on = |spec: &TensorType| Buffer::from_host(&device(), spec, &[0; 24]).unwrap();
    let fits = on(&f32s([2, 3]));
    let run = |arguments: &[&Buffer]| {
        let refused = program.execute(arguments, Donate::Marked).unwrap_err();
        refused.to_string()
    };
    assert_eq!(run(&[]), "the program takes 1 arguments, got 0");
    assert_eq!(run(&[&fits, &fits]), "the program takes 1 arguments, got 2");
    // The plugin itself would accept these types, because they have the same size in bytes.
    for spec in [
        f32s([3, 2]),
        f32s([6]),
        TensorType::new([2, 3], ElementType::S32),
    ] {
        let said = format!("argument 0: expected tensor<2x3xf32>, got {spec}");
        assert_eq!(run(&[&on(&spec)]), said);
    }
    let unknown = program.execute(&[&fits], Donate::AllBut(&[1]));
    assert!(matches!(unknown, Err(Error::ArgumentCount { .. })));
}

#[test]
fn arguments_from_elsewhere_are_refused() {
    let program = sum();
    let fits = vector(&ONE_TO_FOUR);
    let run = |other: &Buffer| {
        let refused = program
            .execute(&[&fits, other], Donate::Marked)
            .unwrap_err();
        refused.to_string()
    };
    let device = client().device(3).unwrap();
    assert_eq!(
        run(&fits.copy_to(&device).unwrap()),
        "argument 1 is on device 3, the program runs on device 0"
    );
    let other = new_client().device(0).unwrap();
    let foreign = Buffer::from_host(&other, &f32s([4]), &[0; 16]).unwrap();
    assert_eq!(run(&foreign), "an argument belongs to another client");
    let copied = fits.copy_to(&other);
    assert!(matches!(copied, Err(Error::OtherClient { .. })));
}

#[test]
fn a_donated_argument_is_gone_and_its_memory_holds_the_result() {
    let program = donating_sum();
    let (a, b) = (vector(&ONE_TO_FOUR), vector(&[1.0; 4]));
    let address = a.address().unwrap();
    let result = program.execute(&[&a, &b], Donate::Marked).unwrap();
    assert_eq!(read(&result[0]), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(result[0].address().unwrap(), address);
    assert!(a.is_deleted().unwrap() && !b.is_deleted().unwrap());
    let elsewhere = client().device(1).unwrap();
    let uses = [
        a.read().map(drop),
        a.clone().to_host(&mut [0; 16]),
        a.device_bytes().map(drop),
        a.address().map(drop),
        a.copy_to(&elsewhere).map(drop),
        program.execute(&[&a, &b], Donate::Marked).map(drop),
        program.execute(&[&b, &a], Donate::Nothing).map(drop),
    ];
    for used in uses {
        let said = "the buffer tensor<4xf32> was donated to an earlier execution";
        assert_eq!(used.unwrap_err().to_string(), said);
    }
    assert!(a.ready().unwrap().wait().is_err());
}

#[test]
fn donation_can_be_declined_and_never_hits_an_argument_twice() {
    let program = donating_sum();
    let a = vector(&ONE_TO_FOUR);
    for kept in [Donate::Nothing, Donate::AllBut(&[0])] {
        let result = program.execute(&[&a, &a], kept).unwrap();
        assert_eq!(read(&result[0]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(read(&a), ONE_TO_FOUR);
    }
    let twice = program.execute(&[&a, &a], Donate::Marked);
    assert_eq!(code(twice), Code::InvalidArgument);
}

/// A program of `rounds` products of a matrix with itself, each scaled back to ones.
fn long_text(rounds: usize) -> String {
    let mut text = "func.func public @main(%0: tensor<512x512xf32>) -> tensor<512x512xf32> {
        %s = stablehlo.constant dense<0.001953125> : tensor<512x512xf32>\n"
        .to_owned();
    for i in 0..rounds {
        let (product, next) = (2 * i + 1, 2 * i + 2);
        text += &format!(
            "%{product} = stablehlo.dot_general %{}, %0, contracting_dims = [1] x [0]
               : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
             %{next} = stablehlo.multiply %{product}, %s : tensor<512x512xf32>\n",
            2 * i
        );
    }
    text + &format!("return %{} : tensor<512x512xf32> }}", 2 * rounds)
}

#[test]
fn executions_return_before_they_end() {
    let spec = f32s([512, 512]);
    let program = compile(&long_text(40), [spec.clone()]);
    let ones = Buffer::from_host(&device(), &spec, &bytes(&vec![1.0; 512 * 512])).unwrap();
    ones.ready().unwrap().wait().unwrap();
    let mut early = 0;
    for _ in 0..5 {
        let first = program.execute(&[&ones], Donate::Marked).unwrap().remove(0);
        let ready = first.ready().unwrap();
        early += usize::from(!ready.is_ready().unwrap());
        // The result is used as an argument before it is computed; only the read waits.
        let second = program
            .execute(&[&first], Donate::Marked)
            .unwrap()
            .remove(0);
        drop(second.read_async().unwrap());
        let pending = second.read_async().unwrap();
        drop((first, second));
        assert!(
            values(&pending.wait().unwrap())
                .iter()
                .all(|&value| value == 1.0)
        );
        ready.wait().unwrap();
        ready.wait().unwrap();
        assert!(ready.is_ready().unwrap());
    }
    assert!(
        early > 0,
        "80 products of 512 x 512 were done before the call returned"
    );
}

#[test]
fn all_devices_run_one_program() {
    let options = CompileOptions::new(DEVICES as usize, 1).unwrap();
    let text = "module attributes {mhlo.num_replicas = 8 : i32} {
        func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<ui32>) {
          %0 = \"stablehlo.all_reduce\"(%x) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %s = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}
            : (tensor<4xf32>) -> tensor<4xf32>
          %1 = stablehlo.replica_id : tensor<ui32>
          return %0, %1 : tensor<4xf32>, tensor<ui32>
        }
      }";
    let program = client().compile(text, &options, vec![f32s([4])]).unwrap();
    let devices = program.devices();
    assert_eq!(devices.len(), 8);
    let on = |device: &Device| {
        let value = [device.index() as f32; 4];
        Buffer::from_host(device, &f32s([4]), &bytes(&value)).unwrap()
    };
    let buffers: Vec<Buffer> = devices.iter().map(on).collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|buffer| vec![buffer]).collect();
    let results = program.execute_sharded(&arguments, Donate::Marked).unwrap();
    assert_eq!(results.len(), 8);
    for (replica, result) in results.iter().enumerate() {
        assert_eq!(read(&result[0]), [28.0; 4]);
        assert_eq!(result[1].read().unwrap(), (replica as u32).to_ne_bytes());
        assert_eq!(result[0].device(), devices[replica]);
    }
    let few = program.execute_sharded(&arguments[..3], Donate::Marked);
    let one = program.execute(&[&buffers[0]], Donate::Marked);
    for (refused, count) in [(few.unwrap_err(), 3), (one.unwrap_err(), 1)] {
        let said = format!("the program runs on 8 devices, arguments were passed for {count}");
        assert_eq!(refused.to_string(), said);
    }
}

#[test]
fn a_sharded_program_takes_its_part_on_each_device() {
    let text = r#"module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 4 : i32} {
        func.func public @main(%x: tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
            -> (tensor<2xf32> {mhlo.sharding = "{replicated}"}) {
          %c = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
            : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
      }"#;
    let ids = [5, 1, 4, 0];
    let options = CompileOptions::new(1, 4)
        .unwrap()
        .with_devices(&ids)
        .unwrap();
    let part = f32s([2, 2]);
    let program = client()
        .compile(text, &options, vec![part.clone()])
        .unwrap();
    let devices = program.devices();
    let placed: Vec<i32> = devices.iter().map(Device::id).collect();
    let mut sorted = placed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 4, 5]);
    let rows = |device: &Device| {
        let partition = ids.iter().position(|&id| id == device.id()).unwrap() as f32;
        let rows = [partition, 1.0, partition, 1.0];
        [Buffer::from_host(device, &part, &bytes(&rows)).unwrap()]
    };
    let buffers: Vec<_> = devices.iter().map(rows).collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|row| row.iter().collect()).collect();
    for result in program.execute_sharded(&arguments, Donate::Marked).unwrap() {
        assert_eq!(read(&result[0]), [12.0, 8.0]);
    }
}

#[test]
fn a_result_in_shardys_dialect_stays_in_parts() {
    let text = r#"module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 4 : i32} {
        sdy.mesh @mesh = <["rows"=2, "columns"=2]>
        func.func public @main(%x: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>})
            -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {"columns"}]>}) {
          %0 = stablehlo.add %x, %x : tensor<4x2xf32>
          return %0 : tensor<4x2xf32>
        }
      }"#;
    let options = CompileOptions::new(1, 4).unwrap().with_shardy();
    let part = f32s([2, 2]);
    let program = client()
        .compile(text, &options, vec![part.clone()])
        .unwrap();
    assert_eq!(program.outputs().collect::<Vec<_>>(), [&f32s([2, 1])]);
    let devices = program.devices();
    let rows = |(at, device): (usize, &Device)| {
        // Devices 0 and 1 have the first two rows, 2 and 3 the others.
        let first = (at / 2 * 4) as f32;
        let rows = [0.0, 1.0, 2.0, 3.0].map(|x| first + x);
        [Buffer::from_host(device, &part, &bytes(&rows)).unwrap()]
    };
    let buffers: Vec<_> = devices.iter().enumerate().map(rows).collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|row| row.iter().collect()).collect();
    let results = program.execute_sharded(&arguments, Donate::Marked).unwrap();
    let results: Vec<Vec<f32>> = results.iter().map(|result| read(&result[0])).collect();
    let expected = [[0.0, 4.0], [2.0, 6.0], [8.0, 12.0], [10.0, 14.0]];
    assert_eq!(results, expected);
}

#[test]
fn threads_share_a_program() {
    let program = sum();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..250 {
                    let (a, b) = (vector(&[thread as f32; 4]), vector(&[round as f32; 4]));
                    let result = program.execute(&[&a, &b], Donate::Marked).unwrap();
                    assert_eq!(read(&result[0]), [(thread + round) as f32; 4]);
                }
            });
        }
    });
}

#[test]
fn threads_that_donate_one_buffer_get_it_once() {
    let program = donating_sum();
    let one = vector(&[1.0; 4]);
    for _ in 0..100 {
        let shared = vector(&ONE_TO_FOUR);
        let run = || program.execute(&[&shared, &one], Donate::Marked);
        let outcomes = std::thread::scope(|scope| {
            let threads = [scope.spawn(run), scope.spawn(run), scope.spawn(run)];
            threads.map(|thread| thread.join().unwrap())
        });
        let mut done = 0;
        for outcome in outcomes {
            match outcome {
                Ok(result) => {
                    assert_eq!(read(&result[0]), [2.0, 3.0, 4.0, 5.0]);
                    done += 1;
                }
                Err(error) => assert!(matches!(error, Error::Donated { .. }), "{error}"),
            }
        }
        assert_eq!(done, 1);
    }
}
