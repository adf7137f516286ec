//! Machines with domains on QEMU's `virt`: a description in TOML, QEMU's arguments, and the device
//! trees. Each domain has a socket: its harts, its memory, its APLIC and its IMSIC files.
//!
//! Linux gets a bridge with its PCI functions below it. The critical guest's functions are on the
//! first bus, since their wired interrupts must be its own.

mod description;
mod entries;
pub mod frames;
mod functions;
pub mod partition;
mod sleep;
mod trees;

use description::PROGRAM;
pub use description::{DomainOnQemu, Domains};
pub use functions::{critical_devices, critical_functions};
pub use sleep::Sleep;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use poorwill_domain::LinuxImage;
use thiserror::Error;

use crate::area::{AreaError, check_only};
use crate::arguments::has_tree;
use crate::qemu::RECOMMENDED;
use crate::size::Bytes;
use crate::tree::{self, TreeError};
use crate::{Machine, Qemu, Socket, Version};

/// Why a machine with domains cannot be made.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Debug, Error)]
pub enum DomainsError {
    #[error("{file}: {reason}", file = .file.display())]
    Read {
        file: PathBuf,
        reason: std::io::Error,
    },
    #[error("{file}: {reason}", file = .file.display())]
    Parse {
        file: PathBuf,
        reason: Box<toml::de::Error>,
    },
    #[error("a machine has 2 to {max} domains here, and {0} are named", max = MAX_DOMAINS)]
    Count(usize),
    #[error("domain {0}: `memory` is {1}; it must be a multiple of 256 MiB, at most 2 GiB")]
    Memory(String, Bytes),
    #[error(
        "domain {name}: `uses` is {uses}; it must be a power of two from {LEAST_USED}, and at most \
         the domain's memory, {memory}"
    )]
    Uses {
        name: String,
        uses: Bytes,
        memory: Bytes,
    },
    #[error("domain {0}: `harts` is {1}; it must be 1, 2 or 4")]
    Harts(String, u32),
    #[error("domain {0:?}: a name has letters, digits and dashes, and begins with a letter")]
    Name(String),
    #[error("domain {0}: give it either `kernel` or `critical`")]
    Guest(String),
    #[error("domain {0}: `critical` goes into the last domain, whose socket gets wired interrupts")]
    NotLast(String),
    #[error("domain {0}: a critical guest has neither `initrd`, `append`, `disks` nor `network`")]
    NotLinux(String),
    #[error("domain {0} has {1} PCI functions; there is room for {max}", max = functions::MAX)]
    Functions(String, usize),
    #[error("two domains have {key} = {value}; change one")]
    Twice { key: &'static str, value: String },
    #[error("`may_sleep` is set in {0} domains; set it in one, the master")]
    Masters(usize),
    #[error("QEMU {0} lacks the IOMMU that domains need; use {RECOMMENDED} or later")]
    OldQemu(Version),
    #[error(
        "domain {name}: {file} takes {bytes} bytes, and the domain's memory has room for {room}; \
         raise `memory`, or `uses`",
        file = .file.display()
    )]
    TooLarge {
        name: String,
        file: PathBuf,
        bytes: u64,
        room: u64,
    },
    #[error("the memory to sleep on has {0}; it must be a power of two from 1 MiB to 16 GiB")]
    SleepMemory(Bytes),
    #[error(transparent)]
    SleepDisk(#[from] AreaError),
    #[error(
        "domain {name}: {file} is no Linux `Image` for RISC-V; unpack a compressed or EFI kernel first",
        file = .file.display()
    )]
    NoImage { name: String, file: PathBuf },
    #[error("QEMU's `-dtb` is not allowed: a machine with domains has trees of its own")]
    OwnTree,
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// The most domains: each Linux's functions share a wired source, and there are four.
const MAX_DOMAINS: usize = 4;

/// The unit of a domain's memory, and the most of it.
const MEMORY_UNIT: Bytes = Bytes::mib(256);
const MOST_MEMORY: Bytes = Bytes::gib(2);

/// The least memory that a domain uses: the firmware's, a program, a tree.
const LEAST_USED: Bytes = Bytes::mib(16);

/// Bytes where QEMU places the machine's tree: before the end of RAM or before 3 GiB, whichever is
/// lower.
const MACHINE_TREE: u64 = 2 << 20;
const MACHINE_TREE_BELOW: u64 = 3 << 30;

