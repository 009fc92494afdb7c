//! Operations on rows: maps, products, activations, norms, sums and rotations, with one unit for each result (for each row of a norm).

use super::functions::{activate, add, apply, gated, mul, reciprocal_root, settled, sub};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::exact::{Activate, Combine, Function, Norm, Product, Rotate};
use moebius_ops::grouped_gemm::Activation;

#[cube(launch_unchecked)]
fn exact_map(x: &[f32], y: &mut [f32], zero: u32, #[comptime] function: Function) {
    if ABSOLUTE_POS < y.len() {
        y[ABSOLUTE_POS] = settled(apply(settled(x[ABSOLUTE_POS]), zero, function));
    }
}

buffers! {
    /// Buffers of a map.
    pub struct MapBuffers {
        pub x: Handle => "[n]" read,
        pub y: Handle => "[n]" written,
    }
}

pub(crate) fn map_name(function: Function) -> String {
    format!("exact_{function}")
}

/// Enqueues a map: one launch.
pub fn launch_map(client: &Client, grid: &Grid, function: Function, b: MapBuffers) {
    launched::note(|| map_name(function));
    let [x, y] = [b.x, b.y].map(bind);
    // SAFETY: the buffers are as long as they are described; units past the last element return.
    unsafe {
        exact_map::launch_unchecked(client, grid.count(), grid.dim(), x, y, 0, function);
    }
}

/// Sizes of a product.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct ProductSizes {
    share: usize,
    experts: usize,
    n: usize,
    k: usize,
}

#[cube(launch_unchecked)]
fn exact_product(
    x: &[f32],
    w: &[f32],
    indices: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[f32]>,
    y: &mut [f32],
    sizes: ProductSizes,
    zero: u32,
) {
    if ABSOLUTE_POS < y.len() {
        let row = ABSOLUTE_POS / sizes.n;
        let mut expert = 0usize;
        #[comptime]
        if let ComptimeOption::Some(indices) = &indices {
            expert = indices[row] as usize;
        }
        let mut sum = 0.0f32;
        if expert < sizes.experts {
            let from = row / sizes.share * sizes.k;
            let of = expert * sizes.n + ABSOLUTE_POS % sizes.n;
            for i in 0..sizes.k {
                let product = mul(settled(x[from + i]), settled(w[of * sizes.k + i]), zero);
                sum = add(sum, product, zero);
            }
            #[comptime]
            if let ComptimeOption::Some(bias) = &bias {
                sum = add(sum, settled(bias[of]), zero);
            }
        }
        y[ABSOLUTE_POS] = settled(sum);
    }
}

buffers! {
    /// Buffers of a product.
    pub struct ProductBuffers {
        pub x: Handle => "[R / share, k]" read,
        pub w: Handle = "W" => "[E, n, k]" read,
        pub indices: Option<Handle> => "[R] u32" read,
        pub b: Option<Handle> => "[E, n]" read,
        pub y: Handle => "[R, n]" written,
    }
}

pub(crate) fn product_name(p: &Product) -> String {
    let chosen = launched::suffix(p.chosen, "_chosen");
    let bias = launched::suffix(p.bias, "_bias");
    format!("exact_product{chosen}{bias}")
}

/// Enqueues a product: one launch.
pub fn launch_product(client: &Client, grid: &Grid, p: &Product, b: ProductBuffers) {
    launched::note(|| product_name(p));
    let [x, w, y] = [b.x, b.w, b.y].map(bind);
    let (indices, bias) = (b.indices.map(bind).into(), b.b.map(bind).into());
    let sizes = ProductSizesLaunch::new(p.share, p.experts, p.n, p.k);
    let (count, dim) = (grid.count(), grid.dim());
    // SAFETY: the buffers are as long as they are described; units past the last element return, and no expert past the last is read.
    unsafe {
        exact_product::launch_unchecked(client, count, dim, x, w, indices, bias, y, sizes, 0);
    }
}

