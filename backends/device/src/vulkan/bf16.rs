//! SPIR-V with bf16, made valid and exact.
//!
//! `SPV_KHR_bfloat16` lets a kernel store, move and convert bf16 values, but not add, multiply or compare them or apply
//! functions to them. CubeCL 0.11.3 nevertheless writes such instructions wherever a kernel's values are bf16, as in
//! Burn's element-wise kernels, and an NVIDIA driver (580.159) returns garbage. The extension also doesn't say how a
//! conversion to bf16 rounds: that driver truncates. So every module is rewritten before the driver gets it: arithmetic
//! on bf16 is done in f32, and results are rounded to the nearest bf16, ties to even, with integer operations.

use std::collections::HashMap;

use rspirv::binary::{Assemble, Consumer, ParseAction, parse_words};
use rspirv::dr::{Instruction, ModuleHeader, Operand};
use rspirv::spirv::{Decoration, FPEncoding, Op, Word};

/// Rewrites a SPIR-V module so that its arithmetic on bf16 is done in f32; `None` if it has no such arithmetic.
///
/// # Errors
///
/// A message that says what is wrong with the words.
pub fn computed_in_f32(words: &[u32]) -> Result<Option<Vec<u32>>, String> {
    if !mentions_bf16(words) {
        return Ok(None);
    }
    let module = Module::parse(words)?;
    let mut rewriting = Rewriting::of(&module);
    let first_function = |one: &Instruction| one.class.opcode == Op::Function;
    let body = module.instructions.iter().position(first_function);
    let mut instructions = module.instructions;
    let body = instructions.split_off(body.unwrap_or(instructions.len()));
    let mut rewritten = Vec::with_capacity(body.len());
    for instruction in body {
        rewriting.push(instruction, &mut rewritten);
    }
    if !rewriting.changed {
        return Ok(None);
    }
    for annotation in &mut instructions {
        rewriting.retarget(annotation);
    }
    let mut words = ModuleHeader {
        bound: rewriting.next,
        ..module.header
    }
    .assemble();
    let all = [instructions, rewriting.added, rewritten];
    for instruction in all.iter().flatten() {
        instruction.assemble_into(&mut words);
    }
    Ok(Some(words))
}

/// A module as a list of instructions. rspirv's own structure for modules refuses some decorations that CubeCL writes.
struct Module {
    header: ModuleHeader,
    instructions: Vec<Instruction>,
}

impl Module {
    fn parse(words: &[u32]) -> Result<Self, String> {
        let mut module = Self {
            header: ModuleHeader::new(0),
            instructions: Vec::new(),
        };
        parse_words(words, &mut module).map_err(|error| format!("SPIR-V: {error}"))?;
        Ok(module)
    }
}

impl Consumer for Module {
    fn initialize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn finalize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_header(&mut self, header: ModuleHeader) -> ParseAction {
        self.header = header;
        ParseAction::Continue
    }

    fn consume_instruction(&mut self, instruction: Instruction) -> ParseAction {
        self.instructions.push(instruction);
        ParseAction::Continue
    }
}

/// Whether a module declares a 16-bit float type with an encoding: a fast scan that spares other kernels the parser.
fn mentions_bf16(words: &[u32]) -> bool {
    let float =
        |at: usize| words[at] == (4 << 16 | Op::TypeFloat as u32) && words.get(at + 2) == Some(&16);
    let mut at = 5;
    while at < words.len() {
        if float(at) {
            return true;
        }
        at += ((words[at] >> 16) as usize).max(1);
    }
    false
}

/// A scalar type that the rewritten arithmetic needs besides bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scalar {
    F32,
    U32,
    Bool,
}

/// What a module declares, and what the rewriting adds to it.
struct Rewriting {
    /// The number of components of each bf16 type; 1 for the scalar.
    narrow: HashMap<Word, u32>,
    /// The types of the other scalars and their vectors, by scalar and number of components.
    types: HashMap<(Scalar, u32), Word>,
    /// The constants that were added, by word and number of components.
    constants: HashMap<(u32, u32), Word>,
    /// The type of each value.
    values: HashMap<Word, Word>,
    /// The declarations that were added.
    added: Vec<Instruction>,
    /// The f32 value of each rewritten computation, by the id of its bf16 result.
    computed: HashMap<Word, Word>,
    changed: bool,
    /// The first unused id.
    next: Word,
}