impl Domains {
    /// Reads a description. Its files are relative to its folder.
    ///
    /// # Errors
    ///
    /// [`DomainsError`].
    pub fn read(file: &Path) -> Result<Self, DomainsError> {
        let text = fs::read_to_string(file).map_err(|reason| DomainsError::Read {
            file: file.to_owned(),
            reason,
        })?;
        let mut domains: Domains = toml::from_str(&text).map_err(|reason| DomainsError::Parse {
            file: file.to_owned(),
            reason: reason.into(),
        })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        for domain in &mut domains.domains {
            let files = [&mut domain.kernel, &mut domain.initrd, &mut domain.critical];
            let files = files.into_iter().chain([&mut domain.trigger]).flatten();
            for path in files.chain(&mut domain.disks) {
                *path = folder.join(&*path);
            }
        }
        if let Some(Sleep::Nvme(disk)) = &mut domains.sleep {
            disk.file = folder.join(&disk.file);
        }
        domains.check()?;
        Ok(domains)
    }

    /// Checks what needs no file.
    ///
    /// # Errors
    ///
    /// [`DomainsError`].
    pub fn check(&self) -> Result<(), DomainsError> {
        let count = self.domains.len();
        if !(2..=MAX_DOMAINS).contains(&count) {
            return Err(DomainsError::Count(count));
        }
        for (place, domain) in self.domains.iter().enumerate() {
            domain.check(place + 1 == count)?;
            let Socket { harts, memory } = self.socket(domain);
            if memory.0 == 0 || memory.0 % MEMORY_UNIT.0 != 0 || memory > MOST_MEMORY {
                return Err(DomainsError::Memory(domain.name.clone(), memory));
            }
            let uses = self.used(domain);
            let is_good = domain.uses.is_none() || uses.0.is_power_of_two();
            if !is_good || !(LEAST_USED..=memory).contains(&uses) {
                let name = domain.name.clone();
                return Err(DomainsError::Uses { name, uses, memory });
            }
            if ![1, 2, 4].contains(&harts) {
                return Err(DomainsError::Harts(domain.name.clone(), harts));
            }
        }
        if let Some(Sleep::Memory { bytes, .. }) = &self.sleep
            && !sleep::is_good(*bytes)
        {
            return Err(DomainsError::SleepMemory(*bytes));
        }
        let names = self.domains.iter().map(|domain| &domain.name);
        unique("name", names)?;
        let orders = self.domains.iter().map(|domain| domain.wake_order);
        unique("wake_order", orders)?;
        let masters = self.domains.iter().filter(|domain| domain.may_sleep);
        match masters.count() {
            1 => Ok(()),
            count => Err(DomainsError::Masters(count)),
        }
    }

    /// Makes the machine with further `arguments` of QEMU, and its device trees in `folder`. Returns
    /// the firmware's tree, too.
    ///
    /// # Errors
    ///
    /// [`DomainsError`].
    pub fn machine(
        &self,
        qemu: &Qemu,
        arguments: &[OsString],
        firmware: &Path,
        folder: &Path,
    ) -> Result<(Machine, PathBuf), DomainsError> {
        self.check()?;
        if qemu.version < RECOMMENDED {
            return Err(DomainsError::OldQemu(qemu.version));
        }
        if has_tree(arguments) {
            return Err(DomainsError::OwnTree);
        }
        (self.domains.iter()).try_for_each(DomainOnQemu::check_kernel)?;
        if let Some(Sleep::Nvme(disk)) = &self.sleep {
            check_only(&disk.file)?;
        }
        let mut machine = self.board(firmware);
        machine.extra_arguments.extend_from_slice(arguments);
        let of_machine = folder.join("machine.dtb");
        let plain = tree::of_machine(&machine, qemu, &of_machine)?;
        tree::write_with(&plain, &trees::of_machine(self), &of_machine)?;
        machine.add("-dtb", &of_machine);
        for (socket, domain) in self.domains.iter().enumerate() {
            let file = folder.join(format!("{}.dtb", domain.name));
            match domain.kernel {
                Some(_) => {
                    let source = trees::of_linux(self, socket, &plain, domain.initrd_bytes()?);
                    tree::write_with(&plain, &source, &file)?;
                }
                None => self.write_critical(socket, &file)?,
            }
            self.load(&mut machine, socket, &file)?;
        }
        Ok((machine, of_machine))
    }

    /// Writes the critical guest's tree to `file`.
    ///
    /// # Errors
    ///
    /// [`TreeError`].
    pub fn write_critical(&self, socket: usize, file: &Path) -> Result<(), TreeError> {
        tree::write_with("/dts-v1/;", &trees::of_critical(self, socket), file)
    }

    /// Linux's disks: bus and slot of each one's controller, and its file.
    pub fn disks(&self) -> impl Iterator<Item = (u32, u32, &Path)> {
        let domains = self.domains.iter().enumerate();
        domains.flat_map(|(socket, domain)| {
            let disks = domain.disks.iter().enumerate();
            disks.map(move |(index, file)| {
                let (bus, slot) = functions::place(socket, index);
                (bus, slot, file.as_path())
            })
        })
    }

