//! The stacks: a small one for each hart, which serves its calls, and a deep one
//! for whoever boots the machine or saves it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use poorwill_arch::hart_id;
use poorwill_hart::StackLock;
use poorwill_memory::{PAGE_BYTES, Page};
use spin::Once;

/// Bytes of a hart's stack.
pub(super) const STACK_BYTES: usize = 8 << 10;

/// Bytes at the top of each hart's stack, out of any call's reach, that hold the
/// pointer to its `Hart`.
pub(super) const STACK_HEAD: usize = 16;

/// Bytes of the deep stack. A sealed save that fails needs the most: 33 KiB for
/// the pieces under way, twice, as what was sealed is opened again, and 21 KiB for
/// the looks ahead.
pub(super) const DEEP_STACK_BYTES: usize = 128 << 10;

/// What every word of a stack holds until it is used: "poorwill". The lowest one must
/// hold it for ever.
pub(super) const PAINT: u64 = u64::from_le_bytes(*b"poorwill");

/// Memory for a stack.
#[repr(C, align(16))]
pub(super) struct Stack<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: the stack is used by one hart at a time, the deep one by who has its lock.
unsafe impl<const BYTES: usize> Sync for Stack<BYTES> {}

// Not in the part of `.bss` that the boot hart clears.
#[unsafe(link_section = ".bss.stacks")]
pub(super) static DEEP_STACK: Stack<DEEP_STACK_BYTES> =
    Stack(UnsafeCell::new([0; DEEP_STACK_BYTES]));

/// Who is on the deep stack.
fn deep_lock() -> &'static StackLock {
    static LOCK: Once<StackLock> = Once::new();
    LOCK.call_once(StackLock::new)
}

/// Nothing of what was on the deep stack stays there.
static LEAVES_NOTHING: AtomicBool = AtomicBool::new(false);

/// From now on nothing of what was on the deep stack stays there: there is a vault, and
/// memory outlives the power.
pub(crate) fn leave_nothing() {
    LEAVES_NOTHING.store(true, Ordering::Relaxed);
}

/// Whether nothing of a vault's key may stay in memory.
pub(crate) fn leaves_nothing() -> bool {
    LEAVES_NOTHING.load(Ordering::Relaxed)
}

/// Says that the calling hart, which boots the machine, is on the deep stack, where
/// entry.S has put it.
pub(crate) fn begin_on_deep() {
    assert!(
        deep_lock().try_take(hart_id()),
        "one hart boots the machine"
    );
}

/// Says that the calling hart is on its own stack, whichever it was on before.
pub(crate) fn leave_deep() {
    if is_on_deep() && leaves_nothing() {
        // SAFETY: the hart has left it, and nobody else is on it yet.
        unsafe { clear_deep() };
    }
    deep_lock().leave(hart_id());
}

/// Whether the calling hart is on the deep stack, or has left it and not said so.
pub(crate) fn is_on_deep() -> bool {
    deep_lock().is_on(hart_id())
}

/// Leaves nothing of what was on the deep stack.
///
/// # Safety
///
/// Whoever was on it does not go on there.
pub(crate) unsafe fn clear_deep() {
    // SAFETY: as the caller says.
    unsafe { clear_lowest(DEEP_STACK_BYTES) }
}

/// Paints the lowest bytes of the deep stack anew.
///
/// # Safety
///
/// Nobody uses them.
unsafe fn clear_lowest(bytes: usize) {
    let words: *mut u64 = DEEP_STACK.0.get().cast();
    for word in 0..bytes / 8 {
        // SAFETY: within the stack, whose part this is nobody's, says the caller.
        unsafe { words.add(word).write_volatile(PAINT) };
    }
}

/// Bytes of the deep stack for what leaves nothing there.
const APART_BYTES: usize = DEEP_STACK_BYTES / 2;

/// Whether the calling hart is on the upper part of the deep stack: [`apart`] is its own.
// Its own frame is below all of its caller's, which may reach into the lower part.
#[inline(never)]
pub(crate) fn is_on_upper_deep() -> bool {
    let base = (&raw const DEEP_STACK).addr();
    let upper = base + APART_BYTES..base + DEEP_STACK_BYTES;
    is_on_deep() && upper.contains(&(&raw const upper).addr())
}

/// Runs `job` for the hart that is on the deep stack, further down, and leaves nothing of it
/// there: bytes that nobody has set go wherever a value is moved, out of whatever was on the
/// stack before.
pub(crate) fn apart<F: FnOnce() -> R, R>(job: F) -> R {
    assert!(
        is_on_upper_deep(),
        "the hart is on the upper part of the deep stack"
    );
    // SAFETY: the hart is on the part above.
    unsafe { apart_from_above(job) }
}

