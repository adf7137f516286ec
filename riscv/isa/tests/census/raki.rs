//! `raki`, a decoder of RV64IMAC, Zicsr, Zifencei, Zicboz and some instructions of S-mode.

use std::panic::{Location, RefUnwindSafe};
use std::sync::Once;

use raki::{Decode, Instruction, Isa};

/// The name of raki's operation, in the specification's spelling.
pub(crate) fn name_of(instruction: &Instruction) -> String {
    let name = instruction.opc.to_string().to_lowercase();
    // One of its names ends with a comma.
    name.replace('_', ".").replace(',', "")
}

/// Raki's reading of an instruction; `None` for encodings that it does not know. It panics at some
/// of these.
pub(crate) fn read(bits: impl Decode + Copy + RefUnwindSafe) -> Option<Instruction> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_rakis = |place: &Location<'_>| place.file().contains("raki-");
            if !info.location().is_some_and(is_rakis) {
                before(info);
            }
        }));
    });
    std::panic::catch_unwind(|| bits.decode(Isa::Rv64).ok()).ok()?
}

/// What a compressed instruction stands for, by its name.
pub(crate) fn long_name(short: &str) -> &str {
    match short {
        "c.addi4spn" | "c.li" | "c.addi16sp" | "c.nop" => "addi",
        "c.lwsp" => "lw",
        "c.ldsp" => "ld",
        "c.swsp" => "sw",
        "c.sdsp" => "sd",
        "c.j" => "jal",
        "c.jr" => "jalr",
        "c.beqz" => "beq",
        "c.bnez" => "bne",
        "c.mv" => "add",
        other => other.trim_start_matches("c."),
    }
}
