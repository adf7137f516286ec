//! QEMU's test socket, which accesses the machine's bus.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

/// A connection to the socket.
pub(super) struct Bus {
    commands: UnixStream,
    answers: BufReader<UnixStream>,
}

/// QEMU's arguments for the socket, on a machine that is not switched on yet.
pub(super) fn arguments(sockets: &Path) -> [OsString; 5] {
    let socket = sockets.join("qtest");
    let socket = format!("unix:{},server=on,wait=off", socket.display());
    ["-S", "-qtest-log", "/dev/null", "-qtest", &socket].map(OsString::from)
}

impl Bus {
    /// Connects to the socket. QEMU must have begun to listen.
    pub(super) fn connect(sockets: &Path, limit: Duration) -> anyhow::Result<Self> {
        let commands = UnixStream::connect(sockets.join("qtest"))?;
        commands.set_read_timeout(Some(limit))?;
        let answers = BufReader::new(commands.try_clone()?);
        Ok(Bus { commands, answers })
    }

    /// Writes four bytes.
    pub(super) fn write(&mut self, address: u64, value: u64) -> anyhow::Result<()> {
        let command = format!("writel {address:#x} {value:#x}");
        self.commands.write_all(format!("{command}\n").as_bytes())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(
            answer.trim_end() == "OK",
            "QEMU answers {answer:?} to {command}"
        );
        Ok(())
    }
}
