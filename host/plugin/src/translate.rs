//! The calls and counts that the plugin adds to translated code.

use std::ffi::{c_uint, c_void};
use std::sync::Once;

use crate::access::{accessed, fences, flushes_all, flushes_line};
use crate::clock::{share_used, waits};
use crate::flushed::flush_data;
use crate::instruction::{Watched, is_plain};
use crate::log::What;
use crate::options::{LogOptions, SignalWhen, contains};
use crate::qemu::interface::{Block, Instruction, PluginId};
use crate::qemu::internals::RegisterOperations;
use crate::report::Cause;
use crate::session::{Session, fail};
use crate::signal;
use crate::time::FULL;
use crate::trace::{hooks, tracer};

/// Guards [`begin`]. At the first translated block the machine is complete, and its memory loaded.
static BEGUN: Once = Once::new();

/// QEMU calls this for each block that it translates.
pub(crate) extern "C" fn translated(_id: PluginId, block: Block) {
    let session = Session::get();
    BEGUN.call_once(|| begin(session));
    let sees = Sees::of(session);
    if session.options.time {
        (session.qemu).call_when_counted(block, FULL, share_used);
    }
    let instructions = session.qemu.instructions(block);
    let words = instructions.iter().map(|own| session.qemu.word(*own));
    let words: Vec<_> = words.collect();
    // A fetch is counted before its instruction, so these calls come before the counts.
    let fetches = match tracer::is_tracing() {
        true => hooks::watch_fetches(session, &instructions, &words),
        false => Vec::new(),
    };
    let enters = |at: usize| fetches.get(at) == Some(&true);
    let stops = |at: usize| enters(at) || is_stop(session, instructions[at], words[at]);
    count(session, &instructions, &words, stops);
    for (instruction, word) in instructions.iter().zip(&words) {
        watch(session, &sees, *instruction, *word);
        if tracer::is_tracing() {
            hooks::watch(session, *instruction, *word);
        }
    }
}

/// The accesses that the plugin must see.
struct Sees {
    stores: bool,
    loads: bool,
}

impl Sees {
    fn of(session: &Session) -> Self {
        let options = &session.options;
        let model = session.model();
        let is_signalled = options.signal != SignalWhen::Never || options.control.is_some();
        // Stores are needed for the caches, and to count devices' registers after a signal.
        let logs = |log: &LogOptions| !log.registers.is_empty() || !log.loads.is_empty();
        let stores =
            options.ram.is_some() || is_signalled || options.log.as_ref().is_some_and(logs);
        let logs_loads = |log: &LogOptions| !log.loads.is_empty();
        let loads = model.sees_loads || options.log.as_ref().is_some_and(logs_loads);
        Sees {
            stores,
            loads: stores && loads,
        }
    }
}

/// Whether the plugin reads the exact count of instructions before this one.
fn is_stop(session: &Session, instruction: Instruction, word: u32) -> bool {
    let watched = matches!(
        Watched::of(word),
        Some(Watched::WaitForInterrupt | Watched::Mark(_))
    );
    let acts = [is_signal, is_again, is_logged];
    watched || acts.iter().any(|acts| acts(session, instruction))
}

fn is_signal(session: &Session, instruction: Instruction) -> bool {
    match &session.options.signal {
        SignalWhen::Pc(code) => code.contains(session.qemu.address(instruction)),
        SignalWhen::Never | SignalWhen::At(_) | SignalWhen::Store { .. } => false,
    }
}

/// Whether the power-fail line may be lowered and raised again at the instruction.
fn is_again(session: &Session, instruction: Instruction) -> bool {
    let again = session.options.again.as_ref();
    again.is_some_and(|code| code.contains(session.qemu.address(instruction)))
}

/// Whether the log records executions of the instruction.
fn is_logged(session: &Session, instruction: Instruction) -> bool {
    let log = session.options.log.as_ref();
    log.is_some_and(|log| contains(&log.code, session.qemu.address(instruction)))
}

