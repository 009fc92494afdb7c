//! SPIR-V that computes with bf16, made valid.
//!
//! `SPV_KHR_bfloat16` lets a kernel store, move and convert bf16 values; sums, products, comparisons and functions of them
//! are not in it. CubeCL 0.11.3 writes such instructions all the same wherever a kernel's values are bf16, as those of
//! Burn's element-wise kernels are, and an NVIDIA driver (580.159) answers with garbage. So every module is read before
//! the driver gets it: what computes with bf16 computes in f32, and its result is rounded to bf16 once.

use std::collections::HashMap;

use rspirv::binary::{Assemble, Consumer, ParseAction, parse_words};
use rspirv::dr::{Instruction, ModuleHeader, Operand};
use rspirv::spirv::{Decoration, FPEncoding, Op, Word};

/// The words of a module with all of its arithmetic on bf16 done in f32; `None` for a module that has none.
///
/// # Errors
/// What is wrong with the words.
pub(super) fn computed_in_f32(words: &[u32]) -> Result<Option<Vec<u32>>, String> {
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

/// A module as a list of instructions. rspirv's own structure of one refuses some decorations that CubeCL writes.
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

/// Whether a 16-bit float with an encoding is declared: a scan that spares other kernels the parser.
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

/// What a module has of bf16, and what becomes of it.
struct Rewriting {
    /// How many components each type of bf16 has; 1 is the scalar.
    narrow: HashMap<Word, u32>,
    /// The type of f32 with so many components.
    wide: HashMap<u32, Word>,
    /// The type of each value of bf16.
    values: HashMap<Word, Word>,
    /// Declarations that the module lacked.
    added: Vec<Instruction>,
    /// The computation in f32 whose rounded result has the name of an old one.
    computed: HashMap<Word, Word>,
    changed: bool,
    /// The first name that is free.
    next: Word,
}

impl Rewriting {
    fn of(module: &Module) -> Self {
        let mut found = Self {
            narrow: HashMap::new(),
            wide: HashMap::new(),
            values: HashMap::new(),
            added: Vec::new(),
            computed: HashMap::new(),
            changed: false,
            next: module.header.bound,
        };
        for instruction in &module.instructions {
            found.declare(instruction);
            if let (Some(kind), Some(value)) = (instruction.result_type, instruction.result_id)
                && found.narrow.contains_key(&kind)
            {
                found.values.insert(value, kind);
            }
        }
        found
    }

    fn declare(&mut self, declared: &Instruction) {
        let Some(id) = declared.result_id else { return };
        match (declared.class.opcode, &declared.operands[..]) {
            (
                Op::TypeFloat,
                [
                    Operand::LiteralBit32(16),
                    Operand::FPEncoding(FPEncoding::BFloat16KHR),
                ],
            ) => {
                self.narrow.insert(id, 1);
            }
            (Op::TypeFloat, [Operand::LiteralBit32(32)]) => {
                self.wide.insert(1, id);
            }
            (Op::TypeVector, [Operand::IdRef(component), Operand::LiteralBit32(count)]) => {
                if self.narrow.get(component) == Some(&1) {
                    self.narrow.insert(id, *count);
                } else if self.wide.get(&1) == Some(component) {
                    self.wide.insert(*count, id);
                }
            }
            _ => {}
        }
    }

    fn fresh(&mut self) -> Word {
        let id = self.next;
        self.next += 1;
        id
    }

    /// The type of `count` components of f32, declared if need be.
    fn wide(&mut self, count: u32) -> Word {
        if let Some(wide) = self.wide.get(&count) {
            return *wide;
        }
        let (opcode, operands) = match count {
            1 => (Op::TypeFloat, vec![Operand::LiteralBit32(32)]),
            _ => {
                let scalar = Operand::IdRef(self.wide(1));
                (Op::TypeVector, vec![scalar, Operand::LiteralBit32(count)])
            }
        };
        let id = self.fresh();
        self.added
            .push(Instruction::new(opcode, None, Some(id), operands));
        self.wide.insert(count, id);
        id
    }

    /// Appends `instruction` to `body`, between conversions where it computes with bf16.
    fn push(&mut self, mut instruction: Instruction, body: &mut Vec<Instruction>) {
        if moves(instruction.class.opcode) {
            body.push(instruction);
            return;
        }
        for operand in &mut instruction.operands {
            let Operand::IdRef(value) = operand else {
                continue;
            };
            let Some(narrow) = self.values.get(value).copied() else {
                continue;
            };
            let (wide, id) = (self.wide(self.narrow[&narrow]), self.fresh());
            let from = vec![Operand::IdRef(*value)];
            body.push(Instruction::new(Op::FConvert, Some(wide), Some(id), from));
            *value = id;
            self.changed = true;
        }
        let narrow = instruction
            .result_type
            .filter(|kind| self.narrow.contains_key(kind));
        let (Some(narrow), Some(result)) = (narrow, instruction.result_id) else {
            body.push(instruction);
            return;
        };
        let (wide, id) = (self.wide(self.narrow[&narrow]), self.fresh());
        instruction.result_type = Some(wide);
        instruction.result_id = Some(id);
        body.push(instruction);
        let from = vec![Operand::IdRef(id)];
        body.push(Instruction::new(
            Op::FConvert,
            Some(narrow),
            Some(result),
            from,
        ));
        self.computed.insert(result, id);
        self.changed = true;
    }

    /// Turns a decoration that says how a result may be computed to the computation in f32.
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

/// Whether an instruction leaves the bits of a bf16 value as they are, or converts it: that is what the extension has.
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
