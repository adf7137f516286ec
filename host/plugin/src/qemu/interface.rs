//! The parts of QEMU's plugin interface, version 4, that the plugin uses.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use super::symbols::{MissingSymbol, functions};

/// ID of a loaded plugin.
pub(crate) type PluginId = u64;

/// QEMU's description of itself for a plugin.
#[derive(Debug)]
#[repr(C)]
pub struct Info {
    target: *const c_char,
    oldest_interface: c_int,
    interface: c_int,
    is_system: bool,
    harts: c_int,
    most_harts: c_int,
}

impl Info {
    /// The emulated architecture.
    pub(crate) fn target(&self) -> String {
        // SAFETY: QEMU's string lives until QEMU ends.
        let target = unsafe { CStr::from_ptr(self.target) };
        target.to_string_lossy().into_owned()
    }

    pub(crate) fn is_system(&self) -> bool {
        self.is_system
    }

    pub(crate) fn harts(&self) -> usize {
        usize::try_from(self.harts).unwrap_or(0)
    }
}

/// A block, valid during its translation.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Block(*const c_void);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction(*mut c_void);

/// Called when a hart executes a block or an instruction.
pub(crate) type Executed = extern "C" fn(c_uint, *mut c_void);
/// Called after a hart accessed memory: its number, the kind, the virtual address.
pub(crate) type Accessed = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Called for a new hart.
pub(crate) type Made = extern "C" fn(PluginId, c_uint);
/// Called when a block is translated.
pub(crate) type Translated = extern "C" fn(PluginId, Block);
/// Called when QEMU ends.
pub(crate) type Ended = extern "C" fn(PluginId, *mut c_void);

/// QEMU's `qemu_plugin_u64`: the place of a value in each hart's scoreboard entry.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    score: *mut c_void,
    offset: usize,
}

/// QEMU's stored or loaded value.
#[repr(C)]
struct Value {
    kind: c_uint,
    bytes: [u64; 2],
}

/// GLib's arrays of bytes and of other elements.
#[repr(C)]
struct Array {
    data: *mut u8,
    length: c_uint,
}

#[repr(C)]
struct RegisterDescription {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// `QEMU_PLUGIN_INLINE_ADD_U64`, `QEMU_PLUGIN_COND_GE`.
const INLINE_ADD: c_int = 0;
const AT_LEAST: c_int = 7;
/// `QEMU_PLUGIN_COND_NE`.
const OTHER: c_int = 3;
/// `QEMU_PLUGIN_CB_NO_REGS`, `QEMU_PLUGIN_CB_R_REGS`.
const NO_REGISTERS: c_int = 0;
const READS_REGISTERS: c_int = 1;
/// `QEMU_PLUGIN_MEM_R`, `QEMU_PLUGIN_MEM_W`, `QEMU_PLUGIN_MEM_RW`.
const LOADS: c_int = 1;
const STORES: c_int = 2;
const LOADS_AND_STORES: c_int = 3;

functions! {
    /// The interface's functions, and GLib's for arrays.
    struct Functions {
        fn qemu_plugin_scoreboard_new(usize) -> *mut c_void;
        fn qemu_plugin_scoreboard_find(*mut c_void, c_uint) -> *mut c_void;
        fn qemu_plugin_tb_n_insns(*const c_void) -> usize;
        fn qemu_plugin_tb_get_insn(*const c_void, usize) -> *mut c_void;
        fn qemu_plugin_insn_vaddr(*const c_void) -> u64;
        fn qemu_plugin_insn_haddr(*const c_void) -> *const c_void;
        fn qemu_plugin_insn_data(*const c_void, *mut c_void, usize) -> usize;
        fn qemu_plugin_register_vcpu_tb_trans_cb(PluginId, Translated);
        fn qemu_plugin_register_vcpu_init_cb(PluginId, Made);
        fn qemu_plugin_register_atexit_cb(PluginId, Ended, *mut c_void);
        fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(*mut c_void, c_int, Entry, u64);
        fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
            *const c_void, Executed, c_int, c_int, Entry, u64, *mut c_void,
        );
        fn qemu_plugin_register_vcpu_insn_exec_cb(
            *mut c_void, Executed, c_int, *mut c_void,
        );
        fn qemu_plugin_register_vcpu_insn_exec_cond_cb(
            *mut c_void, Executed, c_int, c_int, Entry, u64, *mut c_void,
        );
        fn qemu_plugin_register_vcpu_mem_cb(
            *mut c_void, Accessed, c_int, c_int, *mut c_void,
        );
        fn qemu_plugin_get_hwaddr(u32, u64) -> *const c_void;
        fn qemu_plugin_hwaddr_is_io(*const c_void) -> bool;
        fn qemu_plugin_hwaddr_phys_addr(*const c_void) -> u64;
        fn qemu_plugin_hwaddr_device_name(*const c_void) -> *const c_char;
        fn qemu_plugin_mem_size_shift(u32) -> c_uint;
        fn qemu_plugin_mem_is_store(u32) -> bool;
        fn qemu_plugin_mem_get_value(u32) -> Value;
        fn qemu_plugin_get_registers() -> *const Array;
        fn qemu_plugin_read_register(*mut c_void, *mut Array) -> c_int;
        fn g_byte_array_new() -> *mut Array;
        fn g_byte_array_unref(*mut Array);
    }
}

