//! The stacks: a small one for each hart, for SBI calls, and a deep one. The hart that boots or
//! saves the machine uses the deep one.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use poorwill_arch::hart_id;
use poorwill_hart::StackLock;
use poorwill_memory::{PAGE_BYTES, Page};
use spin::{Mutex, Once};

pub(super) const STACK_BYTES: usize = 8 << 10;

/// Bytes at the top of each hart's stack that hold the pointer to its `Hart`; calls do not reach
/// them.
pub(super) const STACK_HEAD: usize = 16;

/// Bytes of the deep stack. A failing sealed save needs the most: twice 33 KiB for the pieces in
/// transfer, since sealed ones are decrypted again, and 21 KiB for the page scanner's lookahead.
pub(super) const DEEP_STACK_BYTES: usize = 128 << 10;

/// Initial value of every word of a stack: "poorwill". The lowest word must always keep it.
pub(super) const PAINT: u64 = u64::from_le_bytes(*b"poorwill");

#[repr(C, align(16))]
pub(super) struct Stack<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: one hart at a time uses the stack; the deep one is guarded by its lock.
unsafe impl<const BYTES: usize> Sync for Stack<BYTES> {}

// Not in the part of `.bss` that the boot hart clears.
#[unsafe(link_section = ".bss.stacks")]
pub(super) static DEEP_STACK: Stack<DEEP_STACK_BYTES> =
    Stack(UnsafeCell::new([0; DEEP_STACK_BYTES]));

/// Bytes of the stack for a job of a hart that rests: a hart's state takes 13 KiB.
const JOB_STACK_BYTES: usize = 32 << 10;

#[unsafe(link_section = ".bss.stacks")]
static JOB_STACK: Stack<JOB_STACK_BYTES> = Stack(UnsafeCell::new([0; JOB_STACK_BYTES]));

/// Held by the hart on that stack.
static JOB: Mutex<()> = Mutex::new(());

/// Runs a job that needs more than a hart's own stack, while another hart has the deep one.
pub(crate) fn for_job<R>(job: impl FnOnce() -> R) -> R {
    let _one = JOB.lock();
    let lowest: *mut u64 = JOB_STACK.0.get().cast();
    let top = lowest.addr() + JOB_STACK_BYTES;
    // SAFETY: the stack is memory of its own, and the lock gives it to this hart.
    let (result, is_intact) = unsafe {
        lowest.write_volatile(PAINT);
        (on(top, job), lowest.read_volatile() == PAINT)
    };
    assert!(
        is_intact,
        "the stack of {JOB_STACK_BYTES} bytes is too small"
    );
    result
}

/// The use of the deep stack.
struct DeepUse {
    lock: Once<StackLock>,
    /// The stack is cleared after use.
    leaves_nothing: AtomicBool,
}

static DEEP_USE: DeepUse = DeepUse {
    lock: Once::new(),
    leaves_nothing: AtomicBool::new(false),
};

fn deep_lock() -> &'static StackLock {
    DEEP_USE.lock.call_once(StackLock::new)
}

/// Enables the clearing of the deep stack after use, for machines with a vault whose memory
/// outlives the power.
pub(crate) fn leave_nothing() {
    DEEP_USE.leaves_nothing.store(true, Ordering::Relaxed);
}

/// Returns whether memory must not keep parts of a vault's key.
pub(crate) fn leaves_nothing() -> bool {
    DEEP_USE.leaves_nothing.load(Ordering::Relaxed)
}

/// Registers the calling hart, which boots the machine, as owner of the deep stack. entry.S has put
/// it there.
pub(crate) fn begin_on_deep() {
    assert!(
        deep_lock().try_take(hart_id()),
        "one hart boots the machine"
    );
}

/// Registers that the calling hart is on its own stack. It may have come from the deep one.
pub(crate) fn leave_deep() {
    if is_on_deep() && leaves_nothing() {
        // SAFETY: the hart has left it, and no other hart is on it yet.
        unsafe { clear_deep() };
    }
    deep_lock().leave(hart_id());
}

