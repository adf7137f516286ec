//! What a machine with a power supply is started with.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use poorwill_plugin::cache::Geometry;
use tempfile::TempDir;
use thiserror::Error;

use crate::flash::{FlashError, make_loader};
use crate::power_supply::{PowerSupply, SOURCE};
use crate::psu::{Link, PsuError};
use crate::qmp::socket_folder;
use crate::size::Bytes;
use crate::tree::{self, TreeError};
use crate::{Machine, Qemu};

/// The least memory that the loader works in.
const LEAST_MEMORY: Bytes = Bytes::mib(128);

/// How long idle harts wait for devices, in microseconds of the host's time, before the
/// machine's time goes on to the next timer. A disk takes milliseconds, and no driver is to
/// lose patience meanwhile; nor is a machine that waits for keys to grow old at once.
pub const GRACE_US: u32 = 20_000;

/// Why a machine cannot have its power supply.
#[derive(Debug, Error)]
pub enum SupplyError {
    /// Its memory is not a file.
    #[error("a machine that goes on where the power failed has its memory in a file: name it")]
    NoMemoryFile,
    /// Too little for the loader.
    #[error(
        "the machine's memory of {0} is too little to start a kernel from flash: give it \
             {LEAST_MEMORY} or more"
    )]
    LittleMemory(Bytes),
    /// The user has a device tree already.
    #[error(
        "-dtb cannot be given: the device tree that says how the power fails is made for the \
             machine"
    )]
    OwnTree,
    /// No tree can say it.
    #[error(
        "the hold-up comes to {0} instructions, and a machine can be told of 1000 to \
             4 * 10^12: give another hold-up or clock"
    )]
    HoldUp(u64),
    /// The device tree cannot be made.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The flash with the loader cannot be made.
    #[error(transparent)]
    Loader(#[from] FlashError),
    /// The line cannot be reached.
    #[error(transparent)]
    Line(#[from] PsuError),
    /// No folder for what the machine is started with.
    #[error("cannot make a temporary folder: {0}")]
    Folder(#[from] io::Error),
}

/// What a machine with a power supply needs while it runs; gone when dropped.
#[derive(Debug)]
pub(crate) struct Supplied {
    /// Where its power supply is.
    _link: Link,
    /// Its flash, its tree, and the socket.
    _folder: TempDir,
}

/// Checks that the machine can have that supply, and tells its hold-up in the machine's own
/// microseconds. Nothing is made.
pub(crate) fn check(machine: &Machine, supply: &PowerSupply) -> Result<u32, SupplyError> {
    if machine.ram.is_none() {
        return Err(SupplyError::NoMemoryFile);
    }
    if machine.memory < LEAST_MEMORY {
        return Err(SupplyError::LittleMemory(machine.memory));
    }
    let is_tree = |word: &OsString| word == "-dtb" || word == "--dtb";
    if machine.extra_arguments.iter().any(is_tree) {
        return Err(SupplyError::OwnTree);
    }
    let hold_up_us = supply.hold_up_us();
    hold_up_us.ok_or(SupplyError::HoldUp(supply.instructions()))
}

/// Makes what the machine is to be started with: the machine itself, with all of that in
/// its arguments, and what must last as long as it runs. The machine's memory is locked.
pub(crate) fn supply(
    machine: &Machine,
    supply: &PowerSupply,
    qemu: &Qemu,
) -> Result<(Machine, Supplied), SupplyError> {
    let hold_up_us = check(machine, supply)?;
    let ram = machine.ram.as_deref().ok_or(SupplyError::NoMemoryFile)?;
    let folder = socket_folder()?;
    let [loader, dtb, socket] = ["loader", "tree.dtb", "psu"].map(|name| folder.path().join(name));
    make_loader(&supply.loader, &loader)?;
    let mut machine = machine.clone();
    machine.loader = Some(loader);
    let cache = Geometry::default();
    let source = tree::power_fail(machine.interrupts, hold_up_us, cache.bytes());
    tree::write(&machine, qemu, &source, &dtb)?;
    let link = Link::make(ram, socket.clone())?;
    let plugin = plugin_arguments(supply, ram, &socket, cache);
    machine.extra_arguments.extend(["-dtb".into(), dtb.into()]);
    machine.extra_arguments.extend(plugin);
    let supplied = Supplied {
        _link: link,
        _folder: folder,
    };
    Ok((machine, supplied))
}

/// QEMU's arguments for the plugin.
fn plugin_arguments(
    supply: &PowerSupply,
    ram: &Path,
    socket: &Path,
    cache: Geometry,
) -> [OsString; 4] {
    // Caches are written back by loads, in a sleep too, of which no signal tells. A comma in a
    // name is doubled.
    let name = |file: &Path| file.to_string_lossy().replace(',', ",,");
    let plugin = format!(
        "{},ram={},l1={},ways={},loads=always,irq={SOURCE},control={},hold-up={},grace={GRACE_US}",
        name(&supply.plugin),
        name(ram),
        cache.bytes(),
        cache.ways(),
        name(socket),
        supply.instructions(),
    );
    // One hart after the other: the plugin's time needs it.
    ["-accel", "tcg,thread=single", "-plugin", &plugin].map(OsString::from)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::power_supply::Clock;
    use crate::qemu::Version;

    fn machine() -> Machine {
        Machine {
            ram: Some("a,b.ram".into()),
            ..Machine::new("fw")
        }
    }

    fn power_supply() -> PowerSupply {
        PowerSupply {
            hold_up: Duration::from_millis(16),
            clock: Clock::default(),
            plugin: "plugin.so".into(),
            loader: "loader.bin".into(),
        }
    }

    fn refused(machine: &Machine, given: &PowerSupply) -> String {
        let qemu = Qemu {
            program: "/no/such/qemu".into(),
            version: Version(10, 0),
        };
        supply(machine, given, &qemu)
            .map(drop)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_plugin_models_what_the_tree_says() {
        let (machine, given) = (machine(), power_supply());
        let ram = machine.ram.as_deref().unwrap();
        let socket = Path::new("/tmp/x/psu");
        let all = plugin_arguments(&given, ram, socket, Geometry::default());
        assert_eq!(
            all.map(|word| word.into_string().unwrap()),
            [
                "-accel",
                "tcg,thread=single",
                "-plugin",
                "plugin.so,ram=a,,b.ram,l1=16384,ways=4,loads=always,irq=60,control=/tmp/x/psu,\
                 hold-up=4224000,grace=20000"
            ]
        );
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_made() {
        let given = power_supply();
        let without = Machine {
            ram: None,
            ..machine()
        };
        assert!(refused(&without, &given).contains("memory in a file"));
        let small = Machine {
            memory: Bytes::mib(64),
            ..machine()
        };
        assert!(refused(&small, &given).contains("128.00 MiB or more"));
        let own_tree = Machine {
            extra_arguments: vec!["-dtb".into(), "mine.dtb".into()],
            ..machine()
        };
        assert!(refused(&own_tree, &given).contains("-dtb cannot be given"));
        let short = PowerSupply {
            hold_up: Duration::from_micros(1),
            ..power_supply()
        };
        assert!(refused(&machine(), &short).contains("264 instructions"));
        assert!(refused(&machine(), &given).contains("loader.bin"));
    }

    #[test]
    fn a_qemu_that_does_not_start_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let loader = folder.path().join("loader.bin");
        fs::write(&loader, "code").unwrap();
        let given = PowerSupply {
            loader,
            ..power_supply()
        };
        assert!(refused(&machine(), &given).contains("device tree"));
    }
}
