//! Requests between harts: one word of request bits for each hart, and the device that interrupts
//! it in machine mode.
//!
//! # Ordering
//!
//! Two properties must hold for every interleaving.
//!
//! *The receiver sees a request's data.* The sender writes the data, then posts the bit with
//! Release; the receiver reads the bits with Acquire. For awaited requests the same holds in the
//! other direction. The receiver completes the request with Release, and the sender polls with
//! Acquire, so that it may overwrite the data. Every other access to the word is a
//! read-modify-write, so one sender's bit does not break another's release sequence.
//!
//! *No request is lost.* The sender posts, then interrupts. The receiver clears the interrupt, then
//! reads. If its read misses the bit, the sender's interrupt comes after the clearing, and
//! interrupts the hart again. Each side writes one location and then uses another, which Acquire
//! and Release do not order. [`IpiDevice`] must order them by `fence w, o` before the device write
//! and `fence o, rw` after it. A hart that first read and then cleared could clear the interrupt of
//! an unseen request.
//!
//! tests/loom explores both with every interleaving that memory ordering allows, and variants that
//! break them.

use super::sync::{AtomicU32, Ordering};

/// A request to a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// Run the current fence (SBI 3.0, chapter 8). The sender waits.
    Fence = 1 << 0,
    /// Interrupt the OS (SBI 3.0, chapter 7).
    SupervisorIpi = 1 << 1,
    /// Check the HSM state for a start.
    Start = 1 << 2,
    /// Check the job gate, or for more work inside it.
    Job = 1 << 3,
}

impl Request {
    /// Awaited requests. They stay posted until they are complete.
    const AWAITED: u32 = Request::Fence as u32;
}

/// Requests that a hart has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests(u32);

impl Requests {
    /// Returns whether this request is among them.
    #[must_use]
    pub fn contains(self, request: Request) -> bool {
        self.0 & request as u32 != 0
    }
}

/// Interrupts a hart in machine mode.
pub trait IpiDevice {
    /// Makes the hart's interrupt pending. Earlier stores are visible to other harts before the
    /// interrupt is.
    fn send(&self);

    /// Clears the calling hart's interrupt. Later memory accesses come after the clearing.
    fn clear(&self);
}

/// Requests to one hart.
#[derive(Debug)]
pub struct Mailbox(AtomicU32);

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Mailbox {
    /// An empty mailbox.
    #[must_use]
    pub fn new() -> Self {
        Mailbox(AtomicU32::new(0))
    }

    /// Sends a request; any hart may call this.
    pub fn send(&self, request: Request, device: &impl IpiDevice) {
        self.0.fetch_or(request as u32, Ordering::Release);
        device.send();
    }

    /// Clears the interrupt, then takes the requests; only the hart itself may call this. An
    /// awaited request stays posted; serve it, then [`complete`](Mailbox::complete) it.
    pub fn receive(&self, device: &impl IpiDevice) -> Requests {
        device.clear();
        self.take()
    }

    /// As [`receive`](Mailbox::receive), without clearing the interrupt.
    pub(crate) fn take(&self) -> Requests {
        Requests(self.0.fetch_and(Request::AWAITED, Ordering::Acquire))
    }

    /// Returns whether the request is posted and not yet taken or complete. The hart calls this to
    /// serve a request between interrupts. A waiting sender polls it.
    #[must_use]
    pub fn is_posted(&self, request: Request) -> bool {
        self.0.load(Ordering::Acquire) & request as u32 != 0
    }

    /// Tells the sender that an awaited request was served.
    pub fn complete(&self, request: Request) {
        self.0.fetch_and(!(request as u32), Ordering::Release);
    }
}
