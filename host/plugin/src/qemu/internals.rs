//! The parts of QEMU 10.0 that have no plugin interface: the big lock, the virtual clock, interrupt
//! lines, address translation.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use super::symbols::{MissingSymbol, find, functions};

functions! {
    /// QEMU's functions.
    struct Functions {
        fn bql_lock_impl(*const c_char, c_int);
        fn bql_unlock();
        fn bql_locked() -> bool;
        fn rcu_register_thread();
        fn qemu_clock_deadline_ns_all(c_int, c_int) -> i64;
        fn qemu_clock_advance_virtual_time(i64) -> i64;
        fn all_cpu_threads_idle() -> bool;
        fn cpu_thread_is_idle(*mut c_void) -> bool;
        fn cpu_has_work(*mut c_void) -> bool;
        fn runstate_is_running() -> bool;
        fn pause_all_vcpus();
        fn qemu_get_cpu(c_int) -> *mut c_void;
        fn cpu_exit(*mut c_void);
        fn tcg_handle_interrupt(*mut c_void, c_int);
        fn tcg_cflags_set(*mut c_void, u32);
        fn tb_flush(*mut c_void);
        fn cpu_get_phys_page_attrs_debug(*mut c_void, u64, *mut Attributes) -> u64;
        fn object_class_by_name(*const c_char) -> *mut c_void;
        fn object_resolve_path(*const c_char, *mut bool) -> *mut c_void;
        fn object_get_typename(*mut c_void) -> *const c_char;
        fn object_property_get_uint(*mut c_void, *const c_char, *mut *mut c_void) -> u64;
        fn qdev_get_gpio_in(*mut c_void, c_int) -> *mut c_void;
        fn qemu_set_irq(*mut c_void, c_int);
        fn memory_region_init_io(
            *mut c_void, *mut c_void, *const c_void, *mut c_void, *const c_char, u64,
        );
        fn memory_region_add_subregion(*mut c_void, u64, *mut c_void);
        fn get_system_memory() -> *mut c_void;
        fn cpu_physical_memory_map(u64, *mut u64, bool) -> *mut c_void;
    }
}

/// QEMU's `MemTxAttrs`, with spare room.
#[repr(C, align(8))]
#[derive(Default)]
struct Attributes([u8; 32]);

/// QEMU's object for a hart (`CPUState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpu(NonNull<c_void>);

impl Cpu {
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }
}

/// QEMU's object for an interrupt line (`qemu_irq`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Irq(NonNull<c_void>);

/// QEMU's object for a device (`DeviceState`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device(NonNull<c_void>);

// SAFETY: the pointer only names an object for QEMU, which never frees it while it runs.
unsafe impl Send for Cpu {}
// SAFETY: as above.
unsafe impl Sync for Cpu {}
// SAFETY: as above.
unsafe impl Send for Irq {}
// SAFETY: as above.
unsafe impl Sync for Irq {}

/// The plugin's functions that replace QEMU's for time and interrupts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockHooks {
    /// Interrupts a hart.
    pub(crate) interrupt: unsafe extern "C" fn(*mut c_void, c_int),
    /// Returns the virtual clock's time in nanoseconds.
    pub(crate) get: extern "C" fn() -> i64,
    /// Sets the virtual clock's time in nanoseconds.
    pub(crate) set: extern "C" fn(i64),
}

/// `QEMU_CLOCK_VIRTUAL`, with all kinds of timers.
const VIRTUAL_CLOCK: c_int = 1;
const ALL_TIMERS: c_int = -1;

/// `CF_PARALLEL`: translated code finds out which hart executes it. Otherwise QEMU, with one thread
/// for all harts, compiles the number of the translating hart into the code.
const PARALLEL: u32 = 0x8000;

/// Number of the class's slots in which the interrupt function is searched for.
const CLASS_SLOTS: usize = 64;

/// QEMU's internals.
#[derive(Debug)]
pub(crate) struct Internals {
    functions: Functions,
    is_multi_threaded: NonNull<c_void>,
}

