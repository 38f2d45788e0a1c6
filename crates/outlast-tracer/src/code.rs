//! Instructions as a trace has them: what they are, and their registers as ChampSim numbers them.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register,
};
use outlast_trace::{ChampSimInstr, Site, SiteKind};

/// What one instruction is.
pub fn site(at: u64, bytes: &[u8], facts: &mut InstructionInfoFactory) -> Site {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let mut site = Site { at, len: bytes.len() as u8, ..Site::default() };
    if instruction.code() == Code::INVALID {
        return site;
    }
    site.kind = kind(&instruction);
    let (mut sources, mut destinations) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<u8>, register: u8| {
        if register != 0 && !list.contains(&register) {
            list.push(register);
        }
    };
    for used in facts.info(&instruction).used_registers() {
        let register = number(used.register());
        let access = used.access();
        if matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            add(&mut sources, register);
        }
        if matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            add(&mut destinations, register);
        }
    }
    if site.kind.is_branch() {
        add(&mut destinations, ChampSimInstr::INSTRUCTION_POINTER);
        if site.kind == SiteKind::Conditional {
            sources.insert(0, ChampSimInstr::FLAGS);
            add(&mut sources, ChampSimInstr::INSTRUCTION_POINTER);
        }
    } else {
        if instruction.rflags_read() != 0 {
            add(&mut sources, ChampSimInstr::FLAGS);
        }
        if instruction.rflags_modified() != 0 {
            add(&mut destinations, ChampSimInstr::FLAGS);
        }
    }
    for (to, from) in site.sources.iter_mut().zip(sources) {
        *to = from;
    }
    for (to, from) in site.destinations.iter_mut().zip(destinations) {
        *to = from;
    }
    site
}

fn kind(instruction: &Instruction) -> SiteKind {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => return SiteKind::Conditional,
        FlowControl::UnconditionalBranch => return SiteKind::Jump,
        FlowControl::IndirectBranch => return SiteKind::IndirectJump,
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {
            return SiteKind::System;
        }
        FlowControl::Call => return SiteKind::Call,
        FlowControl::IndirectCall => return SiteKind::IndirectCall,
        FlowControl::Return => return SiteKind::Return,
        _ => {}
    }
    match instruction.mnemonic() {
        Mnemonic::Sfence => SiteKind::Sfence,
        Mnemonic::Mfence => SiteKind::Mfence,
        Mnemonic::Lfence => SiteKind::Lfence,
        Mnemonic::Clwb => SiteKind::Clwb,
        Mnemonic::Clflushopt => SiteKind::ClflushOpt,
        Mnemonic::Clflush => SiteKind::Clflush,
        Mnemonic::Movnti
        | Mnemonic::Movntdq
        | Mnemonic::Movntps
        | Mnemonic::Movntpd
        | Mnemonic::Movntq
        | Mnemonic::Vmovntdq
        | Mnemonic::Vmovntps
        | Mnemonic::Vmovntpd => SiteKind::StoreNt,
        Mnemonic::Xchg if instruction.op_kind(0) == iced_x86::OpKind::Memory => SiteKind::Locked,
        Mnemonic::Syscall => SiteKind::System,
        _ if instruction.has_lock_prefix() => SiteKind::Locked,
        _ if instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix()) =>
        {
            SiteKind::Repeated
        }
        _ => SiteKind::Plain,
    }
}

/// A register's number. ChampSim gives a meaning to the stack pointer's, the flags' and the
/// instruction pointer's; the others only have to differ.
fn number(register: Register) -> u8 {
    let full = register.full_register();
    if full == Register::RSP {
        return ChampSimInstr::STACK_POINTER;
    }
    if full == Register::RIP || full == Register::EIP {
        return ChampSimInstr::INSTRUCTION_POINTER;
    }
    if full.is_gpr64() {
        return 32 + full.number() as u8;
    }
    if full.is_vector_register() {
        return 64 + full.number() as u8;
    }
    if full.is_st() || full.is_mm() {
        return 96 + full.number() as u8;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Site {
        site(0x40_0000, bytes, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn instructions_are_told_apart() {
        let kinds = [
            (&[0x90][..], SiteKind::Plain),
            (&[0x74, 0x10], SiteKind::Conditional),
            (&[0xeb, 0x10], SiteKind::Jump),
            (&[0xff, 0xe0], SiteKind::IndirectJump),
            (&[0xe8, 0, 0, 0, 0], SiteKind::Call),
            (&[0xff, 0xd0], SiteKind::IndirectCall),
            (&[0xc3], SiteKind::Return),
            (&[0x0f, 0x05], SiteKind::System),
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f], SiteKind::Locked),
            (&[0x48, 0x87, 0x07], SiteKind::Locked),
            (&[0x48, 0x87, 0xc3], SiteKind::Plain),
            (&[0x0f, 0xae, 0xf8], SiteKind::Sfence),
            (&[0x0f, 0xae, 0xf0], SiteKind::Mfence),
            (&[0x66, 0x0f, 0xae, 0x30], SiteKind::Clwb),
            (&[0x66, 0x0f, 0xe7, 0x07], SiteKind::StoreNt),
            (&[0xf3, 0xa4], SiteKind::Repeated),
            (&[0xa4], SiteKind::Plain),
        ];
        for (bytes, kind) in kinds {
            assert_eq!(of(bytes).kind, kind, "{bytes:x?}");
        }
    }

    #[test]
    fn registers_are_those_that_it_reads_and_writes() {
        // add [rbx+rcx], rax
        let add = of(&[0x48, 0x01, 0x04, 0x0b]);
        let mut sources = add.sources;
        sources.sort_unstable();
        assert_eq!(sources, [0, 32, 33, 35]);
        assert_eq!(add.destinations, [ChampSimInstr::FLAGS, 0]);
        // jne
        let jne = of(&[0x75, 0x10]);
        assert_eq!(jne.sources[..2], [ChampSimInstr::FLAGS, ChampSimInstr::INSTRUCTION_POINTER]);
        assert_eq!(jne.destinations[0], ChampSimInstr::INSTRUCTION_POINTER);
        // push rbp
        let push = of(&[0x55]);
        assert!(push.sources.contains(&ChampSimInstr::STACK_POINTER));
        assert!(push.destinations.contains(&ChampSimInstr::STACK_POINTER));
    }
}