    /// The machine without what is loaded into its memory: neither domains nor an OS.
    #[must_use]
    pub fn board(&self, firmware: &Path) -> Machine {
        let sockets = self.domains.iter().map(|domain| self.socket(domain));
        let mut machine = Machine::new(firmware).on_sockets(sockets);
        machine.add("-machine", "iommu-sys=on");
        for (socket, domain) in self.domains.iter().enumerate() {
            for (option, value) in functions::arguments(socket, domain) {
                machine.add(option, value);
            }
        }
        for (option, value) in self.sleep.iter().flat_map(Sleep::arguments) {
            machine.add(option, value);
        }
        machine
    }

    /// Loads a domain's files into its memory.
    fn load(&self, machine: &mut Machine, socket: usize, tree: &Path) -> Result<(), DomainsError> {
        let domain = &self.domains[socket];
        let memory = self.memory_of(socket);
        let program = domain.kernel.as_ref().or(domain.critical.as_ref());
        let (of_tree, of_initrd) = (self.tree_of(socket), self.initrd_of(socket));
        let files = [
            (program.map(PathBuf::as_path), PROGRAM, of_tree),
            (Some(tree), of_tree, of_initrd),
            (
                domain.initrd.as_deref(),
                of_initrd,
                self.end_of_room(socket),
            ),
        ];
        for (file, offset, end) in files {
            let Some(file) = file else { continue };
            let in_memory = match &domain.kernel {
                Some(kernel) if kernel == file => image(file)?.map_or(0, |image| image.bytes),
                _ => 0,
            };
            let bytes = bytes_of(file)?.max(in_memory);
            if bytes > end - offset {
                return Err(DomainsError::TooLarge {
                    name: domain.name.clone(),
                    file: file.to_owned(),
                    bytes,
                    room: end - offset,
                });
            }
            machine.load(file, memory.start + offset);
        }
        Ok(())
    }

    /// Offset in a domain's memory before which its files have room.
    fn end_of_room(&self, socket: usize) -> u64 {
        let memory = self.memory_of(socket);
        let end_of_ram = self.memory_of(self.domains.len()).start;
        let tree = end_of_ram.min(MACHINE_TREE_BELOW) - MACHINE_TREE;
        let end = if memory.contains(&tree) {
            tree
        } else {
            memory.end
        };
        end - memory.start
    }
}

impl DomainOnQemu {
    fn check(&self, is_last: bool) -> Result<(), DomainsError> {
        let name = || self.name.clone();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !self.name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !self.name.chars().all(is_plain)
        {
            return Err(DomainsError::Name(name()));
        }
        let has_linux = self.initrd.is_some()
            || !self.append.is_empty()
            || !self.disks.is_empty()
            || self.network.is_some();
        let functions = self.disks.len() + usize::from(self.network.is_some());
        match (&self.kernel, &self.critical) {
            (Some(_), Some(_)) | (None, None) => Err(DomainsError::Guest(name())),
            (None, Some(_)) if has_linux => Err(DomainsError::NotLinux(name())),
            (None, Some(_)) if !is_last => Err(DomainsError::NotLast(name())),
            _ if functions > functions::MAX => Err(DomainsError::Functions(name(), functions)),
            _ => Ok(()),
        }
    }

    /// Refuses a kernel without the header of a Linux `Image`: it would start, and then be silent.
    fn check_kernel(&self) -> Result<(), DomainsError> {
        let Some(kernel) = &self.kernel else {
            return Ok(());
        };
        match image(kernel)? {
            Some(_) => Ok(()),
            None => Err(DomainsError::NoImage {
                name: self.name.clone(),
                file: kernel.clone(),
            }),
        }
    }

    fn initrd_bytes(&self) -> Result<u64, DomainsError> {
        self.initrd.as_deref().map_or(Ok(0), bytes_of)
    }
}

/// Refuses two equal values of a key.
fn unique<T: Ord + ToString>(
    key: &'static str,
    values: impl Iterator<Item = T>,
) -> Result<(), DomainsError> {
    let mut values: Vec<_> = values.collect();
    values.sort();
    match values.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(DomainsError::Twice {
            key,
            value: pair[0].to_string(),
        }),
        None => Ok(()),
    }
}

/// The header of a Linux `Image`; `None` without one.
fn image(kernel: &Path) -> Result<Option<LinuxImage>, DomainsError> {
    let mut header = [0; LinuxImage::HEADER_BYTES];
    let read = File::open(kernel).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Ok(()) => Ok(LinuxImage::read(&header)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(reason) => Err(DomainsError::Read {
            file: kernel.to_owned(),
            reason,
        }),
    }
}

fn bytes_of(file: &Path) -> Result<u64, DomainsError> {
    let found = fs::metadata(file).map_err(|reason| DomainsError::Read {
        file: file.to_owned(),
        reason,
    })?;
    Ok(found.len())
}

#[cfg(test)]
mod tests;