/// The physical place of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// Whether a device answers there.
    pub(crate) is_device: bool,
}

/// QEMU's handles of the general registers, by the register's number.
#[derive(Debug)]
pub(crate) struct Registers([*mut c_void; 32]);

// SAFETY: the handles are numbers that QEMU looks up in tables of its own.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

/// QEMU's names of the general registers, x0 first.
const NAMES: [&CStr; 32] = [
    c"zero", c"ra", c"sp", c"gp", c"tp", c"t0", c"t1", c"t2", c"fp", c"s1", c"a0", c"a1", c"a2",
    c"a3", c"a4", c"a5", c"a6", c"a7", c"s2", c"s3", c"s4", c"s5", c"s6", c"s7", c"s8", c"s9",
    c"s10", c"s11", c"t3", c"t4", c"t5", c"t6",
];

/// Size of a hart's scoreboard entry: the counter of instructions, and the line of its last fetch.
const PLACE_BYTES: usize = 64;
const LINE_PLACE: usize = 8;

/// The plugin interface, and a counter of instructions for each hart.
#[derive(Debug)]
pub(crate) struct Interface {
    functions: Functions,
    score: *mut c_void,
}

// SAFETY: the interface may be called from all threads in which QEMU calls a plugin, and the
// scoreboard is never freed.
unsafe impl Send for Interface {}
// SAFETY: as above.
unsafe impl Sync for Interface {}

impl Interface {
    /// Finds the functions, and creates the counters.
    pub(crate) fn find() -> Result<Self, MissingSymbol> {
        let functions = Functions::find()?;
        // SAFETY: any size is valid.
        let score = unsafe { (functions.qemu_plugin_scoreboard_new)(PLACE_BYTES) };
        Ok(Interface { functions, score })
    }

    /// Registers the plugin's callbacks.
    pub(crate) fn register(&self, id: PluginId, made: Made, translated: Translated, ended: Ended) {
        // SAFETY: `id` is the plugin's own.
        unsafe {
            (self.functions.qemu_plugin_register_vcpu_init_cb)(id, made);
            (self.functions.qemu_plugin_register_vcpu_tb_trans_cb)(id, translated);
            (self.functions.qemu_plugin_register_atexit_cb)(id, ended, std::ptr::null_mut());
        }
    }

    fn counter(&self, hart: usize) -> &AtomicU64 {
        let number = c_uint::try_from(hart).expect("QEMU's numbers of harts are small");
        // SAFETY: the hart exists, so it has an entry of at least eight aligned bytes. The entry
        // moves when further harts are created, and is looked up each time. Until all harts exist,
        // no hart runs and nothing counts.
        unsafe {
            let place = (self.functions.qemu_plugin_scoreboard_find)(self.score, number);
            AtomicU64::from_ptr(place.cast())
        }
    }

    /// Reads a hart's counter.
    pub(crate) fn read_counter(&self, hart: usize) -> u64 {
        self.counter(hart).load(Ordering::Relaxed)
    }

    /// Sets a hart's counter.
    pub(crate) fn set_counter(&self, hart: usize, value: u64) {
        self.counter(hart).store(value, Ordering::Relaxed);
    }

    /// Sets the line of a hart's last fetch.
    pub(crate) fn set_line(&self, hart: usize, line: u64) {
        let number = c_uint::try_from(hart).expect("QEMU's numbers of harts are small");
        // SAFETY: as for the counter, of whose entry the line is another part.
        unsafe {
            let place = (self.functions.qemu_plugin_scoreboard_find)(self.score, number);
            AtomicU64::from_ptr(place.cast::<u8>().add(LINE_PLACE).cast())
                .store(line, Ordering::Relaxed);
        }
    }

    fn entry(&self) -> Entry {
        self.entry_at(0)
    }

    fn entry_at(&self, offset: usize) -> Entry {
        Entry {
            score: self.score,
            offset,
        }
    }