#[cube(launch_unchecked)]
fn exact_activation(
    x: &[f32],
    y: &mut [f32],
    inter: usize,
    zero: u32,
    #[comptime] activation: Activation,
    #[comptime] is_gated: bool,
) {
    if ABSOLUTE_POS < y.len() {
        if comptime!(is_gated) {
            let gate = ABSOLUTE_POS / inter * 2usize * inter + ABSOLUTE_POS % inter;
            let value = settled(activate(settled(x[gate]), zero, activation));
            let up = settled(gated(settled(x[gate + inter]), zero, activation));
            y[ABSOLUTE_POS] = settled(mul(value, up, zero));
        } else {
            y[ABSOLUTE_POS] = settled(activate(settled(x[ABSOLUTE_POS]), zero, activation));
        }
    }
}

pub(crate) fn activation_name(p: &Activate) -> String {
    let gated = launched::suffix(p.gated, "_gated");
    format!("exact_activation_{}{gated}", p.activation)
}

/// Enqueues an activation: one launch.
pub fn launch_activation(client: &Client, grid: &Grid, p: &Activate, b: MapBuffers) {
    launched::note(|| activation_name(p));
    let [x, y] = [b.x, b.y].map(bind);
    let (count, dim) = (grid.count(), grid.dim());
    // SAFETY: the buffers are as long as they are described; units past the last element return.
    unsafe {
        exact_activation::launch_unchecked(
            client,
            count,
            dim,
            x,
            y,
            p.inter,
            0,
            p.activation,
            p.gated,
        );
    }
}

#[cube(launch_unchecked)]
fn exact_norm(
    x: &[f32],
    gamma: &[f32],
    y: &mut [f32],
    width: usize,
    share: f32,
    epsilon: f32,
    zero: u32,
) {
    if ABSOLUTE_POS < y.len() / width {
        let first = ABSOLUTE_POS * width;
        let mut squares = 0.0f32;
        for i in 0..width {
            let value = settled(x[first + i]);
            squares = add(squares, mul(value, value, zero), zero);
        }
        let mean = add(mul(squares, share, zero), epsilon, zero);
        let root = reciprocal_root(mean, zero);
        for i in 0..width {
            let value = settled(mul(settled(x[first + i]), root, zero));
            y[first + i] = settled(mul(value, settled(gamma[i]), zero));
        }
    }
}

buffers! {
    /// Buffers of a norm.
    pub struct NormBuffers {
        pub x: Handle => "[R, n]" read,
        pub gamma: Handle => "[n]" read,
        pub y: Handle => "[R, n]" written,
    }
}

/// Enqueues a norm: one launch.
pub fn launch_norm(client: &Client, grid: &Grid, p: &Norm, b: NormBuffers) {
    launched::note(|| "exact_norm");
    let [x, gamma, y] = [b.x, b.gamma, b.y].map(bind);
    let (count, dim) = (grid.count(), grid.dim());
    let (width, share, epsilon) = (p.width, p.share(), p.epsilon);
    // SAFETY: the buffers are as long as they are described; units past the last row return.
    unsafe {
        exact_norm::launch_unchecked(client, count, dim, x, gamma, y, width, share, epsilon, 0);
    }
}

#[cube(launch_unchecked)]
fn exact_combine(
    rows: &[f32],
    weights: ComptimeOption<&[f32]>,
    base: ComptimeOption<&[f32]>,
    y: &mut [f32],
    top_k: usize,
    width: usize,
    scale: f32,
    zero: u32,
) {
    if ABSOLUTE_POS < y.len() {
        let first = ABSOLUTE_POS / width * top_k;
        let column = ABSOLUTE_POS % width;
        let mut sum = 0.0f32;
        for k in 0..top_k {
            let row = settled(rows[(first + k) * width + column]);
            #[comptime]
            match &weights {
                ComptimeOption::Some(weights) => {
                    let weight = settled(weights[first + k]);
                    sum = add(sum, mul(weight, row, zero), zero);
                }
                ComptimeOption::None => {
                    sum = add(sum, row, zero);
                }
            }
        }
        let mut value = mul(scale, sum, zero);
        #[comptime]
        if let ComptimeOption::Some(base) = &base {
            value = add(settled(base[ABSOLUTE_POS]), value, zero);
        }
        y[ABSOLUTE_POS] = settled(value);
    }
}