/// Returns whether the calling hart is on the deep stack, or has left it without [`leave_deep`].
pub(crate) fn is_on_deep() -> bool {
    deep_lock().is_on(hart_id())
}

/// Clears the deep stack.
///
/// # Safety
///
/// Its last owner does not continue there.
pub(crate) unsafe fn clear_deep() {
    // SAFETY: by the caller's contract.
    unsafe { clear_lowest(DEEP_STACK_BYTES) }
}

/// Paints the lowest bytes of the deep stack again.
///
/// # Safety
///
/// No hart uses them.
unsafe fn clear_lowest(bytes: usize) {
    let words: *mut u64 = DEEP_STACK.0.get().cast();
    for word in 0..bytes / 8 {
        // SAFETY: within the stack; by the caller's contract no hart uses this part.
        unsafe { words.add(word).write_volatile(PAINT) };
    }
}

/// Bytes of the deep stack for jobs that must leave nothing there.
const APART_BYTES: usize = DEEP_STACK_BYTES / 2;

/// Returns whether the calling hart is on the upper part of the deep stack, so that [`apart`] may
/// be used.
// Not inlined: its own frame is below all of its caller's, which may reach into the lower part.
#[inline(never)]
pub(crate) fn is_on_upper_deep() -> bool {
    let base = (&raw const DEEP_STACK).addr();
    let upper = base + APART_BYTES..base + DEEP_STACK_BYTES;
    is_on_deep() && upper.contains(&(&raw const upper).addr())
}

/// Runs `job` on the lower part of the deep stack, for the hart on the upper part, and then clears
/// the lower part. A move copies uninitialised bytes, too: without this, it would spread stale
/// stack bytes.
pub(crate) fn apart<F: FnOnce() -> R, R>(job: F) -> R {
    assert!(
        is_on_upper_deep(),
        "the hart is on the upper part of the deep stack"
    );
    // SAFETY: the hart is on the upper part.
    unsafe { apart_from_above(job) }
}

/// As [`apart`], for a hart that has switched from the upper part of the deep stack to another
/// stack.
///
/// # Safety
///
/// The hart was [there](is_on_upper_deep), and still owns the deep stack.
pub(crate) unsafe fn apart_from_above<F: FnOnce() -> R, R>(job: F) -> R {
    let base = (&raw const DEEP_STACK).addr();
    let top = base + APART_BYTES;
    // SAFETY: by the caller's contract the lower part is unused.
    let result = unsafe { on(top, job) };
    assert!(
        painted(base, 1) == 1,
        "the lower part of the deep stack is too small"
    );
    // SAFETY: the job is done.
    unsafe { clear_lowest(APART_BYTES) };
    result
}

const STACK_PAGES: usize = STACK_BYTES / PAGE_BYTES as usize;

/// Bytes of the table before the first hart's stack: the number of harts, and their IDs, by which a
/// hart in entry.S finds its stack.
pub(super) const TABLE_BYTES: usize = PAGE_BYTES as usize;

/// Address of the table and the stacks after it; zero until harts may use them. Not in `.bss`,
/// which the boot hart clears while other harts poll this.
#[unsafe(link_section = ".data")]
pub(super) static PLACED: AtomicUsize = AtomicUsize::new(0);

pub(crate) const fn pages_needed(harts: usize) -> usize {
    TABLE_BYTES / PAGE_BYTES as usize + harts * STACK_PAGES
}

/// The stacks of the harts that the boot hart has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacks {
    base: usize,
}

impl Stacks {
    /// Sets up the stacks of the harts with these IDs in `pages`, which has [`pages_needed`] pages.
    ///
    /// # Panics
    ///
    /// If there are more harts than the table can hold, 511.
    pub(crate) fn new(
        pages: &'static mut [Page],
        harts: impl Iterator<Item = u64> + Clone,
    ) -> Self {
        for page in pages.iter_mut() {
            page.0.fill(PAINT);
        }
        let table = &mut pages[0].0;
        let count = harts.clone().count();
        table[0] = count as u64;
        for (place, id) in table[1..][..count].iter_mut().zip(harts) {
            *place = id;
        }
        Stacks {
            base: pages.as_mut_ptr().expose_provenance(),
        }
    }

