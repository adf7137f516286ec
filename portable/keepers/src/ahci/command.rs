//! The keeper's own commands. All ports share one command list, command table and FIS
//! area, which lie in the scratch page, and use only the list's first slot. So all ports
//! execute the same command at the same time.

use poorwill_memory::checksum;
use zerocopy::{FromZeros, IntoBytes};

use super::hba::{Hba, numbers};
use super::registers::*;
use crate::{KeeperError, Machine};

/// Offsets in the scratch page. The list is aligned to 1024 bytes, the area to 256, the
/// table to 128.
const LIST: u64 = 0;
const FIS: u64 = 0x400;
const TABLE: u64 = 0x500;
const REGION: u64 = TABLE + 0x80;
const DATA: u64 = 0x800;
const DATA_BYTES: usize = 512;

/// The FIS for the device, at the start of a command table.
type CommandFis = [u8; 20];

/// ATA commands (ATA8-ACS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    IdentifyDisk,
    IdentifyPacket,
    FlushCache,
    FlushCacheExt,
    SetFeatures(u8),
}

impl Command {
    fn fis(self) -> CommandFis {
        /// The FIS type for a command from the host, and the device's LBA mode.
        const HOST_TO_DEVICE: u8 = 0x27;
        const COMMAND: u8 = 0x80;
        const LBA: u8 = 0x40;
        let (command, feature) = match self {
            Command::IdentifyDisk => (0xec, 0),
            Command::IdentifyPacket => (0xa1, 0),
            Command::FlushCache => (0xe7, 0),
            Command::FlushCacheExt => (0xea, 0),
            Command::SetFeatures(feature) => (0xef, feature),
        };
        let mut fis = [0; 20];
        fis[..8].copy_from_slice(&[HOST_TO_DEVICE, COMMAND, command, feature, 0, 0, 0, LBA]);
        fis
    }

    /// The number of memory regions that the command transfers.
    fn regions(self) -> u32 {
        matches!(self, Command::IdentifyDisk | Command::IdentifyPacket).into()
    }
}

/// The write cache and read-ahead: the feature's bit, and the SET FEATURES subcommands
/// that turn it on and off.
pub(super) const FEATURES: [(u16, u8, u8); 2] = [(1 << 5, 0x02, 0x82), (1 << 6, 0xaa, 0x55)];

/// The parts of a device's IDENTIFY data that the keeper uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The checksum of the fields that never change: serial number, model, capacity.
    pub(super) checksum: u64,
    /// The set bits of [`FEATURES`].
    pub(super) features: u16,
    /// The device has a password, so it will be locked after a power-on.
    pub(super) is_secured: bool,
    pub(super) flush: Command,
}

impl Identity {
    fn new(words: &[u16; DATA_BYTES / 2]) -> Self {
        let mut lasting = [0; 36];
        let (serial, rest) = lasting.split_at_mut(10);
        let (model, capacity) = rest.split_at_mut(20);
        serial.copy_from_slice(&words[10..20]);
        model.copy_from_slice(&words[27..47]);
        capacity.copy_from_slice(&[
            words[60], words[61], words[100], words[101], words[102], words[103],
        ]);
        let all = FEATURES.iter().fold(0, |all, (bit, ..)| all | bit);
        let is_flushed_ext = words[83] & 0xe000 == 0x6000;
        Identity {
            checksum: checksum::of_bytes(lasting.as_bytes()),
            features: words[85] & all,
            is_secured: words[128] & 1 << 1 != 0,
            flush: if is_flushed_ext {
                Command::FlushCacheExt
            } else {
                Command::FlushCache
            },
        }
    }
}

impl<M: Machine> Hba<'_, M> {
    /// The addresses of the keeper's own command list and FIS area.
    ///
    /// # Errors
    ///
    /// [`KeeperError::Unreachable`]: the HBA cannot use addresses above 4 GiB.
    pub(super) fn own(&self) -> Result<[u64; 2], KeeperError> {
        let page = self.device.machine.scratch();
        if page >> 32 != 0 && self.read(CAP) & CAP_64 == 0 {
            return Err(KeeperError::Unreachable(self.device.function));
        }
        Ok([page + LIST, page + FIS])
    }

    /// Executes a command on the `ports`, which were [started](Self::start) with the
    /// keeper's own list.
    ///
    /// # Errors
    ///
    /// [`KeeperError::NotDone`]; [`KeeperError::State`] if a device reports an error.
    pub(super) fn execute(
        &self,
        ports: u32,
        command: Command,
        until: u64,
    ) -> Result<(), KeeperError> {
        self.prepare(command)?;
        for number in numbers(ports) {
            self.port(number).write(CI, 1);
        }
        for number in numbers(ports) {
            let port = self.port(number);
            let is_over = || port.read(CI) & 1 == 0 || port.read(PXIS) & PXIS_FATAL != 0;
            self.wait(until, is_over)?;
            let has_failed = port.read(CI) & 1 != 0
                || port.read(PXIS) & PXIS_FATAL != 0
                || port.read(TFD) & (TFD_BUSY | TFD_ERROR) != 0;
            if has_failed {
                return Err(self.state());
            }
        }
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation, reason = "halves of addresses")]
    fn prepare(&self, command: Command) -> Result<(), KeeperError> {
        const FIS_DWORDS: u32 = 5;
        let page = self.device.machine.scratch();
        let wide = |address: u64| [address as u32, (address >> 32) as u32];
        let [table, upper] = wide(page + TABLE);
        let header = [FIS_DWORDS | command.regions() << 16, 0, table, upper];
        let [data, upper] = wide(page + DATA);
        let region = [data, upper, 0, DATA_BYTES as u32 - 1];
        self.put(LIST, header.as_bytes())?;
        self.put(TABLE, &command.fis())?;
        self.put(REGION, region.as_bytes())
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), KeeperError> {
        let machine = self.device.machine;
        let unreachable = KeeperError::Unreachable(self.device.function);
        let address = machine.scratch() + offset;
        machine.write(address, bytes).ok_or(unreachable)
    }

    /// Identifies a port's device.
    ///
    /// # Errors
    ///
    /// [`KeeperError::NotDone`]; [`KeeperError::State`] if it is neither a disk nor an
    /// ATAPI device.
    pub(super) fn identify(&self, number: u32, until: u64) -> Result<Identity, KeeperError> {
        let command = match self.port(number).read(SIG) {
            SIG_DISK => Command::IdentifyDisk,
            SIG_PACKET => Command::IdentifyPacket,
            _ => return Err(self.state()),
        };
        self.execute(1 << number, command, until)?;
        let mut words = <[u16; DATA_BYTES / 2]>::new_zeroed();
        let machine = self.device.machine;
        let unreachable = KeeperError::Unreachable(self.device.function);
        let address = machine.scratch() + DATA;
        machine
            .read(address, words.as_mut_bytes())
            .ok_or(unreachable)?;
        Ok(Identity::new(&words))
    }

    /// Flushes the caches of the disks among `ports`, all at the same time. `ext` are the
    /// ports whose disks need FLUSH CACHE EXT.
    pub(super) fn flush(&self, ports: u32, ext: u32, until: u64) -> Result<(), KeeperError> {
        self.execute(ports & ext, Command::FlushCacheExt, until)?;
        self.execute(ports & !ext, Command::FlushCache, until)
    }
}
