//! How a port has its disk execute commands.

use super::disk::{Disk, Request};
use super::port::*;
use crate::tests::board::Board;
use crate::tests::machine::FUNCTION;

impl Port {
    pub(super) fn accept(&mut self, board: &Board, disk: &Disk) {
        let is_busy = |port: &Port| port.task_file & BUSY != 0;
        for slot in 0..32 {
            let is_running = self
                .running
                .iter()
                .any(|running| running.slot == slot && !running.request.is_queued());
            if self.issued >> slot & 1 == 0 || is_running || is_busy(self) {
                continue;
            }
            if board.now() < self.accepts_at || self.pending & TFES != 0 {
                return;
            }
            let request = self.fetch(board, slot);
            let queued = request.is_queued();
            let collides = self
                .running
                .iter()
                .any(|running| running.slot == slot || running.request.is_queued() != queued);
            self.must(
                !collides,
                "the disk has this tag, or commands of the other kind",
            );
            if queued {
                self.must(
                    self.active >> slot & 1 != 0,
                    "a queued command that is not active",
                );
                self.issued &= !(1 << slot);
            } else {
                self.task_file = BUSY;
            }
            self.running.push(Running {
                slot,
                done_at: board.now() + disk.microseconds(&request),
                request,
            });
        }
    }

    /// Reads a command from the list.
    fn fetch(&self, board: &Board, slot: u32) -> Request {
        let list = u64::from(self.list[0]) | u64::from(self.list[1]) << 32;
        let mut header = [0; 16];
        board.dma_read(FUNCTION, list + 32 * u64::from(slot), &mut header);
        self.must(header[0] & 0x1f == 5, "a command's FIS has 5 dwords");
        let mut table = [0; 8];
        table.copy_from_slice(&header[8..]);
        let table = u64::from_le_bytes(table);
        let mut fis = [0; 20];
        board.dma_read(FUNCTION, table, &mut fis);
        self.must(fis[..2] == [0x27, 0x80], "no command");
        let mut buffer = [0; 8];
        board.dma_read(FUNCTION, table + 0x80, &mut buffer);
        Request {
            fis,
            buffer: (header[2] != 0).then_some(u64::from_le_bytes(buffer)),
        }
    }

    pub(super) fn complete(&mut self, board: &Board, disk: &mut Disk) {
        let now = board.now();
        while let Some(place) = self.running.iter().position(|one| one.done_at <= now) {
            let Running { slot, request, .. } = self.running.remove(place);
            let is_done = disk.execute(board, &request).is_some();
            if request.is_queued() {
                self.active &= !(1 << slot);
                self.post(board, 0x58, 1 << slot);
                self.pending |= SDBS;
                continue;
            }
            self.task_file = if is_done { READY } else { READY | 1 };
            self.post(board, 0x40, self.task_file);
            self.pending |= match (is_done, request.is_pio()) {
                (false, _) => TFES | DHRS,
                (true, true) => PSS,
                (true, false) => DHRS,
            };
            if is_done {
                self.issued &= !(1 << slot);
            }
        }
    }
}
