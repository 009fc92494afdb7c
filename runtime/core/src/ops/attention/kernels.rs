//! Kernels of attention under score rules.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::attention::Problem;
use moebius_shaders::Unsupported;
use moebius_shaders::attention::{
    self, BackwardBuffers, ForwardBuffers, TableBuffers, Through, launch_backward,
};

pub(super) fn attention(problem: Problem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = attention::plan(problem, None, device)?;
    let forward = move |client: &Client, b: &Buffers| {
        let buffers = ForwardBuffers {
            q: b.get("q"),
            k: b.get("k"),
            v: b.get("v"),
            tables: tables(b),
            o: b.get("o"),
            lse: b.get("lse"),
        };
        attention::launch(client, &plan, buffers);
    };
    let backward = move |client: &Client, b: &Buffers| {
        let through = match b.maybe("dlse") {
            Some(d_lse) => Through::LogSumExp { d_lse },
            None => Through::Output {
                o: b.get("o"),
                d_o: b.get("do"),
                dv: b.get("dv"),
            },
        };
        let buffers = BackwardBuffers {
            q: b.get("q"),
            k: b.get("k"),
            v: b.get("v"),
            tables: tables(b),
            lse: b.get("lse"),
            through,
            dq: b.get("dq"),
            dk: b.get("dk"),
            d_bias: b.maybe("dbias"),
            d_relative: b.maybe("drelative"),
            d_sinks: b.maybe("dsinks"),
        };
        launch_backward(client, &plan, &buffers);
    };
    Ok(Kernels::new(forward).with_backward(backward))
}

fn tables(b: &Buffers) -> TableBuffers {
    TableBuffers {
        query_documents: b.maybe("query_documents"),
        key_documents: b.maybe("key_documents"),
        blocks: b.maybe("blocks"),
        mask: b.maybe("mask"),
        slopes: b.maybe("slopes"),
        bias: b.maybe("bias"),
        relative: b.maybe("relative"),
        sinks: b.maybe("sinks"),
    }
}