/// The same for a hart that has gone from the upper part of the deep stack to another one.
///
/// # Safety
///
/// It was [there](is_on_upper_deep), and is the one that is on the deep stack.
pub(crate) unsafe fn apart_from_above<F: FnOnce() -> R, R>(job: F) -> R {
    let base = (&raw const DEEP_STACK).addr();
    let top = base + APART_BYTES;
    // SAFETY: as the caller says: the part below is nobody's.
    let result = unsafe { on(top, job) };
    assert!(
        painted(base, 1) == 1,
        "the lower part of the deep stack is too small"
    );
    // SAFETY: the job is done.
    unsafe { clear_lowest(APART_BYTES) };
    result
}

/// Pages of a hart's stack.
const STACK_PAGES: usize = STACK_BYTES / PAGE_BYTES as usize;

/// Bytes before the first hart's stack: how many harts there are, and their IDs, by
/// which entry.S finds its own stack.
pub(super) const TABLE_BYTES: usize = PAGE_BYTES as usize;

/// Where the table and the stacks behind it lie; zero until harts may use them. Not
/// in `.bss`, which the boot hart clears while the others look.
#[unsafe(link_section = ".data")]
pub(super) static PLACED: AtomicUsize = AtomicUsize::new(0);

/// Pages that the stacks of so many harts take.
pub(crate) const fn pages_needed(harts: usize) -> usize {
    TABLE_BYTES / PAGE_BYTES as usize + harts * STACK_PAGES
}

/// The stacks of the harts that the boot hart has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacks {
    base: usize,
}

impl Stacks {
    /// Has the stacks of the harts with these IDs in `pages`, which are
    /// [`pages_needed`] of them.
    ///
    /// # Panics
    ///
    /// When there are more harts than the table has room for, 511.
    pub(crate) fn new(
        pages: &'static mut [Page],
        harts: impl ExactSizeIterator<Item = u64>,
    ) -> Self {
        for page in pages.iter_mut() {
            page.0.fill(PAINT);
        }
        let table = &mut pages[0].0;
        table[0] = harts.len() as u64;
        for (place, id) in table[1..][..harts.len()].iter_mut().zip(harts) {
            *place = id;
        }
        Stacks {
            base: pages.as_mut_ptr().expose_provenance(),
        }
    }

    /// The top of the stack of the hart with that place among the IDs.
    pub(crate) fn top(self, place: usize) -> usize {
        self.base + TABLE_BYTES + (place + 1) * STACK_BYTES
    }

    /// Lets the harts that wait in entry.S go on, each on its stack. They see what
    /// was written before.
    pub(crate) fn publish(self) {
        PLACED.store(self.base, Ordering::Release);
    }
}

/// Stops the machine if a stack was too small: what lies below it is written over.
///
/// # Panics
///
/// It was.
pub(crate) fn verify(stack_top: usize) {
    assert!(
        painted(stack_top - STACK_BYTES, 1) == 1,
        "a hart's stack of {STACK_BYTES} bytes is too small"
    );
}

/// How many of the lowest `words` from `base` on were never used.
fn painted(base: usize, words: usize) -> usize {
    let words = 0..words;
    let is_painted = |word: &usize| {
        let place = core::ptr::with_exposed_provenance::<u64>(base + 8 * word);
        // SAFETY: within a stack, whose owner may write there meanwhile: whole words,
        // any of which is a number.
        unsafe { place.read_volatile() == PAINT }
    };
    words.take_while(is_painted).count()
}

/// The most bytes that were ever in use of the deep stack, and of any of the harts'
/// stacks with these tops.
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

/// Runs `job` on the deep stack. The hart that woke the machine may still be on its way
/// from there to its own, which it does not wait on.
pub(crate) fn deep<F: FnOnce() -> R, R>(job: F) -> R {
    while !deep_lock().try_take(hart_id()) {
        core::hint::spin_loop();
    }
    let stack_top = (&raw const DEEP_STACK).addr() + DEEP_STACK_BYTES;
    // SAFETY: the stack is this hart's until it leaves.
    let result = unsafe { on(stack_top, job) };
    assert!(
        painted(stack_top - DEEP_STACK_BYTES, 1) == 1,
        "the deep stack of {DEEP_STACK_BYTES} bytes is too small"
    );
    leave_deep();
    result
}

/// Runs `job` on the stack with that top.
///
/// # Safety
///
/// It is memory for a stack, and nobody else's meanwhile.
pub(crate) unsafe fn on<F: FnOnce() -> R, R>(stack_top: usize, job: F) -> R {
    let mut call = StackCall {
        job: Some(job),
        result: None,
    };
    // SAFETY: as the caller says; `run` gets the type that it is made for, and is done with
    // it when the call returns.
    unsafe { call_on_stack(stack_top, run::<F, R>, (&raw mut call).cast()) };
    call.result.expect("the job has run")
}

struct StackCall<F, R> {
    job: Option<F>,
    result: Option<R>,
}

extern "C" fn run<F: FnOnce() -> R, R>(call: *mut ()) {
    // SAFETY: `on` passes a `StackCall<F, R>` of its own.
    let call = unsafe { &mut *call.cast::<StackCall<F, R>>() };
    call.result = call.job.take().map(|job| job());
}
