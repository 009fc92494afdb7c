//! Loops.

use super::lists::joined;
use super::{Builder, Value};
use moebius_pjrt::ElementType;

impl Builder {
    /// Runs `body` on the state while `condition` holds.
    pub fn while_loop(
        &self,
        state: &[Value],
        condition: impl FnOnce(&Self, &[Value]) -> Value,
        body: impl FnOnce(&Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types = self.types(state);
        let condition = self.region(&types, |b, args| vec![condition(b, args)]);
        let body = self.region(&types, body);
        let names = joined(state);
        let operation = format_args!("\"stablehlo.while\"({names}) ({condition}, {body})");
        self.typed_many(operation, state, types)
    }

    /// Runs `body(i, state)` for i = 0 … `count` − 1; `count` is an i32 scalar, known on the device only.
    pub fn for_loop(
        &self,
        count: Value,
        state: &[Value],
        body: impl FnOnce(&Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let state = [&[self.scalar(0.0, ElementType::S32), count], state].concat();
        let results = self.while_loop(
            &state,
            |b, state| b.lt(state[0], state[1]),
            |b, state| {
                let (at, count) = (state[0], state[1]);
                let results = body(b, at, &state[2..]);
                let next = b.add(at, b.scalar(1.0, ElementType::S32));
                [&[next, count], results.as_slice()].concat()
            },
        );
        results[2..].to_vec()
    }

    /// What `append` appends, with its floating-point operations and the bytes that it exchanges counted
    /// `rounds` times.
    pub fn counted<T>(&self, rounds: u64, append: impl FnOnce(&Self) -> T) -> T {
        let before = [self.flops.get(), self.exchanged.get()];
        let result = append(self);
        for (count, before) in [&self.flops, &self.exchanged].into_iter().zip(before) {
            count.update(|after| before + (after - before) * rounds);
        }
        result
    }
}
