//! Disks made of inputs.

use poorwill_medium::Medium;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use zerocopy::IntoBytes;

use crate::{Cases, Input};

/// Puts bytes on the medium, as much of them as fits.
pub fn put(medium: &mut FakeMedium, offset: u64, mut bytes: &[u8]) {
    let room = medium.capacity().saturating_sub(offset);
    bytes = &bytes[..bytes.len().min(to_usize(room))];
    let mut at = offset;
    while !bytes.is_empty() {
        let begin = at / PAGE_BYTES * PAGE_BYTES;
        let skip = to_usize(at - begin);
        let taken = bytes.len().min(size_of::<Page>() - skip);
        let mut page = [Page::ZERO];
        medium.read(begin, &mut page).expect("within the medium");
        page.as_mut_bytes()[skip..skip + taken].copy_from_slice(&bytes[..taken]);
        medium.write(begin, &page).expect("within the medium");
        at += taken as u64;
        bytes = &bytes[taken..];
    }
    medium.flush().expect("a medium without faults");
}

/// A fault that the medium has from now on, or none.
pub fn inject(medium: &mut FakeMedium, input: &mut Input<'_>) {
    inject_if(medium, input, |_| true);
}

/// A fault that the medium has from now on, if it is `wanted`, or none.
pub fn inject_if(medium: &mut FakeMedium, input: &mut Input<'_>, wanted: impl Fn(&Fault) -> bool) {
    let command = match input.below(5) {
        0 => return,
        1 => None,
        2 => Some(Command::Read),
        3 => Some(Command::Write),
        _ => Some(Command::Flush),
    };
    let effect = match input.below(5) {
        0 => Effect::Fail,
        1 => Effect::FailAfterwards,
        2 => Effect::Stall,
        3 => Effect::Lie,
        _ => Effect::PowerCut,
    };
    let fault = Fault {
        command,
        first: input.below(32),
        count: 1 + input.below(4),
        effect,
    };
    if wanted(&fault) {
        medium.inject(fault);
    }
}

/// Whether anything was written since the medium was last started.
#[must_use]
pub fn was_written(medium: &FakeMedium) -> bool {
    medium.log().contains(&Command::Write)
}