impl Rewriting {
    fn of(module: &Module) -> Self {
        let mut found = Self {
            narrow: HashMap::new(),
            types: HashMap::new(),
            constants: HashMap::new(),
            values: HashMap::new(),
            added: Vec::new(),
            computed: HashMap::new(),
            changed: false,
            next: module.header.bound,
        };
        for instruction in &module.instructions {
            found.declare(instruction);
            if let (Some(kind), Some(value)) = (instruction.result_type, instruction.result_id) {
                found.values.insert(value, kind);
            }
        }
        found
    }

    fn declare(&mut self, declared: &Instruction) {
        let Some(id) = declared.result_id else { return };
        let scalar = match (declared.class.opcode, &declared.operands[..]) {
            (
                Op::TypeFloat,
                [
                    Operand::LiteralBit32(16),
                    Operand::FPEncoding(FPEncoding::BFloat16KHR),
                ],
            ) => {
                self.narrow.insert(id, 1);
                return;
            }
            (Op::TypeVector, [Operand::IdRef(component), Operand::LiteralBit32(count)]) => {
                self.declare_vector(id, *component, *count);
                return;
            }
            (Op::TypeFloat, [Operand::LiteralBit32(32)]) => Scalar::F32,
            (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(0)]) => Scalar::U32,
            (Op::TypeBool, []) => Scalar::Bool,
            _ => return,
        };
        self.types.insert((scalar, 1), id);
    }

    fn declare_vector(&mut self, id: Word, component: Word, count: u32) {
        if self.narrow.get(&component) == Some(&1) {
            self.narrow.insert(id, count);
        }
        for scalar in [Scalar::F32, Scalar::U32, Scalar::Bool] {
            if self.types.get(&(scalar, 1)) == Some(&component) {
                self.types.insert((scalar, count), id);
            }
        }
    }

    fn fresh(&mut self) -> Word {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Adds a declaration and returns its id.
    fn add(&mut self, opcode: Op, kind: Option<Word>, operands: Vec<Operand>) -> Word {
        let id = self.fresh();
        self.added
            .push(Instruction::new(opcode, kind, Some(id), operands));
        id
    }

    /// The id of the type with `count` components of `scalar`, declared if need be.
    fn kind(&mut self, scalar: Scalar, count: u32) -> Word {
        if let Some(kind) = self.types.get(&(scalar, count)) {
            return *kind;
        }
        let bits = Operand::LiteralBit32(32);
        let (opcode, operands) = match (count, scalar) {
            (1, Scalar::F32) => (Op::TypeFloat, vec![bits]),
            (1, Scalar::U32) => (Op::TypeInt, vec![bits, Operand::LiteralBit32(0)]),
            (1, Scalar::Bool) => (Op::TypeBool, Vec::new()),
            _ => {
                let component = Operand::IdRef(self.kind(scalar, 1));
                (
                    Op::TypeVector,
                    vec![component, Operand::LiteralBit32(count)],
                )
            }
        };
        let kind = self.add(opcode, None, operands);
        self.types.insert((scalar, count), kind);
        kind
    }

    /// The id of a constant with `count` components equal to `value`, declared if need be.
    fn words(&mut self, value: u32, count: u32) -> Word {
        if let Some(known) = self.constants.get(&(value, count)) {
            return *known;
        }
        let kind = self.kind(Scalar::U32, count);
        let (opcode, operands) = match count {
            1 => (Op::Constant, vec![Operand::LiteralBit32(value)]),
            _ => {
                let one = Operand::IdRef(self.words(value, 1));
                (Op::ConstantComposite, vec![one; count as usize])
            }
        };
        let constant = self.add(opcode, Some(kind), operands);
        self.constants.insert((value, count), constant);
        constant
    }

    /// The number of components of a bf16 value; `None` for values of other types.
    fn of_bf16(&self, value: Word) -> Option<u32> {
        self.narrow.get(self.values.get(&value)?).copied()
    }

    /// Appends `instruction` to `body`; one that computes with bf16 is put between conversions from and to it.
    fn push(&mut self, mut instruction: Instruction, body: &mut Vec<Instruction>) {
        let narrow = |kind: Option<Word>| kind.and_then(|kind| self.narrow.get(&kind)).copied();
        let made = narrow(instruction.result_type);
        let converts = instruction.class.opcode == Op::FConvert && made.is_some();
        if moves(instruction.class.opcode) && !converts {
            body.push(instruction);
            return;
        }
        for operand in &mut instruction.operands {
            let Operand::IdRef(value) = operand else {
                continue;
            };
            let Some(count) = self.of_bf16(*value) else {
                continue;
            };
            let wide = self.kind(Scalar::F32, count);
            *value = self.compute(Op::FConvert, wide, &[*value], body);
            self.changed = true;
        }
        let (Some(count), Some(narrow), Some(result)) =
            (made, instruction.result_type, instruction.result_id)
        else {
            body.push(instruction);
            return;
        };
        let (wide, exact) = (self.kind(Scalar::F32, count), self.fresh());
        instruction.result_type = Some(wide);
        instruction.result_id = Some(exact);
        let given = instruction.operands.first();
        let is_wide = |value: &Word| self.values.get(value) == Some(&wide);
        let exact = match given {
            // A conversion from f32 needs only the rounding that follows.
            Some(Operand::IdRef(value)) if converts && is_wide(value) => *value,
            _ => {
                body.push(instruction);
                exact
            }
        };
        let rounded = self.rounded(exact, count, body);
        let from = vec![Operand::IdRef(rounded)];
        body.push(Instruction::new(
            Op::FConvert,
            Some(narrow),
            Some(result),
            from,
        ));
        self.computed.insert(result, exact);
        self.changed = true;
    }

    /// Appends an instruction and returns the id of its result.
    fn compute(
        &mut self,
        opcode: Op,
        kind: Word,
        operands: &[Word],
        body: &mut Vec<Instruction>,
    ) -> Word {
        let id = self.fresh();
        let operands = operands.iter().map(|id| Operand::IdRef(*id)).collect();
        body.push(Instruction::new(opcode, Some(kind), Some(id), operands));
        self.values.insert(id, kind);
        id
    }

    /// Appends the rounding of `count` components of f32 to values that bf16 can hold: to nearest, ties to even; NaN
    /// stays NaN.
    fn rounded(&mut self, exact: Word, count: u32, body: &mut Vec<Instruction>) -> Word {
        let kinds = [Scalar::F32, Scalar::U32, Scalar::Bool].map(|scalar| self.kind(scalar, count));
        let [floats, words, bools] = kinds;
        let constants = [
            16,
            1,
            0x7FFF,
            0x7FFF_FFFF,
            0x7F80_0000,
            0x40_0000,
            0xFFFF_0000,
        ];
        let [
            sixteen,
            one,
            below_half,
            all_but_sign,
            infinity,
            quiet,
            upper,
        ] = constants.map(|value| self.words(value, count));
        let bits = self.compute(Op::Bitcast, words, &[exact], body);
        let last = self.compute(Op::ShiftRightLogical, words, &[bits, sixteen], body);
        let odd = self.compute(Op::BitwiseAnd, words, &[last, one], body);
        let carry = self.compute(Op::IAdd, words, &[odd, below_half], body);
        let sum = self.compute(Op::IAdd, words, &[bits, carry], body);
        let size = self.compute(Op::BitwiseAnd, words, &[bits, all_but_sign], body);
        let is_nan = self.compute(Op::UGreaterThan, bools, &[size, infinity], body);
        let nan = self.compute(Op::BitwiseOr, words, &[bits, quiet], body);
        let chosen = self.compute(Op::Select, words, &[is_nan, nan, sum], body);
        let kept = self.compute(Op::BitwiseAnd, words, &[chosen, upper], body);
        self.compute(Op::Bitcast, floats, &[kept], body)
    }

    /// Moves a decoration about how a result may be computed to the computation in f32.
    fn retarget(&self, annotation: &mut Instruction) {
        let [Operand::IdRef(target), Operand::Decoration(decoration), ..] =
            &mut annotation.operands[..]
        else {
            return;
        };
        let of_arithmetic = [Decoration::FPFastMathMode, Decoration::NoContraction];
        if let (Some(id), true) = (
            self.computed.get(target),
            of_arithmetic.contains(decoration),
        ) {
            *target = *id;
        }
    }
}

/// Whether an instruction only moves bf16 values or converts them, which the extension allows.
fn moves(opcode: Op) -> bool {
    matches!(
        opcode,
        Op::Load
            | Op::Store
            | Op::Variable
            | Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::CopyObject
            | Op::CopyLogical
            | Op::CompositeConstruct
            | Op::CompositeExtract
            | Op::CompositeInsert
            | Op::VectorExtractDynamic
            | Op::VectorInsertDynamic
            | Op::VectorShuffle
            | Op::Select
            | Op::Phi
            | Op::FConvert
            | Op::Bitcast
            | Op::ReturnValue
            | Op::FunctionCall
            | Op::Undef
            | Op::FunctionParameter
            | Op::CooperativeMatrixLoadKHR
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixMulAddKHR
    )
}

#[cfg(test)]
#[path = "bf16_tests.rs"]
mod tests;
