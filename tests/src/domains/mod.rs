//! Machines with a domain on each socket.

mod crowd;
mod entries;
mod hostile;
mod page;
mod steady;
mod tree;
mod watch;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use indicatif::ProgressBar;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::domains::{DomainOnQemu, Domains, Sleep};
use poorwill_machine::paths::{Kernel, Tiny};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, Qemu};

use crate::plan::{Bus, Critical, Domain, Linux, Load};
use crate::setup::{Setup, found};
pub use crowd::{Others, longest_refusal};
pub use entries::Entries;
pub(crate) use page::machine as of_page;
pub use steady::{Late, Wake, wakes};
use tree::{MEMORY, ORDERS, PROGRAM, has_critical};
pub use watch::{Part, Seen};
pub(crate) use watch::{Watch, add_fair, add_trace, time_first_os};

/// Bytes of the disk that a bus may have.
const DISK_BYTES: u64 = 1 << 20;

/// The domains, and their sockets.
#[derive(Clone, Debug)]
pub(crate) struct Sockets<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) domains: &'a [Domain],
    pub(crate) bus: &'a Bus,
    /// Machine mode's own disk.
    pub(crate) sleep: Option<Sleep>,
    /// Harts and memory of a socket.
    pub(crate) harts: u32,
    pub(crate) memory: Bytes,
}