    /// The instructions of a block.
    pub(crate) fn instructions(&self, block: Block) -> Vec<Instruction> {
        // SAFETY: QEMU passed the block for the duration of its translation.
        unsafe {
            let length = (self.functions.qemu_plugin_tb_n_insns)(block.0);
            let get = self.functions.qemu_plugin_tb_get_insn;
            (0..length)
                .map(|at| Instruction(get(block.0, at)))
                .collect()
        }
    }

    /// The instruction's bits; a compressed one is in the lower half.
    pub(crate) fn word(&self, instruction: Instruction) -> u32 {
        let mut bytes = [0; 4];
        // SAFETY: the call gets the buffer's length.
        let length = unsafe {
            let bytes = bytes.as_mut_ptr().cast();
            (self.functions.qemu_plugin_insn_data)(instruction.0, bytes, 4)
        };
        if length < 4 {
            bytes[2..].fill(0);
        }
        u32::from_le_bytes(bytes)
    }

    /// The instruction's virtual address.
    pub(crate) fn address(&self, instruction: Instruction) -> u64 {
        // SAFETY: QEMU gave it for the duration of its block's translation.
        unsafe { (self.functions.qemu_plugin_insn_vaddr)(instruction.0) }
    }

    /// Where QEMU's own memory has the instruction; `None`: it is not in RAM.
    pub(crate) fn host_address(&self, instruction: Instruction) -> Option<u64> {
        // SAFETY: QEMU gave it for the duration of its block's translation.
        let address = unsafe { (self.functions.qemu_plugin_insn_haddr)(instruction.0) };
        (!address.is_null()).then(|| address.addr() as u64)
    }

    /// Makes QEMU call `call` with `line` before an instruction executes, unless `line` is that of
    /// the hart's last fetch.
    pub(crate) fn call_if_other_line(&self, instruction: Instruction, call: Executed, line: u32) {
        // SAFETY: as above; the entry lives for ever.
        unsafe {
            (self.functions.qemu_plugin_register_vcpu_insn_exec_cond_cb)(
                instruction.0,
                call,
                NO_REGISTERS,
                OTHER,
                self.entry_at(LINE_PLACE),
                line.into(),
                std::ptr::without_provenance_mut(line as usize),
            );
        }
    }

    /// Makes the instruction add `number` to its hart's counter before it executes.
    pub(crate) fn count(&self, instruction: Instruction, number: u64) {
        // SAFETY: as above; the counter lives for ever.
        unsafe {
            (self
                .functions
                .qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu)(
                instruction.0,
                INLINE_ADD,
                self.entry(),
                number,
            );
        }
    }

    /// Makes QEMU call `call` when a block starts at a hart whose counter has reached `limit`.
    pub(crate) fn call_when_counted(&self, block: Block, limit: u64, call: Executed) {
        // SAFETY: QEMU passed the block for the duration of its translation.
        unsafe {
            (self.functions.qemu_plugin_register_vcpu_tb_exec_cond_cb)(
                block.0,
                call,
                NO_REGISTERS,
                AT_LEAST,
                self.entry(),
                limit,
                std::ptr::null_mut(),
            );
        }
    }

    /// Makes QEMU call `call` with `data` before an instruction executes.
    pub(crate) fn call_before(&self, instruction: Instruction, call: Executed, data: usize) {
        self.call(instruction, call, NO_REGISTERS, data);
    }

    /// Like [`call_before`](Self::call_before), for a `call` that reads the hart's registers.
    pub(crate) fn call_with_registers(
        &self,
        instruction: Instruction,
        call: Executed,
        data: usize,
    ) {
        self.call(instruction, call, READS_REGISTERS, data);
    }

    fn call(&self, instruction: Instruction, call: Executed, flags: c_int, data: usize) {
        let data = std::ptr::without_provenance_mut(data);
        // SAFETY: QEMU gave it for the duration of its block's translation.
        unsafe {
            (self.functions.qemu_plugin_register_vcpu_insn_exec_cb)(
                instruction.0,
                call,
                flags,
                data,
            );
        }
    }

    /// Makes QEMU call `call` after each store of an instruction, and after each load if `loads`.
    pub(crate) fn call_after_access(&self, instruction: Instruction, call: Accessed, loads: bool) {
        let which = if loads { LOADS_AND_STORES } else { STORES };
        self.call_after(instruction, call, which);
    }

    /// Makes QEMU call `call` after each store of an instruction.
    pub(crate) fn call_after_store(&self, instruction: Instruction, call: Accessed) {
        self.call_after(instruction, call, STORES);
    }

    /// Makes QEMU call `call` after each load of an instruction.
    pub(crate) fn call_after_load(&self, instruction: Instruction, call: Accessed) {
        self.call_after(instruction, call, LOADS);
    }

