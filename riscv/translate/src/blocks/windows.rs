//! Windows: addresses that the OS maps to memory at one distance, such as Linux's linear map and its
//! image. Translated code adds the distance to an address, and looks nothing up.
//!
//! A window has all addresses that its distance leads to the OS's memory. Each of them is mapped at this
//! distance, or not at all. So an address outside the window leads to a place that the core's PMP
//! closes, and the interpreter executes the instruction. MTIME is not closed: where it may be hit,
//! translated code compares the physical address.

use poorwill_memory::PhysRange;

use super::sites::{Site, WINDOWS};
use super::stacks::STACK_POINTER;

/// A window of an OS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// `physical - address`
    pub(super) distance: u64,
    /// The address that would lead to MTIME may be mapped elsewhere.
    pub(super) is_guarded: bool,
}

/// How a bit of an address tells its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Select {
    /// Number of the bit.
    pub(super) bit: u32,
    /// Number of the window whose addresses have it clear.
    pub(super) clear: usize,
}

/// The windows of an OS.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows {
    /// Found ones come first.
    pub(super) windows: [Option<Window>; WINDOWS],
    /// Which of two windows an address is of.
    pub(super) select: Option<Select>,
    pub(super) searches: u8,
}

impl Windows {
    /// The window with a distance.
    pub(super) fn with(&self, distance: u64) -> Option<usize> {
        let is_its = |it: &Option<Window>| it.is_some_and(|it| it.distance == distance);
        self.windows.iter().position(is_its)
    }

    /// What translated code adds to an address of a window; zero without a window.
    pub(super) fn distance(&self, number: usize) -> u64 {
        self.windows[number].map_or(0, |it| it.distance)
    }

    /// The distances for addresses with the bit of [`Select`] clear, and with it set; zero without two
    /// windows.
    pub(super) fn selected(&self) -> [u64; 2] {
        let by_bit = |Select { clear, .. }| [self.distance(clear), self.distance(1 - clear)];
        self.select.map_or([0; 2], by_bit)
    }

    /// The site itself, or the table where the two windows cannot be told apart.
    pub(super) fn usable(&self, site: Site) -> Site {
        match site {
            Site::Both if self.select.is_none() => Site::Table,
            site => site,
        }
    }

    /// Puts a window at a free place. Most data of an OS lie elsewhere than its code, so that the window
    /// at the distance `code` does not come first, which costs least.
    pub(super) fn put(&mut self, free: usize, window: Window, code: Option<u64>) {
        self.windows[free] = Some(window);
        let first = self.windows[0].map(|window| window.distance);
        if free != 0 && first == code {
            self.windows.swap(0, free);
        }
    }

    /// Finds the bit that tells the windows apart. `memory`: what they lead to.
    pub(super) fn find_select(&mut self, memory: PhysRange) {
        let [Some(one), Some(other)] = self.windows else {
            return;
        };
        let [one, other] = [one, other].map(|window| {
            let start = memory.start.wrapping_sub(window.distance);
            let last = (memory.end - 1).wrapping_sub(window.distance);
            (start, start ^ last)
        });
        let Some(bit) = (one.0 ^ other.0).checked_ilog2() else {
            return;
        };
        let is_fixed = (one.1 | other.1) >> bit == 0 && bit >= 3;
        let clear = usize::from(one.0 >> bit & 1 != 0);
        self.select = is_fixed.then_some(Select { bit, clear });
    }

    /// Returns whether an access by the window may hit MTIME.
    pub(super) fn is_guarded(&self, number: usize) -> bool {
        self.windows[number].is_none_or(|it| it.is_guarded)
    }

    /// Where an address probably lies. `reach`: memory, and MTIME's page.
    pub(super) fn of(&self, address: u64, [memory, _]: [PhysRange; 2]) -> Site {
        let leads = |window: &Option<Window>| {
            let physical = window.map(|window| address.wrapping_add(window.distance));
            physical.is_some_and(|physical| memory.contains(physical))
        };
        self.windows
            .iter()
            .position(leads)
            .map_or(Site::Table, Site::Window)
    }

    /// Where an instruction of which nothing is known reaches, by its register of the address.
    pub(super) fn guess(&self, base: u8) -> Site {
        match self.windows[0] {
            _ if base == STACK_POINTER => Site::Stack,
            Some(_) => Site::Window(0),
            None => Site::Table,
        }
    }

    pub(super) fn found(&self) -> impl Iterator<Item = Window> {
        self.windows.iter().copied().flatten()
    }
}

/// The largest offset of an access.
const MARGIN: u64 = 1 << 11;

/// A bit of physical addresses above which those of memory differ from that of MTIME: shifted by it, the
/// first are not zero, the second is. `None`: the two are not so apart. `reach`: memory, and MTIME's
/// page.
pub(super) fn guard(reach: [PhysRange; 2]) -> Option<u32> {
    let [memory, time] = reach;
    let bit = (time.end + MARGIN).checked_next_power_of_two()?.ilog2();
    (memory.start.saturating_sub(MARGIN) >> bit != 0).then_some(bit)
}
