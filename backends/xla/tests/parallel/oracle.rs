//! The layer by its definition, token by token, in f64.

use moebius_ops::grouped_gemm::Activation;
use moebius_ops::routing::Score;
use moebius_xla::parallel::Layer;

/// y, dx, and the weights' gradients in the layer's order.
pub(crate) struct Passes {
    pub(crate) y: Vec<f64>,
    pub(crate) dx: Vec<f64>,
    pub(crate) weights: Vec<Vec<f64>>,
}

fn activation(of: Activation, x: f64) -> (f64, f64) {
    match of {
        Activation::Relu => (x.max(0.0), f64::from(u8::from(x > 0.0))),
        Activation::Silu => {
            let s = 1.0 / (1.0 + (-x).exp());
            (x * s, s * (1.0 + x * (1.0 - s)))
        }
        other => panic!("no test has {other:?}"),
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
}

/// Experts and weights of a token, and all its probabilities.
fn route(layer: &Layer, logits: &[f64]) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
    let routing = &layer.problem.routing;
    assert_eq!(routing.score(), Score::Softmax);
    let largest = logits.iter().copied().fold(f64::MIN, f64::max);
    let exp: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
    let sum: f64 = exp.iter().sum();
    let probs: Vec<f64> = exp.iter().map(|e| e / sum).collect();
    let mut order: Vec<usize> = (0..routing.experts()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    order.truncate(routing.top_k());
    let mut weights: Vec<f64> = order.iter().map(|e| probs[*e]).collect();
    if routing.renormalize() {
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    (order, weights, probs)
}

/// One expert's weights.
struct Expert<'a> {
    layer: &'a Layer,
    w_in: &'a [f64],
    w_out: &'a [f64],
    biases: Option<[&'a [f64]; 2]>,
}

impl Expert<'_> {
    fn columns(&self) -> usize {
        self.w_in.len() / self.layer.problem.hidden
    }

    /// The first product and the hidden row.
    fn hidden(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (h, f) = (self.layer.problem.hidden, self.layer.problem.inter);
        let pre = (0..self.columns()).map(|c| {
            let bias = self.biases.map_or(0.0, |b| b[0][c]);
            dot(&self.w_in[c * h..(c + 1) * h], x) + bias
        });
        let pre: Vec<f64> = pre.collect();
        let hidden = (0..f).map(|i| {
            let (act, _) = activation(self.layer.problem.activation, pre[i]);
            act * if self.layer.problem.gated {
                pre[f + i]
            } else {
                1.0
            }
        });
        let hidden = hidden.collect();
        (pre, hidden)
    }

    fn out(&self, hidden: &[f64]) -> Vec<f64> {
        let f = self.layer.problem.inter;
        let row = |r: usize| {
            let bias = self.biases.map_or(0.0, |b| b[1][r]);
            dot(&self.w_out[r * f..(r + 1) * f], hidden) + bias
        };
        (0..self.layer.problem.hidden).map(row).collect()
    }

    /// The gradient of the first product for that of the output.
    fn back(&self, pre: &[f64], dout: &[f64]) -> Vec<f64> {
        let f = self.layer.problem.inter;
        let mut dhidden = vec![0.0; f];
        for (r, d) in dout.iter().enumerate() {
            add(&mut dhidden, *d, &self.w_out[r * f..(r + 1) * f]);
        }
        let mut dpre = vec![0.0; self.columns()];
        for (i, d) in dhidden.into_iter().enumerate() {
            let (act, slope) = activation(self.layer.problem.activation, pre[i]);
            if self.layer.problem.gated {
                dpre[i] = d * pre[f + i] * slope;
                dpre[f + i] = d * act;
            } else {
                dpre[i] = d * slope;
            }
        }
        dpre
    }
}

fn expert<'a>(layer: &'a Layer, weights: &'a [Vec<f64>], e: usize) -> Expert<'a> {
    let part = |of: &'a [f64]| {
        let size = of.len() / layer.problem.routing.experts();
        &of[e * size..(e + 1) * size]
    };
    Expert {
        layer,
        w_in: part(&weights[1]),
        w_out: part(&weights[2]),
        biases: layer
            .problem
            .bias
            .then(|| [part(&weights[3]), part(&weights[4])]),
    }
}

/// Both passes for x, dy \[T,H\] and the weights.
pub(crate) fn passes(layer: &Layer, x: &[f64], dy: &[f64], weights: &[Vec<f64>]) -> Passes {
    let (h, inter, routing) = (
        layer.problem.hidden,
        layer.problem.inter,
        &layer.problem.routing,
    );
    let mut out = Passes {
        y: vec![0.0; x.len()],
        dx: vec![0.0; x.len()],
        weights: weights.iter().map(|w| vec![0.0; w.len()]).collect(),
    };
    for t in 0..routing.tokens() {
        let rows = t * h..(t + 1) * h;
        let (x, dy) = (&x[rows.clone()], &dy[rows.clone()]);
        let logits = weights[0].chunks(h).map(|row| dot(row, x));
        let (chosen, shares, probs) = route(layer, &logits.collect::<Vec<_>>());
        let mut dshares = Vec::new();
        for (e, share) in chosen.iter().zip(&shares) {
            let one = expert(layer, weights, *e);
            let (pre, hidden) = one.hidden(x);
            let result = one.out(&hidden);
            add(&mut out.y[rows.clone()], *share, &result);
            dshares.push(dot(dy, &result));
            let dout: Vec<f64> = dy.iter().map(|d| d * share).collect();
            let dpre = one.back(&pre, &dout);
            let columns = one.columns();
            for (c, d) in dpre.iter().enumerate() {
                let at = (e * columns + c) * h;
                add(&mut out.dx[rows.clone()], *d, &weights[1][at..at + h]);
                add(&mut out.weights[1][at..at + h], *d, x);
            }
            for (r, d) in dout.iter().enumerate() {
                let at = (e * h + r) * inter;
                add(&mut out.weights[2][at..at + inter], *d, &hidden);
            }
            if layer.problem.bias {
                add(
                    &mut out.weights[3][e * columns..(e + 1) * columns],
                    1.0,
                    &dpre,
                );
                add(&mut out.weights[4][e * h..(e + 1) * h], 1.0, &dout);
            }
        }
        let mean = dot(&dshares, &shares);
        for e in 0..routing.experts() {
            let slot = chosen.iter().position(|c| *c == e);
            let own = slot.map_or(0.0, |k| dshares[k]);
            let dlogit = match (routing.renormalize(), slot) {
                (true, Some(k)) => shares[k] * (own - mean),
                (true, None) => 0.0,
                (false, _) => probs[e] * (own - mean),
            };
            add(
                &mut out.dx[rows.clone()],
                dlogit,
                &weights[0][e * h..(e + 1) * h],
            );
            add(&mut out.weights[0][e * h..(e + 1) * h], dlogit, x);
        }
    }
    out
}
