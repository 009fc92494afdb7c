//! What a backward pass reads and writes, and what its launches share.

use super::Plan;
use super::tables::TableBuffers;
use crate::bound::bind;
use crate::named::{FromNames, Lookup, buffers};
use cubecl::prelude::*;
use cubecl::server::Handle;

buffers! {
    /// Buffers of the backward pass; shapes as in [`moebius_ops::attention`].
    pub struct BackwardBuffers {
        pub q: Handle => "[B, Hq, Sq, D]" read,
        pub k: Handle => "[B, Hkv, Skv, D]" read,
        pub v: Handle => "[B, Hkv, Skv, Dv]" read,
        /// Read.
        pub tables: TableBuffers,
        pub lse: Handle => "[B, Hq, Sq] f32" read: "what the forward pass wrote",
        /// Where the gradient comes from.
        pub through: Through,
        pub dq: Handle => "[B, Hq, Sq, D]" written,
        pub dk: Handle => "[B, Hkv, Skv, D]" written,
        pub d_bias: Option<Handle> = "dbias" => "f32" written: "of the dense bias, where it is there",
        pub d_relative: Option<Handle> = "drelative" => "f32" written: "of the biases by distance, where it is there",
        pub d_sinks: Option<Handle> = "dsinks" => "f32" written: "of the sinks, where it is there",
    }
}

/// The result whose gradient comes in.
#[derive(Clone)]
pub enum Through {
    /// o.
    Output {
        /// Read: what the forward pass wrote.
        o: Handle,
        /// Gradient of o, read.
        d_o: Handle,
        /// Written.
        dv: Handle,
    },
    /// The log-sum-exp; the gradient of v is 0.
    LogSumExp {
        /// Gradient of lse f32, read.
        d_lse: Handle,
    },
}

impl FromNames for Through {
    /// Through the log-sum-exp where that has a gradient.
    fn from_names(buffers: &impl Lookup, _: &[&str]) -> Self {
        let of = |name: &str| Handle::from_names(buffers, &[name]);
        match buffers.find("dlse") {
            Some(d_lse) => Self::LogSumExp { d_lse },
            None => Self::Output {
                o: of("o"),
                d_o: of("do"),
                dv: of("dv"),
            },
        }
    }
}

/// What the launches of a backward pass share.
pub(super) struct Backward<'a, R> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a Plan,
    pub(super) buffers: &'a BackwardBuffers,
    pub(super) tables: Handle,
    /// f32 \[B, Hq, Sq, 2\].
    pub(super) statistics: Handle,
    pub(super) rule: &'a R,
}

impl<R> Backward<'_, R> {
    /// A matrix of so many rows; one without rows isn't read, and something else is bound.
    pub(super) fn bind(&self, buffer: &Handle, rows: usize) -> BufferArg {
        bind(match rows {
            0 => self.statistics.clone(),
            _ => buffer.clone(),
        })
    }

    pub(super) fn through_lse(&self) -> bool {
        matches!(self.buffers.through, Through::LogSumExp { .. })
    }

    /// do, or q where the gradient comes through the log-sum-exp and nothing reads it.
    pub(super) fn d_o(&self) -> BufferArg {
        let d_o = match &self.buffers.through {
            Through::Output { d_o, .. } => d_o,
            Through::LogSumExp { .. } => &self.buffers.q,
        };
        self.bind(d_o, self.plan.problem.query_rows())
    }

    pub(super) fn statistics(&self) -> BufferArg {
        bind(self.statistics.clone())
    }

    pub(super) fn tables(&self) -> BufferArg {
        bind(self.tables.clone())
    }

    /// q, k, v, do, statistics and tables: what every gradient of pairs reads, in this order.
    pub(super) fn inputs(&self) -> [BufferArg; 6] {
        let (p, b) = (&self.plan.problem, self.buffers);
        [
            self.bind(&b.q, p.query_rows()),
            self.bind(&b.k, p.key_rows()),
            self.bind(&b.v, p.key_rows()),
            self.d_o(),
            self.statistics(),
            self.tables(),
        ]
    }
}
