//! What harts ask of one another: one word of request bits for each hart, and the
//! device that interrupts it in machine mode.
//!
//! # Ordering
//!
//! Two things must hold, whatever the interleaving.
//!
//! *What a request is about is seen by whoever serves it.* The sender writes it,
//! then posts the bit with Release; the hart reads the bits with Acquire. For a
//! request that the sender waits for, the same holds on the way back: the hart
//! completes it with Release, and the sender looks with Acquire, so that the sender
//! may write the next one over it. Every access to the word but these loads is a
//! read-modify-write, so one sender's bit does not break the chain of another's.
//!
//! *No request is left lying.* The sender posts, then interrupts; the hart clears
//! the interrupt, then looks. If the hart's look misses the bit, then the sender's
//! interrupt comes behind the hart's clearing, and the hart is interrupted again.
//! Each side writes one place and then uses another, which Acquire and Release do
//! not order: [`IpiDevice`] has to, by `fence w, o` before the device is written and
//! `fence o, rw` behind it. A hart that looked first and cleared the interrupt then
//! could clear that of a request it has not seen.
//!
//! Both are explored with every interleaving that memory ordering allows, and so are
//! variants that break them, in tests/loom.

use super::sync::{AtomicU32, Ordering};

/// What one hart may ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// Run the fence that is under way (SBI 3.0, chapter 8). The sender waits.
    Fence = 1 << 0,
    /// Interrupt the OS (SBI 3.0, chapter 7).
    SupervisorIpi = 1 << 1,
    /// Look at the HSM state: the hart has been told to start.
    Start = 1 << 2,
    /// Look at the job gate, or whether there is more to do behind it.
    Job = 1 << 3,
    /// Look whether execution is to stop for a cut.
    Cut = 1 << 4,
}

impl Request {
    /// Those that the sender waits for. They stay posted until they are complete.
    const AWAITED: u32 = Request::Fence as u32;
}

/// Requests that a hart has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests(u32);

impl Requests {
    /// Whether this one is among them.
    #[must_use]
    pub fn contains(self, request: Request) -> bool {
        self.0 & request as u32 != 0
    }
}

/// What interrupts a hart in machine mode.
pub trait IpiDevice {
    /// Makes the hart's interrupt pending. Stores before the call are visible to
    /// other harts before the interrupt is.
    fn send(&self);

    /// Clears the calling hart's interrupt. Memory accesses behind the call come
    /// behind the clearing.
    fn clear(&self);
}

/// What is asked of one hart.
#[derive(Debug)]
pub struct Mailbox(AtomicU32);

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Mailbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Mailbox(AtomicU32::new(0))
    }

    /// Asks the hart; for any hart.
    pub fn send(&self, request: Request, device: &impl IpiDevice) {
        self.0.fetch_or(request as u32, Ordering::Release);
        device.send();
    }

    /// Clears the interrupt, then takes what has been asked; for the hart itself. A
    /// request that is awaited stays posted, and is to be served and then
    /// [completed](Mailbox::complete).
    pub fn receive(&self, device: &impl IpiDevice) -> Requests {
        device.clear();
        self.take()
    }

    /// As [`receive`](Mailbox::receive), with the interrupt left as it is.
    pub(crate) fn take(&self) -> Requests {
        Requests(self.0.fetch_and(Request::AWAITED, Ordering::Acquire))
    }

    /// Whether the request is posted and not yet taken or complete: for the hart, so
    /// that it can serve it between interrupts, and for a sender that waits.
    #[must_use]
    pub fn is_posted(&self, request: Request) -> bool {
        self.0.load(Ordering::Acquire) & request as u32 != 0
    }

    /// Tells the sender that an awaited request has been served.
    pub fn complete(&self, request: Request) {
        self.0.fetch_and(!(request as u32), Ordering::Release);
    }
}