    /// Top of the stack of the hart with this index among the IDs.
    pub(crate) fn top(self, place: usize) -> usize {
        self.base + TABLE_BYTES + (place + 1) * STACK_BYTES
    }

    /// Releases the harts that wait in entry.S, each onto its stack. They see all earlier writes.
    pub(crate) fn publish(self) {
        PLACED.store(self.base, Ordering::Release);
    }
}

/// Stops the machine after a stack overflow, which has overwritten the memory below.
///
/// # Panics
///
/// If the stack has overflowed.
pub(crate) fn verify(stack_top: usize) {
    assert!(
        painted(stack_top - STACK_BYTES, 1) == 1,
        "a hart's stack of {STACK_BYTES} bytes is too small"
    );
}

/// Number of never used words among the lowest `words` from `base` on.
fn painted(base: usize, words: usize) -> usize {
    let words = 0..words;
    let is_painted = |word: &usize| {
        let place = core::ptr::with_exposed_provenance::<u64>(base + 8 * word);
        // SAFETY: within a stack. Its owner may write there, but whole words, and any bits are a
        // number.
        unsafe { place.read_volatile() == PAINT }
    };
    words.take_while(is_painted).count()
}

/// Maximum bytes ever used of the deep stack, and of any of the harts' stacks with these tops.
#[cfg(feature = "stack-marks")]
pub(crate) fn most_used(tops: impl Iterator<Item = usize>) -> (usize, usize) {
    let used = |base: usize, bytes: usize| bytes - 8 * painted(base, bytes / 8);
    let deep = used((&raw const DEEP_STACK).addr(), DEEP_STACK_BYTES);
    let small = tops.map(|top| used(top - STACK_BYTES, STACK_BYTES)).max();
    (deep, small.unwrap_or(0))
}

unsafe extern "C" {
    fn call_on_stack(stack_top: usize, function: extern "C" fn(*mut ()), argument: *mut ());
}

/// Runs `job` on the deep stack. A hart that has just woken the machine may still be leaving it; it
/// does not wait for another hart, so this wait ends.
pub(crate) fn deep<F: FnOnce() -> R, R>(job: F) -> R {
    while !deep_lock().try_take(hart_id()) {
        core::hint::spin_loop();
    }
    let stack_top = (&raw const DEEP_STACK).addr() + DEEP_STACK_BYTES;
    // SAFETY: this hart owns the stack until it leaves.
    let result = unsafe { on(stack_top, job) };
    assert!(
        painted(stack_top - DEEP_STACK_BYTES, 1) == 1,
        "the deep stack of {DEEP_STACK_BYTES} bytes is too small"
    );
    leave_deep();
    result
}

/// Runs `job` on the stack with this top.
///
/// # Safety
///
/// It is memory for a stack, and only this call uses it.
pub(crate) unsafe fn on<F: FnOnce() -> R, R>(stack_top: usize, job: F) -> R {
    let mut call = StackCall {
        job: Some(job),
        result: None,
    };
    // SAFETY: by the caller's contract; `run` gets a value of its own type, and has finished with
    // it when the call returns.
    unsafe { call_on_stack(stack_top, run::<F, R>, (&raw mut call).cast()) };
    call.result.expect("the job has run")
}

struct StackCall<F, R> {
    job: Option<F>,
    result: Option<R>,
}

extern "C" fn run<F: FnOnce() -> R, R>(call: *mut ()) {
    // SAFETY: `on` passes its own `StackCall<F, R>`.
    let call = unsafe { &mut *call.cast::<StackCall<F, R>>() };
    call.result = call.job.take().map(|job| job());
}