// SAFETY: each function states its conditions, and the lock meets those of threads.
unsafe impl Send for Internals {}
// SAFETY: as above.
unsafe impl Sync for Internals {}

/// A guard of QEMU's big lock. The thread that took the lock must drop it.
#[derive(Debug)]
pub(crate) struct BigLock<'a> {
    internals: &'a Internals,
    was_held: bool,
    // Not `Send`, so that the guard stays in its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Drop for BigLock<'_> {
    fn drop(&mut self) {
        if !self.was_held {
            // SAFETY: this thread took the lock.
            unsafe { (self.internals.functions.bql_unlock)() }
        }
    }
}

impl Internals {
    /// Finds all functions and variables.
    pub(crate) fn find() -> Result<Self, MissingSymbol> {
        Ok(Internals {
            functions: Functions::find()?,
            is_multi_threaded: find(c"mttcg_enabled")?,
        })
    }

    /// Takes the big lock, unless this thread has it. The caller must hold no other lock.
    pub(crate) fn lock(&self) -> BigLock<'_> {
        // SAFETY: QEMU is initialised; it uses the file's name only for its profile.
        let was_held = unsafe {
            let was_held = (self.functions.bql_locked)();
            if !was_held {
                (self.functions.bql_lock_impl)(c"poorwill-plugin".as_ptr(), 0);
            }
            was_held
        };
        BigLock {
            internals: self,
            was_held,
            _thread: std::marker::PhantomData,
        }
    }

    /// Registers one of the plugin's threads with QEMU. The thread must call it once, as its first
    /// step.
    pub(crate) fn register_thread(&self) {
        // SAFETY: the thread is new, and lives until QEMU ends.
        unsafe { (self.functions.rcu_register_thread)() }
    }

    /// Whether each hart has a thread of its own.
    pub(crate) fn is_multi_threaded(&self) -> bool {
        // SAFETY: a `bool`, set before the first hart is created.
        unsafe { self.is_multi_threaded.cast::<bool>().read() }
    }

    /// Nanoseconds until the virtual clock's next timer, if there is one.
    pub(crate) fn deadline(&self) -> Option<u64> {
        // SAFETY: any thread may call this.
        let deadline =
            unsafe { (self.functions.qemu_clock_deadline_ns_all)(VIRTUAL_CLOCK, ALL_TIMERS) };
        u64::try_from(deadline).ok()
    }

    /// Moves the virtual clock to `time`, and runs each timer on the way at its time.
    pub(crate) fn advance(&self, _lock: &BigLock<'_>, time: i64) {
        // SAFETY: the lock is held, and the clock can be set.
        unsafe { (self.functions.qemu_clock_advance_virtual_time)(time) };
    }

    /// Whether all harts are idle, and the machine is not stopped.
    pub(crate) fn is_idle(&self, _lock: &BigLock<'_>) -> bool {
        // SAFETY: the lock is held.
        unsafe { (self.functions.all_cpu_threads_idle)() && (self.functions.runstate_is_running)() }
    }

    /// Whether a hart is idle. The caller must hold the big lock.
    pub(crate) fn is_hart_idle(&self, cpu: Cpu) -> bool {
        // SAFETY: QEMU passed the hart.
        unsafe { (self.functions.cpu_thread_is_idle)(cpu.0.as_ptr()) }
    }

    /// Whether a hart has a pending interrupt that ends its wait.
    pub(crate) fn has_work(&self, cpu: Cpu) -> bool {
        // SAFETY: QEMU passed the hart. It only reads the hart's pending interrupts.
        unsafe { (self.functions.cpu_has_work)(cpu.0.as_ptr()) }
    }

    pub(crate) fn stop_harts(&self, _lock: &BigLock<'_>) {
        // SAFETY: the lock is held.
        unsafe { (self.functions.pause_all_vcpus)() }
    }

    /// The hart of that number, if it exists.
    pub(crate) fn hart(&self, number: usize) -> Option<Cpu> {
        let number = c_int::try_from(number).ok()?;
        // SAFETY: it only searches a list.
        NonNull::new(unsafe { (self.functions.qemu_get_cpu)(number) }).map(Cpu)
    }

    /// Converts the pointer by which QEMU names a hart.
    pub(crate) fn named(cpu: *mut c_void) -> Option<Cpu> {
        NonNull::new(cpu).map(Cpu)
    }

    /// Makes translated code find out which hart executes it, instead of a copy for each hart.
    pub(crate) fn share_code(&self, cpu: Cpu) {
        // SAFETY: QEMU passed the hart, which does not run yet.
        unsafe { (self.functions.tcg_cflags_set)(cpu.0.as_ptr(), PARALLEL) }
    }

    /// Lets other harts run after the present block.
    pub(crate) fn yield_hart(&self, cpu: Cpu) {
        // SAFETY: QEMU passed the hart.
        unsafe { (self.functions.cpu_exit)(cpu.0.as_ptr()) }
    }

    /// Translates all code again, as soon as no hart executes any.
    pub(crate) fn translate_anew(&self, cpu: Cpu) {
        // SAFETY: QEMU passed the hart.
        unsafe { (self.functions.tb_flush)(cpu.0.as_ptr()) }
    }

    /// Runs QEMU's own handling of an interrupt. The caller must hold the big lock.
    pub(crate) fn interrupt(&self, cpu: Cpu, mask: c_int) {
        // SAFETY: QEMU passed the hart, in a call of its own.
        unsafe { (self.functions.tcg_handle_interrupt)(cpu.0.as_ptr(), mask) }
    }

    /// Where QEMU has the RAM at a physical address in its own memory, and the RAM's bytes from
    /// there on; `None`: it is not RAM.
    pub(crate) fn memory_at(&self, address: u64) -> Option<(u64, u64)> {
        const MOST: u64 = 1 << 38;
        let mut bytes = MOST;
        // SAFETY: QEMU maps RAM as it is, and only counts the use, which is never given back.
        let host =
            unsafe { (self.functions.cpu_physical_memory_map)(address, &raw mut bytes, false) };
        (!host.is_null()).then(|| (host.addr() as u64, bytes))
    }

    /// The physical address of a hart's virtual address; `None`: it is not mapped.
    pub(crate) fn physical(&self, cpu: Cpu, address: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let mut attributes = Attributes::default();
        let offset = address % PAGE;
        // SAFETY: QEMU passed the hart, which runs in this thread; the attributes have room.
        let page = unsafe {
            (self.functions.cpu_get_phys_page_attrs_debug)(
                cpu.0.as_ptr(),
                address - offset,
                &raw mut attributes,
            )
        };
        (page != u64::MAX).then_some(page + offset)
    }

    /// Replaces QEMU's functions by the plugin's. `false`: their slots were not found.
    pub(crate) fn hook(&self, hooks: ClockHooks) -> bool {
        // SAFETY: the class is a structure of pointers, larger than the searched slots. In it, the
        // interrupt function is followed by the clock's get and set functions, which are null
        // without -icount.
        unsafe {
            let class = (self.functions.object_class_by_name)(c"tcg-accel-ops".as_ptr());
            if class.is_null() {
                return false;
            }
            let slots = class.cast::<*const c_void>();
            let own = self.functions.tcg_handle_interrupt as *const c_void;
            let Some(at) = (0..CLASS_SLOTS).find(|at| *slots.add(*at) == own) else {
                return false;
            };
            if !(*slots.add(at + 1)).is_null() {
                return false;
            }
            *slots.add(at + 2) = hooks.set as *const c_void;
            *slots.add(at + 1) = hooks.get as *const c_void;
            *slots.add(at) = hooks.interrupt as *const c_void;
        }
        true
    }

    /// The device at a path of QEMU's object tree, and its type; `None`: no such path.
    pub(crate) fn device(&self, path: &CStr) -> Option<(Device, String)> {
        // SAFETY: the path is a string; an object's type lives for ever.
        unsafe {
            let object = (self.functions.object_resolve_path)(path.as_ptr(), std::ptr::null_mut());
            let object = NonNull::new(object)?;
            let kind = (self.functions.object_get_typename)(object.as_ptr());
            let kind = CStr::from_ptr(kind).to_string_lossy().into_owned();
            Some((Device(object), kind))
        }
    }

    /// A numeric property of a device; 0: the device has no such property.
    pub(crate) fn property(&self, device: Device, name: &CStr) -> u64 {
        // SAFETY: QEMU passed the device. For a missing property QEMU would store an error, for
        // which no place is given; it returns 0 or all ones.
        let value = unsafe {
            (self.functions.object_property_get_uint)(
                device.0.as_ptr(),
                name.as_ptr(),
                std::ptr::null_mut(),
            )
        };
        if value == u64::MAX { 0 } else { value }
    }

    /// Input line `number` of a device, which must have more than `number` of them.
    pub(crate) fn line(&self, device: Device, number: u32) -> Option<Irq> {
        let number = c_int::try_from(number).ok()?;
        // SAFETY: QEMU passed the device, and the caller promises that it has the line.
        let line = unsafe { (self.functions.qdev_get_gpio_in)(device.0.as_ptr(), number) };
        NonNull::new(line).map(Irq)
    }

    /// Raises or lowers a line.
    pub(crate) fn set_line(&self, _lock: &BigLock<'_>, line: Irq, is_high: bool) {
        // SAFETY: QEMU passed the line, and the lock is held.
        unsafe { (self.functions.qemu_set_irq)(line.0.as_ptr(), c_int::from(is_high)) }
    }

    /// Creates a permanent block of registers in the machine's memory.
    pub(crate) fn make_registers(
        &self,
        _lock: &BigLock<'_>,
        address: u64,
        bytes: u64,
        operations: &'static RegisterOperations,
    ) {
        // The region's own structure takes 272 bytes in QEMU 10.0.
        let region = Box::leak(Box::new([0_u128; 256]));
        let region = std::ptr::from_mut(region).cast();
        // SAFETY: the region and the operations live for ever, and the lock is held.
        unsafe {
            (self.functions.memory_region_init_io)(
                region,
                std::ptr::null_mut(),
                std::ptr::from_ref(operations).cast(),
                std::ptr::null_mut(),
                c"poorwill.flush".as_ptr(),
                bytes,
            );
            let memory = (self.functions.get_system_memory)();
            (self.functions.memory_region_add_subregion)(memory, address, region);
        }
    }
}

