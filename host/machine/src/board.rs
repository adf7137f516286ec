//! The boards of QEMU, and the list of what each one lacks.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A board of QEMU. Its name is QEMU's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Board {
    /// QEMU's own board.
    #[default]
    #[value(name = "virt")]
    Virt,
    /// SiFive's FU540: U54 harts beside an E51, on which no OS starts.
    #[value(name = "sifive_u")]
    SifiveU,
}

/// The interrupt controllers of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interrupts {
    /// APLIC and IMSIC: devices send messages (MSI).
    #[default]
    Aia,
    /// PLIC: devices drive wires.
    Plic,
}

/// A part that a board may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Disks,
    Aia,
    Flash,
    PowerSupply,
    /// A place for the image of a sleep, so that the power can be off.
    Image,
    /// A clock whose alarm wakes the machine.
    Clock,
    Domains,
    /// A core without an MMU beside the OS's harts. On a board without one, the device tree takes a
    /// hart from the OS.
    WeakCore,
    PowerOff,
    /// A device that ends QEMU with an exit status.
    TestDevice,
}

/// The parts that `virt` lacks, with reasons.
const MISSING_ON_VIRT: [(Part, &str); 1] = [(Part::WeakCore, "each of its harts has an MMU")];

/// The parts that `sifive_u` lacks, with reasons.
const MISSING_ON_SIFIVE_U: [(Part, &str); 9] = [
    (Part::Disks, "it has no PCI, and so no disk"),
    (Part::Aia, "its interrupt controller is a PLIC"),
    (Part::Flash, "it has no flash for the key"),
    (
        Part::PowerSupply,
        "it has no flash to start from, so its memory cannot be persistent",
    ),
    (
        Part::Image,
        "it has no place for an image, so it sleeps by retain alone",
    ),
    (Part::Clock, "it has no clock, and so no alarm"),
    (Part::Domains, "it has no IOMMU and no sockets"),
    (Part::PowerOff, "no pin of it switches the power off"),
    (Part::TestDevice, "it has no test device"),
];

impl Board {
    /// QEMU's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Board::Virt => "virt",
            Board::SifiveU => "sifive_u",
        }
    }

    /// The kernel command line of all tiny guests, which run from their initial RAM file system.
    #[must_use]
    pub fn tiny_command_line(self) -> &'static str {
        match self {
            Board::Virt => "console=ttyS0",
            Board::SifiveU => "console=ttySIF0",
        }
    }

    /// The most harts of the OS.
    #[must_use]
    pub fn most_harts(self) -> u32 {
        match self {
            Board::Virt => 512,
            Board::SifiveU => 4,
        }
    }

    /// QEMU's number of harts for an OS with `harts`.
    pub(crate) fn all_harts(self, harts: u32) -> u32 {
        match self {
            Board::Virt => harts,
            Board::SifiveU => harts + 1,
        }
    }

    /// QEMU's argument for the board.
    pub(crate) fn argument(self, interrupts: Interrupts) -> &'static str {
        match (self, interrupts) {
            (Board::Virt, Interrupts::Aia) => "virt,aia=aplic-imsic",
            _ => self.name(),
        }
    }

    /// Why the board lacks this part; `None`: it has the part.
    #[must_use]
    pub fn lacks(self, part: Part) -> Option<&'static str> {
        let missing: &[_] = match self {
            Board::Virt => &MISSING_ON_VIRT,
            Board::SifiveU => &MISSING_ON_SIFIVE_U,
        };
        let found = missing.iter().find(|(one, _)| *one == part);
        found.map(|(_, reason)| *reason)
    }

    /// Whether the board has this part.
    #[must_use]
    pub fn has(self, part: Part) -> bool {
        self.lacks(part).is_none()
    }

    /// The interrupt controllers of the board, unless others are asked for.
    #[must_use]
    pub fn interrupts(self) -> Interrupts {
        match self.has(Part::Aia) {
            true => Interrupts::Aia,
            false => Interrupts::Plic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_for_options_plans_and_qemu() {
        for board in [Board::Virt, Board::SifiveU] {
            let name = board.name();
            assert_eq!(Board::from_str(name, false), Ok(board));
            let json = format!("{name:?}");
            assert_eq!(serde_json::from_str::<Board>(&json).unwrap(), board);
        }
    }

    #[test]
    fn the_monitor_core_runs_no_os() {
        assert_eq!(Board::Virt.all_harts(4), 4);
        assert_eq!(Board::SifiveU.all_harts(4), 5);
    }

    #[test]
    fn each_missing_part_has_one_reason() {
        let lists = [
            (Board::Virt, Board::SifiveU, &MISSING_ON_VIRT[..]),
            (Board::SifiveU, Board::Virt, &MISSING_ON_SIFIVE_U),
        ];
        for (board, other, list) in lists {
            for (at, (part, reason)) in list.iter().enumerate() {
                assert_eq!(board.lacks(*part), Some(*reason));
                assert!(other.has(*part));
                assert!(list[..at].iter().all(|(one, _)| one != part), "{part:?}");
            }
        }
        assert_eq!(Board::SifiveU.interrupts(), Interrupts::Plic);
        assert_eq!(Board::Virt.interrupts(), Interrupts::Aia);
    }
}
