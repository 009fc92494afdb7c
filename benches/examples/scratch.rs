use cubecl::prelude::*;
use moebius_device::Device;
use moebius_shaders::fp8::Fp8Format;
use moebius_shaders::grouped_gemm::{self, fp8, Choice, Fp8Weights, Operands, Problem};
use moebius_shaders::scaling::Granularity;
use std::time::Instant;
fn main() {
    let name = std::env::args().nth(1).unwrap_or("cpu".into());
    let sizes: Vec<usize> = std::env::args().skip(2).map(|s| s.parse().unwrap()).collect();
    let (n, k) = (sizes[0], sizes[1]);
    let device: Device = name.parse().unwrap();
    let opened = moebius_device::open(&device).unwrap();
    let client = opened.client().unwrap();
    for m in &sizes[2..] {
        let m = *m;
        for codes in [None, Some(Granularity::Row), Some(Granularity::Block { rows: 128, columns: 128 }), Some(Granularity::Mx)] {
            let p = Problem { fp8: codes.map(|granularity| Fp8Weights { format: Fp8Format::E4M3, granularity }), ..Problem::dense(m, n, k).unwrap() };
            let plan = grouped_gemm::plan(p, &opened.capability, Choice::default()).unwrap();
            let x = client.create_from_slice(f32::as_bytes(&vec![0.5f32; m * k]));
            let (w, s) = if codes.is_some() {
                (client.create_from_slice(u32::as_bytes(&(0..fp8::expert_words(&p)).map(|i| (i as u32).wrapping_mul(2654435761) & 0x7777_7777).collect::<Vec<_>>())),
                 Some(client.create_from_slice(u32::as_bytes(&vec![1.0f32.to_bits(); fp8::scale_words(&p)]))))
            } else { (client.create_from_slice(f32::as_bytes(&vec![0.25f32; n * k])), None) };
            let out = client.empty(m * n * 4);
            let operands = Operands { x, segments: None, weights: w, scales: s, bias: None, out };
            let mut times = vec![];
            for i in 0..22 {
                let t = Instant::now();
                grouped_gemm::launch(&client, &plan, &operands);
                cubecl::future::block_on(client.sync()).unwrap();
                if i > 1 { times.push(t.elapsed().as_secs_f64() * 1e3); }
            }
            times.sort_by(f64::total_cmp);
            println!("{name} m {m} {:?} {codes:?}: {:.3} ms (min {:.3}) {:.1} GFLOP/s", plan.variant, times[10], times[0], 2.0 * (m * n * k) as f64 / times[10] / 1e6);
        }
    }
}