impl Sockets<'_> {
    /// The machine. Its files are in `folder`, and its socket in `sockets`.
    pub(crate) fn machine(
        &self,
        qemu: &Qemu,
        firmware: &Path,
        folder: &Path,
        sockets: &Path,
    ) -> anyhow::Result<Machine> {
        let described = self.described(folder, sockets)?;
        if !has_hostile(self.domains) {
            return Ok(described.machine(qemu, &[], firmware, folder)?.0);
        }
        ensure!(
            self.domains.len() <= MEMORY.len() && self.memory == Bytes::mib(256),
            "the hostile guest knows three sockets, with 256M each"
        );
        let mut machine = described.board(firmware);
        self.add_bus(&mut machine, folder)?;
        for (socket, domain) in self.domains.iter().enumerate() {
            let argument = argument(folder, socket);
            let program = match domain {
                Domain::Hostile(role) => {
                    fs::write(&argument, hostile::orders(socket, self.harts, *role, 0))?;
                    &self.setup.hostile
                }
                _ => {
                    described.write_critical(socket, &argument)?;
                    &self.setup.critical
                }
            };
            machine.load(found(program)?, MEMORY[socket] + PROGRAM);
            machine.load(&argument, MEMORY[socket] + ORDERS);
        }
        Ok(machine)
    }

    /// Tells hostile guests the life that their next cold boot begins.
    pub(crate) fn tell_life(&self, folder: &Path, life: u64) -> io::Result<()> {
        for (socket, domain) in self.domains.iter().enumerate() {
            if let Domain::Hostile(role) = domain {
                let orders = hostile::orders(socket, self.harts, *role, life);
                fs::write(argument(folder, socket), orders)?;
            }
        }
        Ok(())
    }

    /// The same machine with the first domain's Linux as its only OS.
    pub(crate) fn alone(&self, firmware: &Path, folder: &Path) -> anyhow::Result<Machine> {
        let mut described = self.described(folder, folder)?;
        let mut machine = described.board(firmware);
        machine.kernel = described.domains.swap_remove(0).kernel;
        Ok(machine)
    }

    /// The same machine without domains and without an OS.
    pub(crate) fn plain(&self, firmware: &Path, folder: &Path) -> anyhow::Result<Machine> {
        Ok(self.described(folder, folder)?.board(firmware))
    }

    fn described(&self, folder: &Path, sockets: &Path) -> anyhow::Result<Domains> {
        let domains = self.domains.iter().enumerate();
        let domains =
            domains.map(|(socket, domain)| self.describe(socket, domain, folder, sockets));
        Ok(Domains {
            memory: self.memory,
            harts: self.harts,
            sleep: self.sleep.clone(),
            domains: domains.collect::<anyhow::Result<_>>()?,
        })
    }

    fn describe(
        &self,
        socket: usize,
        domain: &Domain,
        folder: &Path,
        sockets: &Path,
    ) -> anyhow::Result<DomainOnQemu> {
        let mut described = DomainOnQemu {
            name: format!("side{socket}"),
            wake_order: u32::try_from(socket)? + 1,
            may_sleep: socket + 1 == self.domains.len(),
            ..DomainOnQemu::default()
        };
        match domain {
            Domain::Hostile(_) => {}
            Domain::Critical(Critical {
                wake_after_ms,
                load_us,
                uses,
            }) => {
                described.wake_order = 0;
                described.critical = Some(found(&self.setup.critical)?.clone());
                described.trigger = Some(sockets.join("trigger"));
                described.wake_after_ms = *wake_after_ms;
                described.load_us = *load_us;
                described.uses = uses.as_deref().map(str::parse).transpose()?;
            }
            Domain::Linux(Linux {
                words,
                disk,
                area,
                harts,
                memory,
                uses,
            }) => {
                let tiny = Tiny::find(Kernel::Stock)?;
                described.kernel = Some(tiny.kernel);
                described.initrd = Some(tiny.initrd);
                described.append.clone_from(words);
                described.harts = *harts;
                described.memory = memory.as_deref().map(str::parse).transpose()?;
                described.uses = uses.as_deref().map(str::parse).transpose()?;
                let file = folder.join(format!("disk{socket}"));
                if let Some(bytes) = disk {
                    File::create(&file)?.set_len(bytes.parse::<Bytes>()?.0)?;
                    described.disks.push(file);
                } else if let Some(bytes) = area {
                    if !file.exists() {
                        make_area(&file, bytes.parse()?)?;
                    }
                    described.disks.push(file);
                }
            }
        }
        Ok(described)
    }

    /// Adds the bus. The other domain's device would have the critical guest's interrupts.
    fn add_bus(&self, machine: &mut Machine, folder: &Path) -> anyhow::Result<()> {
        machine.add("-device", &self.bus.bridge);
        let disk = folder.join("disk");
        File::create(&disk)?.set_len(DISK_BYTES)?;
        let drive = format!("if=none,id=disk,format=raw,file={}", disk.display());
        machine.add("-drive", drive);
        for device in &self.bus.below {
            machine.add("-device", format!("{device},bus=bridge"));
        }
        if !has_critical(self.domains) {
            machine.add("-device", "edu,addr=3");
        }
        Ok(())
    }

    /// What QEMU's tree lacks for them; empty for domains whose machine has its tree already.
    pub(crate) fn source(&self) -> String {
        match has_hostile(self.domains) {
            true => {
                let sleep = self.sleep.as_ref().map(Sleep::functions);
                tree::partition(
                    self.domains,
                    self.bus,
                    &sleep.unwrap_or_default(),
                    self.harts,
                )
            }
            false => String::new(),
        }
    }
}

/// The file with the argument of the guest on a socket.
fn argument(folder: &Path, socket: usize) -> PathBuf {
    folder.join(format!("argument{socket}"))
}

fn has_hostile(domains: &[Domain]) -> bool {
    let mut domains = domains.iter();
    domains.any(|domain| matches!(domain, Domain::Hostile(_)))
}

/// Creates a disk with a sleep area of this length.
fn make_area(file: &Path, bytes: Bytes) -> anyhow::Result<()> {
    let new = NewDisk {
        root: None,
        swap: None,
        areas: vec![bytes],
    };
    Ok(new.create(file, false, &ProgressBar::hidden())?)
}

/// Adds contents of memory.
pub(crate) fn add_loads(
    machine: &mut Machine,
    loads: &[Load],
    hostile: &Result<PathBuf, String>,
    folder: &Path,
) -> anyhow::Result<()> {
    for (number, one) in loads.iter().enumerate() {
        let own = folder.join(format!("load{number}"));
        let file = match one.hostile {
            true => found(hostile)?,
            false => {
                fs::write(&own, one.bytes())?;
                &own
            }
        };
        machine.load(file, one.at);
    }
    Ok(())
}
