//! Loops.

use super::{Builder, Compare, Value};
use crate::ElementType;

impl Builder {
    /// Runs `body` on the state while `condition` holds.
    pub fn while_loop(
        &mut self,
        state: &[Value],
        condition: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types = self.types(state);
        let condition = self.region(&types, |b, args| vec![condition(b, args)]);
        let body = self.region(&types, body);
        let (names, _) = self.operands(state);
        let operation = format_args!("\"stablehlo.while\"({names}) ({condition}, {body})");
        self.typed_many(operation, state, types)
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
        self.set_counts(before.0 + flops * rounds, before.1 + bytes * rounds);
        result
    }
}