/// QEMU's `MemoryRegionOps`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RegisterOperations {
    read: extern "C" fn(*mut c_void, u64, u32) -> u64,
    write: extern "C" fn(*mut c_void, u64, u64, u32),
    with_attributes: [Option<extern "C" fn()>; 2],
    endianness: c_int,
    valid: Valid,
    implemented: Accesses,
}

#[derive(Debug)]
#[repr(C)]
struct Valid {
    accesses: Accesses,
    accepts: Option<extern "C" fn()>,
}

#[derive(Debug)]
#[repr(C)]
struct Accesses {
    smallest: u32,
    largest: u32,
    unaligned: bool,
}

impl RegisterOperations {
    /// Registers of one to eight bytes, in little-endian order.
    pub(crate) const fn new(
        read: extern "C" fn(*mut c_void, u64, u32) -> u64,
        write: extern "C" fn(*mut c_void, u64, u64, u32),
    ) -> Self {
        const fn accesses() -> Accesses {
            Accesses {
                smallest: 1,
                largest: 8,
                unaligned: false,
            }
        }
        RegisterOperations {
            read,
            write,
            with_attributes: [None; 2],
            endianness: 2,
            valid: Valid {
                accesses: accesses(),
                accepts: None,
            },
            implemented: accesses(),
        }
    }
}