    fn call_after(&self, instruction: Instruction, call: Accessed, which: c_int) {
        // SAFETY: QEMU gave it for the duration of its block's translation.
        unsafe {
            (self.functions.qemu_plugin_register_vcpu_mem_cb)(
                instruction.0,
                call,
                NO_REGISTERS,
                which,
                std::ptr::null_mut(),
            );
        }
    }

    /// The place of the access that QEMU reports now; `None`: QEMU does not know it.
    pub(crate) fn place(&self, info: u32, address: u64) -> Option<Place> {
        // SAFETY: the result is valid until this thread's next call.
        unsafe {
            let place = (self.functions.qemu_plugin_get_hwaddr)(info, address);
            (!place.is_null()).then(|| Place {
                address: (self.functions.qemu_plugin_hwaddr_phys_addr)(place),
                is_device: (self.functions.qemu_plugin_hwaddr_is_io)(place),
            })
        }
    }

    /// The physical address of the access that QEMU reports now; `None`: QEMU does not know it.
    pub(crate) fn physical(&self, info: u32, address: u64) -> Option<u64> {
        // SAFETY: the result is valid until this thread's next call.
        unsafe {
            let place = (self.functions.qemu_plugin_get_hwaddr)(info, address);
            (!place.is_null()).then(|| (self.functions.qemu_plugin_hwaddr_phys_addr)(place))
        }
    }

    /// Whether the device with that name answered the access.
    pub(crate) fn is_device(&self, info: u32, address: u64, name: &CStr) -> bool {
        // SAFETY: as above; a name lives until QEMU ends.
        unsafe {
            let place = (self.functions.qemu_plugin_get_hwaddr)(info, address);
            if place.is_null() {
                return false;
            }
            let device = (self.functions.qemu_plugin_hwaddr_device_name)(place);
            !device.is_null() && CStr::from_ptr(device) == name
        }
    }

    pub(crate) fn access_bytes(&self, info: u32) -> usize {
        // SAFETY: it only reads its argument.
        1 << unsafe { (self.functions.qemu_plugin_mem_size_shift)(info) }
    }

    pub(crate) fn is_store(&self, info: u32) -> bool {
        // SAFETY: it only reads its argument.
        unsafe { (self.functions.qemu_plugin_mem_is_store)(info) }
    }

    /// The lower 64 bits of the stored or loaded value.
    pub(crate) fn value(&self, info: u32) -> u64 {
        // SAFETY: the call is made during an access.
        let value = unsafe { (self.functions.qemu_plugin_mem_get_value)(info) };
        // The other bytes of a narrow value are undefined.
        match value.kind {
            0 => value.bytes[0] & 0xff,
            1 => value.bytes[0] & 0xffff,
            2 => value.bytes[0] & 0xffff_ffff,
            _ => value.bytes[0],
        }
    }

    /// The general registers; `None`: QEMU does not list all of them. To be called only for a new
    /// hart.
    pub(crate) fn registers(&self) -> Option<Registers> {
        // SAFETY: QEMU returns an array of descriptions whose strings live for ever. The array, a
        // few kilobytes, is not freed.
        let list = unsafe {
            let array = &*(self.functions.qemu_plugin_get_registers)();
            std::slice::from_raw_parts(
                array.data.cast::<RegisterDescription>().cast_const(),
                array.length as usize,
            )
        };
        let mut handles = [std::ptr::null_mut(); 32];
        for (handle, name) in handles.iter_mut().zip(NAMES) {
            let register = list.iter().find(|register| {
                // SAFETY: as above.
                let (own, feature) = unsafe { (text(register.name), text(register.feature)) };
                own == Some(name) && feature == Some(c"org.gnu.gdb.riscv.cpu")
            });
            *handle = register?.handle;
        }
        Some(Registers(handles))
    }

    /// Reads a register of the calling hart; `None`: QEMU cannot read it.
    pub(crate) fn register_value(&self, registers: &Registers, number: u8) -> Option<u64> {
        if number == 0 {
            return Some(0);
        }
        let handle = registers.0[usize::from(number)];
        // SAFETY: the handle is QEMU's, and the array is created and freed here.
        unsafe {
            let array = (self.functions.g_byte_array_new)();
            (self.functions.qemu_plugin_read_register)(handle, array);
            let bytes = std::slice::from_raw_parts((*array).data, (*array).length as usize);
            let value = bytes.try_into().ok().map(u64::from_le_bytes);
            (self.functions.g_byte_array_unref)(array);
            value
        }
    }
}

/// # Safety
///
/// `string` lives for ever, or is null.
unsafe fn text(string: *const c_char) -> Option<&'static CStr> {
    // SAFETY: as the caller says.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}
