//! Loops and branches.

use super::{Builder, Compare, TensorType, Value};
use crate::ElementType;

impl Builder {
    /// Runs `body` on the state while `condition` holds.
    pub fn while_loop(
        &mut self,
        state: &[Value],
        condition: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<TensorType> = state.iter().map(|v| self.ty(*v).clone()).collect();
        let condition = self.region(&types, |b, args| vec![condition(b, args)]);
        let body = self.region(&types, body);
        let (names, operands) = self.operands(state);
        let operation = format!(
            "\"stablehlo.while\"({names}) ({condition}, {body}) : ({operands}) -> ({operands})"
        );
        self.push_many(operation, types)
    }

    /// Runs `body(i, state)` for i = 0 … `count` − 1; `count` is an i32 scalar, known on the device only.
    pub fn for_loop(
        &mut self,
        count: Value,
        state: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let zero = self.scalar(0.0, ElementType::S32);
        let state = [&[zero, count], state].concat();
        let results = self.while_loop(
            &state,
            |b, state| b.compare(Compare::Lt, state[0], state[1]),
            |b, state| {
                let (at, count) = (state[0], state[1]);
                let results = body(b, at, &state[2..]);
                let one = b.scalar(1.0, ElementType::S32);
                let next = b.add(at, one);
                [&[next, count], results.as_slice()].concat()
            },
        );
        results[2..].to_vec()
    }

    /// What `append` appends, with its floating-point operations and the bytes that it exchanges counted
    /// `rounds` times.
    pub fn counted<T>(&mut self, rounds: u64, append: impl FnOnce(&mut Self) -> T) -> T {
        let before = (self.flops(), self.exchanged());
        let result = append(self);
        let (flops, bytes) = (self.flops() - before.0, self.exchanged() - before.1);
        self.count_flops(flops * rounds.saturating_sub(1));
        self.count_exchanged(bytes * rounds.saturating_sub(1));
        result
    }

    /// The results of `yes` or `no`, of the same types, by a boolean scalar. Only one of them runs.
    pub fn branch(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self) -> Vec<Value>,
        no: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let mut types = Vec::new();
        let yes = self.region(&[], |b, _| {
            let results = yes(b);
            types = results.iter().map(|v| b.ty(*v).clone()).collect();
            results
        });
        let no = self.region(&[], |b, _| no(b));
        let names: Vec<String> = types.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        self.push_many(
            format!("\"stablehlo.if\"({condition}) ({yes}, {no}) : (tensor<i1>) -> ({names})"),
            types,
        )
    }
}