/// Adds code that counts instructions. One addition covers several if only the last can leave the
/// block. So the count is exact even if a device access or an exception ends a block early.
fn count(
    session: &Session,
    instructions: &[Instruction],
    words: &[u32],
    stops: impl Fn(usize) -> bool,
) {
    let mut first = 0;
    for at in 0..words.len() {
        let is_last = at + 1 == words.len();
        if is_last || !is_plain(words[at]) || stops(at) || stops(at + 1) {
            let number = at + 1 - first;
            session.qemu.count(instructions[first], number as u64);
            first = at + 1;
        }
    }
}

fn watch(session: &Session, sees: &Sees, instruction: Instruction, word: u32) {
    let qemu = &session.qemu;
    if is_signal(session, instruction) {
        qemu.call_before(instruction, signals, 0);
    }
    if is_again(session, instruction) {
        qemu.call_before(instruction, signals_again, 0);
    }
    if is_logged(session, instruction) {
        let address = usize::try_from(qemu.address(instruction)).expect("hosts have 64 bits");
        qemu.call_before(instruction, executes, address);
    }
    let has_cache = session.options.ram.is_some();
    match Watched::of(word) {
        Some(Watched::WaitForInterrupt) => qemu.call_before(instruction, waits, 0),
        Some(Watched::Mark(number)) => {
            qemu.call_before(instruction, marks, usize::from(number));
        }
        Some(Watched::Fence) if has_cache => qemu.call_before(instruction, fences, 0),
        Some(Watched::FlushAll) if has_cache => qemu.call_before(instruction, flushes_all, 0),
        Some(Watched::FlushLine {
            register,
            is_physical,
        }) if has_cache => {
            let data = flush_data(register, is_physical);
            qemu.call_with_registers(instruction, flushes_line, data);
        }
        Some(Watched::Fence | Watched::FlushAll | Watched::FlushLine { .. }) | None => {}
    }
    if sees.stores && !is_plain(word) {
        qemu.call_after_access(instruction, accessed, sees.loads);
    }
}

extern "C" fn marks(number: c_uint, data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let counter = session.qemu.read_counter(hart);
    let mark = u16::try_from(data.addr()).expect("a mark's number");
    session.model().mark(hart, mark, counter);
    tracer::marked(session, hart, mark);
}

/// QEMU calls this before an instruction that the log records.
extern "C" fn executes(number: c_uint, data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let counter = session.qemu.read_counter(hart);
    let address = data.addr() as u64;
    session
        .model()
        .note(hart, counter, What::Executes { address });
}

/// QEMU calls this before the instruction that raises the power-fail line.
extern "C" fn signals(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    signal::count_down(session, Cause::Instruction, Session::hart(number));
}

/// QEMU calls this before an instruction at which the power-fail line may be lowered and raised
/// again.
extern "C" fn signals_again(_number: c_uint, _data: *mut c_void) {
    signal::count_down_again(Session::get());
}

/// Finishes the plugin's setup, which needs a complete machine.
fn begin(session: &Session) {
    let options = &session.options;
    if options.signal != SignalWhen::Never || options.control.is_some() {
        match signal::find(&session.internals, options.irq) {
            Ok(line) => _ = session.line.set(line),
            Err(reason) => fail(&reason),
        }
    }
    if let Some(address) = options.flush_register {
        let lock = session.internals.lock();
        (session.internals).make_registers(&lock, address, FLUSH_BYTES, &FLUSH);
    }
    tracer::powered_on(session);
    if let Some(cache) = &mut session.model().cache {
        match cache.visible().written() {
            Ok(written) => written.into_iter().for_each(|lines| cache.take(lines)),
            Err(reason) => fail(&reason),
        }
    }
}

/// The flush block's registers. A store to them is handled in [`accessed`], which knows the hart.
static FLUSH: RegisterOperations = RegisterOperations::new(read_flush, write_flush);
const FLUSH_BYTES: u64 = 0x1000;

/// `Config` of a SiFive cache: lines of 2^6 bytes, sets, ways and banks.
const FLUSH_CONFIG: u64 = 0x0608_1004;

extern "C" fn read_flush(_data: *mut c_void, offset: u64, _bytes: u32) -> u64 {
    if offset == 0 { FLUSH_CONFIG } else { 0 }
}

extern "C" fn write_flush(_data: *mut c_void, _offset: u64, _value: u64, _bytes: u32) {}