buffers! {
    /// Buffers of a sum.
    pub struct CombineBuffers {
        pub rows: Handle => "[T·K, n]" read,
        pub weights: Option<Handle> => "[T·K]" read,
        pub base: Option<Handle> => "[T, n]" read,
        pub y: Handle => "[T, n]" written,
    }
}

pub(crate) fn combine_name(p: &Combine) -> String {
    let weighted = launched::suffix(p.weighted, "_weighted");
    let based = launched::suffix(p.based, "_added");
    format!("exact_combine{weighted}{based}")
}

/// Enqueues a sum: one launch.
pub fn launch_combine(client: &Client, grid: &Grid, p: &Combine, b: CombineBuffers) {
    launched::note(|| combine_name(p));
    let [rows, y] = [b.rows, b.y].map(bind);
    let (weights, base) = (b.weights.map(bind).into(), b.base.map(bind).into());
    let (count, dim) = (grid.count(), grid.dim());
    // SAFETY: the buffers are as long as they are described; units past the last element return.
    unsafe {
        exact_combine::launch_unchecked(
            client, count, dim, rows, weights, base, y, p.top_k, p.width, p.scale, 0,
        );
    }
}

/// Sizes of a rotation.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Turn {
    heads: usize,
    width: usize,
    half: usize,
    at: usize,
    /// The number of tokens with angles.
    tokens: usize,
}

#[cube(launch_unchecked)]
fn exact_rotate(
    x: &[f32],
    cos: &[f32],
    sin: &[f32],
    y: &mut [f32],
    turn: Turn,
    zero: u32,
    #[comptime] interleaved: bool,
) {
    if ABSOLUTE_POS < y.len() {
        let row = ABSOLUTE_POS / turn.width;
        let d = ABSOLUTE_POS % turn.width;
        let mut value = settled(x[ABSOLUTE_POS]);
        if d >= turn.at && d < turn.at + 2usize * turn.half {
            let rotated = d - turn.at;
            let pair = rotated % turn.half;
            let angle = row / turn.heads % turn.tokens * turn.half + pair;
            let first = row * turn.width + turn.at;
            let mut left = first + pair;
            let mut right = first + pair + turn.half;
            if comptime!(interleaved) {
                left = first + 2usize * pair;
                right = first + 2usize * pair + 1usize;
            }
            let (left, right) = (settled(x[left]), settled(x[right]));
            let (cos, sin) = (settled(cos[angle]), settled(sin[angle]));
            let low = sub(mul(left, cos, zero), mul(right, sin, zero), zero);
            let high = add(mul(right, cos, zero), mul(left, sin, zero), zero);
            value = settled(select(rotated >= turn.half, high, low));
        }
        y[ABSOLUTE_POS] = value;
    }
}

buffers! {
    /// Buffers of a rotation.
    pub struct RotateBuffers {
        pub x: Handle => "[B, Q, H, D]" read,
        pub cos: Handle => "[B or 1, Q, half]" read,
        pub sin: Handle => "[B or 1, Q, half]" read,
        pub y: Handle => "[B, Q, H, D]" written,
    }
}

pub(crate) fn rotate_name(p: &Rotate) -> String {
    let interleaved = launched::suffix(p.interleaved, "_interleaved");
    format!("exact_rotate{interleaved}")
}

/// Enqueues a rotation: one launch.
pub fn launch_rotate(client: &Client, grid: &Grid, p: &Rotate, b: RotateBuffers) {
    launched::note(|| rotate_name(p));
    let [x, cos, sin, y] = [b.x, b.cos, b.sin, b.y].map(bind);
    let (count, dim) = (grid.count(), grid.dim());
    let turn = TurnLaunch::new(p.heads, p.width, p.half, p.at, p.tables() * p.tokens);
    // SAFETY: the buffers are as long as they are described; units past the last element return, pairs lie within their head.
    unsafe {
        exact_rotate::launch_unchecked(client, count, dim, x, cos, sin, y, turn, 0, p.interleaved);
    }
}
