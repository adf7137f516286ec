//! Creates the files that a machine with a power supply needs: flash, device tree and socket.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use poorwill_plugin::cache::Geometry;
use tempfile::TempDir;
use thiserror::Error;

use crate::arguments::has_tree;
use crate::flash::{FlashError, make_loader};
use crate::power_supply::{PowerSupply, SOURCE};
use crate::psu::{Link, PsuError};
use crate::qmp::socket_folder;
use crate::quoted::quoted;
use crate::size::Bytes;
use crate::tree::{self, TreeError};
use crate::{Machine, Qemu};

/// The least memory in which the loader can place a kernel.
const LEAST_MEMORY: Bytes = Bytes::mib(128);

/// Time that idle harts wait for devices, in microseconds of the host's time. Then the machine's
/// time jumps to its next timer. A disk takes milliseconds, and no driver may time out before; nor
/// may the machine's time race ahead while it waits for keys.
pub const GRACE_US: u32 = 20_000;

/// Why a machine cannot have its power supply.
#[derive(Debug, Error)]
pub enum SupplyError {
    #[error("a machine with a power supply needs a file for its memory: name one")]
    NoMemoryFile,
    #[error(
        "{0} of memory are too little to start a kernel from flash: give the machine {LEAST_MEMORY} or more"
    )]
    LittleMemory(Bytes),
    #[error("-dtb cannot be given: the machine's device tree must describe its power supply")]
    OwnTree,
    #[error(
        "the hold-up is {0} instructions, and must be 1000 to 4 * 10^12: give another hold-up or clock"
    )]
    HoldUp(u64),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Loader(#[from] FlashError),
    #[error(transparent)]
    Line(#[from] PsuError),
    #[error("cannot create a temporary folder: {0}")]
    Folder(#[from] io::Error),
}

/// The link and the folder of a running machine with a power supply. Both are removed when dropped.
#[derive(Debug)]
pub(crate) struct Supplied {
    _link: Link,
    /// Holds the flash, the device tree and the socket.
    _folder: TempDir,
}

/// Checks that the machine can have this power supply, and returns its hold-up in the machine's own
/// microseconds. Creates no file.
pub(crate) fn check(machine: &Machine, supply: &PowerSupply) -> Result<u32, SupplyError> {
    if machine.ram.is_none() {
        return Err(SupplyError::NoMemoryFile);
    }
    if machine.memory < LEAST_MEMORY {
        return Err(SupplyError::LittleMemory(machine.memory));
    }
    if has_tree(&machine.extra_arguments) {
        return Err(SupplyError::OwnTree);
    }
    let hold_up_us = supply.hold_up_us();
    hold_up_us.ok_or(SupplyError::HoldUp(supply.instructions()))
}

/// Creates the files. Returns the machine with arguments for them, and the folder to keep while it
/// runs. The machine's memory must be locked.
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

fn plugin_arguments(
    supply: &PowerSupply,
    ram: &Path,
    socket: &Path,
    cache: Geometry,
) -> [OsString; 4] {
    // The caches model loads from the start (`loads=always`): a sleep writes back by loads, and no
    // signal announces it.
    let plugin = format!(
        "{},ram={},l1={},ways={},loads=always,irq={SOURCE},control={},hold-up={},grace={GRACE_US}",
        quoted(&supply.plugin),
        quoted(ram),
        cache.bytes(),
        cache.ways(),
        quoted(socket),
        supply.instructions(),
    );
    // The plugin's time base needs all harts in one thread.
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
        assert!(refused(&without, &given).contains("a file for its memory"));
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
