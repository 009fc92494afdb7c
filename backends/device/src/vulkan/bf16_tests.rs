use rspirv::dr::Builder;
use rspirv::spirv::{
    AddressingModel, Capability, ExecutionModel, FunctionControl, GLOp, MemoryModel,
};

use super::*;

/// A kernel that adds, compares, exponentiates and selects between vectors of bf16, with or without a declaration of
/// f32.
fn kernel(with_f32: bool) -> Vec<u32> {
    let mut b = Builder::new();
    b.set_version(1, 6);
    for capability in [Capability::Shader, Capability::BFloat16TypeKHR] {
        b.capability(capability);
    }
    b.extension("SPV_KHR_bfloat16");
    let functions = b.ext_inst_import("GLSL.std.450");
    b.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
    let (void, bool_) = (b.type_void(), b.type_bool());
    if with_f32 {
        b.type_float(32, None);
    }
    let bf16 = b.type_float(16, Some(FPEncoding::BFloat16KHR));
    let (pair, bools) = (b.type_vector(bf16, 2), b.type_vector(bool_, 2));
    let one = b.constant_bit32(bf16, 0x3F80);
    let ones = b.constant_composite(pair, [one, one]);
    let signature = b.type_function(void, vec![]);
    let main = b
        .begin_function(void, None, FunctionControl::NONE, signature)
        .unwrap();
    b.begin_block(None).unwrap();
    let sum = b.f_add(pair, None, ones, ones).unwrap();
    b.decorate(sum, Decoration::NoContraction, []);
    let less = b.f_ord_less_than(bools, None, sum, ones).unwrap();
    let power = b
        .ext_inst(
            pair,
            None,
            functions,
            GLOp::Exp as u32,
            [Operand::IdRef(sum)],
        )
        .unwrap();
    b.select(pair, None, less, power, sum).unwrap();
    b.ret().unwrap();
    b.end_function().unwrap();
    b.entry_point(ExecutionModel::GLCompute, main, "main", []);
    b.module().assemble()
}

#[test]
fn nothing_computes_with_bf16() {
    for with_f32 in [true, false] {
        let words = computed_in_f32(&kernel(with_f32)).unwrap().unwrap();
        let module = Module::parse(&words).unwrap();
        let types = Rewriting::of(&module);
        let start = module
            .instructions
            .iter()
            .position(|one| one.class.opcode == Op::Label);
        let body = &module.instructions[start.unwrap() + 1..];
        let narrow = |operand: &Operand| matches!(operand, Operand::IdRef(id) if types.of_bf16(*id).is_some());
        for instruction in body {
            let made = instruction
                .result_type
                .is_some_and(|kind| types.narrow.contains_key(&kind));
            let computes = made || instruction.operands.iter().any(narrow);
            assert!(
                !computes || moves(instruction.class.opcode),
                "{instruction:?}"
            );
        }
        let opcodes: Vec<Op> = body.iter().map(|one| one.class.opcode).collect();
        use Op::{
            Bitcast, BitwiseAnd, BitwiseOr, ExtInst, FAdd, FConvert, FOrdLessThan, FunctionEnd,
            IAdd, Return, Select, ShiftRightLogical, UGreaterThan,
        };
        let shift = [Bitcast, ShiftRightLogical, BitwiseAnd, IAdd, IAdd];
        let choose = [BitwiseAnd, UGreaterThan, BitwiseOr, Select, BitwiseAnd];
        let round = [&shift[..], &choose, &[Bitcast, FConvert]].concat();
        let sum = [&[FConvert, FConvert, FAdd][..], &round].concat();
        let less = [FConvert, FConvert, FOrdLessThan];
        let power = [&[FConvert, ExtInst][..], &round].concat();
        let end = [Select, Return, FunctionEnd];
        assert_eq!(opcodes, [&sum[..], &less, &power, &end].concat());
        let of_f32 = |one: &&Instruction| one.operands == [Operand::LiteralBit32(32)];
        let floats = module.instructions.iter().filter(of_f32).count();
        assert_eq!(floats, 1, "a type must not be declared twice");
        let decorations = module.instructions.iter();
        let mut decorations = decorations.filter(|one| one.class.opcode == Op::Decorate);
        let decorated = &decorations.next().unwrap().operands[0];
        assert_eq!(*decorated, Operand::IdRef(body[2].result_id.unwrap()));
        assert!(
            module
                .instructions
                .iter()
                .all(|one| one.result_id < Some(types.next))
        );
    }
}

#[test]
fn other_modules_stay_as_they_are() {
    let mut b = Builder::new();
    b.type_float(16, None);
    assert_eq!(computed_in_f32(&b.module().assemble()), Ok(None));
}

#[test]
fn words_that_are_no_module_are_an_error() {
    let mut words = kernel(true);
    let last = words.len() - 1;
    words[last] = 0xFFFF_FFFF;
    assert!(computed_in_f32(&words).unwrap_err().starts_with("SPIR-V: "));
}

/// Interprets the instructions that [`Rewriting::rounded`] writes for the kernel's sum, and returns the rounded bits of a
/// sum `value`.
fn interpreted(module: &Module, value: u32) -> u32 {
    let mut words: HashMap<Word, u32> = HashMap::new();
    for one in &module.instructions {
        let (Some(id), operand) = (one.result_id, |at: usize| one.operands[at].clone()) else {
            continue;
        };
        let word = |at: usize| match operand(at) {
            Operand::IdRef(id) => words.get(&id).copied().unwrap_or(value),
            Operand::LiteralBit32(word) => word,
            other => panic!("{other:?}"),
        };
        let result = match one.class.opcode {
            Op::Constant | Op::Bitcast => word(0),
            // All components of these constants are equal.
            Op::ConstantComposite => word(0),
            Op::ShiftRightLogical => word(0) >> word(1),
            Op::BitwiseAnd => word(0) & word(1),
            Op::BitwiseOr => word(0) | word(1),
            Op::IAdd => word(0).wrapping_add(word(1)),
            Op::UGreaterThan => u32::from(word(0) > word(1)),
            Op::Select => word(if word(0) == 1 { 1 } else { 2 }),
            Op::FAdd => value,
            Op::FConvert if words.contains_key(&id) => continue,
            Op::FConvert => word(0),
            Op::FOrdLessThan => break,
            _ => continue,
        };
        words.insert(id, result);
    }
    let is_bitcast = |one: &&Instruction| one.class.opcode == Op::Bitcast;
    let last = module.instructions.iter().filter(is_bitcast).nth(1);
    words[&last.unwrap().result_id.unwrap()]
}

#[test]
fn results_are_rounded_to_the_nearest_and_ties_to_even() {
    let words = computed_in_f32(&kernel(true)).unwrap().unwrap();
    let module = Module::parse(&words).unwrap();
    // For some bf16 values and both ends of the range: the value, the midpoint to the next, and their neighbours in
    // f32.
    let tops = (0..=u16::MAX)
        .step_by(37)
        .chain([0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x8000]);
    for top in tops {
        for low in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            let bits = u32::from(top) << 16 | low;
            let want = half::bf16::from_f32(f32::from_bits(bits));
            let got = interpreted(&module, bits);
            assert_eq!(got & 0xFFFF, 0, "{bits:#x}: exact in bf16");
            let got = half::bf16::from_bits((got >> 16) as u16);
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{bits:#x}: {got} for {want}");
        }
    }
}
