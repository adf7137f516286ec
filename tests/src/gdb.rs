//! A client of QEMU's stub for gdb: stops a machine, and reads its registers.
//!
//! The protocol is gdb's remote serial protocol (gdb's manual, appendix E): packets of text with a
//! checksum, each acknowledged by a `+`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Time in which QEMU opens its socket, and answers.
const PATIENCE: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(50);

/// Bytes of a part of a register description; QEMU's packets have 4096.
const PART: usize = 0x700;

/// The bytes of `ecall` in memory.
const ECALL: u32 = 0x7300_0000;

/// Numbers of the argument registers.
const A0: u32 = 10;
const A6: u32 = 16;
const A7: u32 = 17;

/// A connection to a machine.
#[derive(Debug)]
pub struct Gdb {
    stream: UnixStream,
    received: Vec<u8>,
    /// Numbers of the machine's CSRs.
    numbers: BTreeMap<String, u32>,
}

impl Gdb {
    /// Connects to a machine that stands still, by the socket of QEMU's `-gdb`.
    ///
    /// # Errors
    ///
    /// QEMU opens no socket in time, or describes no registers.
    pub fn connect(socket: &Path) -> anyhow::Result<Self> {
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > end => return Err(error.into()),
                Err(_) => std::thread::sleep(EVERY),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut gdb = Gdb {
            stream,
            received: Vec::new(),
            numbers: BTreeMap::new(),
        };
        gdb.ask("qSupported:multiprocess+;xmlRegisters=riscv")?;
        // Each cluster of harts is a process, and the first one is attached. A machine without a
        // second cluster refuses.
        gdb.ask("vAttach;2")?;
        // QEMU describes registers only after it was asked for the list of descriptions.
        gdb.description("target.xml")?;
        let text = gdb.description("riscv-csr.xml")?;
        gdb.numbers = numbers(&text);
        Ok(gdb)
    }

    fn description(&mut self, name: &str) -> anyhow::Result<String> {
        let mut text = String::new();
        loop {
            let at = text.len();
            let part = self.ask(&format!("qXfer:features:read:{name}:{at:x},{PART:x}"))?;
            match part.split_at_checked(1) {
                Some(("m", more)) => text += more,
                Some(("l", last)) => return Ok(text + last),
                _ => bail!("gdb: no description {name}: {part}"),
            }
        }
    }

    /// Sends a packet, and returns the answer.
    fn ask(&mut self, packet: &str) -> anyhow::Result<String> {
        let sum = packet.bytes().fold(0, u8::wrapping_add);
        write!(self.stream, "${packet}#{sum:02x}")?;
        let mut bytes = [0; 4096];
        loop {
            let start = self.received.iter().position(|byte| *byte == b'$');
            let end = self.received.iter().position(|byte| *byte == b'#');
            if let (Some(start), Some(end)) = (start, end)
                && self.received.len() >= end + 3
            {
                let answer = self.received[start + 1..end].to_vec();
                self.received.drain(..end + 3);
                self.stream.write_all(b"+")?;
                return Ok(String::from_utf8(answer)?);
            }
            let count = self.stream.read(&mut bytes).context("gdb: no answer")?;
            ensure!(count > 0, "gdb: QEMU has ended");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    fn order(&mut self, packet: &str) -> anyhow::Result<()> {
        let answer = self.ask(packet)?;
        ensure!(answer == "OK", "gdb: {packet}: {answer}");
        Ok(())
    }

    /// Runs the machine until it stops, and selects the hart that stopped it.
    fn run(&mut self) -> anyhow::Result<String> {
        let stop = self.ask("c")?;
        let hart = stop.split_once("thread:").map(|(_, rest)| rest);
        let hart = hart.and_then(|rest| rest.split(';').next());
        if let Some(hart) = hart {
            self.order(&format!("Hg{hart}"))?;
        }
        Ok(stop)
    }

    /// Runs the machine to the next store to this address.
    ///
    /// # Errors
    ///
    /// It stops elsewhere, ends, or runs on.
    pub fn run_to_store(&mut self, address: u64) -> anyhow::Result<()> {
        self.order(&format!("Z2,{address:x},1"))?;
        let stop = self.run()?;
        ensure!(
            stop.contains(&format!("watch:{address:x};")),
            "the machine does not store to {address:#x}: {stop}"
        );
        self.order(&format!("z2,{address:x},1"))
    }

    /// Runs the machine until a hart reaches this instruction. Its registers are read then.
    ///
    /// # Errors
    ///
    /// As [`run_to_store`](Self::run_to_store).
    pub fn run_to(&mut self, address: u64) -> anyhow::Result<()> {
        self.order(&format!("Z1,{address:x},4"))?;
        let stop = self.run()?;
        ensure!(
            stop.starts_with("T05") && !stop.contains("watch"),
            "the machine does not reach {address:#x}: {stop}"
        );
        self.order(&format!("z1,{address:x},4"))
    }

    /// A CSR of the stopped hart; `None`: the hart has none of this name.
    ///
    /// # Errors
    ///
    /// QEMU does not tell it.
    pub fn csr(&mut self, name: &str) -> anyhow::Result<Option<u64>> {
        let number = self.numbers.get(name).copied();
        let ask = |number| self.register(number);
        number.map(ask).transpose()
    }

    /// Makes the stopped hart's next instruction an SBI call with these arguments. Its OS starts at
    /// `address`, where it stands.
    ///
    /// # Errors
    ///
    /// QEMU does not take them.
    pub fn call_sbi(
        &mut self,
        address: u64,
        [extension, function]: [u64; 2],
        arguments: [u64; 2],
    ) -> anyhow::Result<()> {
        self.order(&format!("M{address:x},4:{ECALL:08x}"))?;
        let registers = [(A7, extension), (A6, function)];
        for (number, value) in registers.into_iter().chain((A0..).zip(arguments)) {
            self.order(&format!("P{number:x}={:016x}", value.swap_bytes()))?;
        }
        Ok(())
    }

    /// The integer registers of the stopped hart.
    ///
    /// # Errors
    ///
    /// QEMU does not tell them.
    pub fn integers(&mut self) -> anyhow::Result<Vec<u64>> {
        (0..32).map(|number| self.register(number)).collect()
    }

    /// A register in the order of its bytes in memory.
    fn register(&mut self, number: u32) -> anyhow::Result<u64> {
        let digits = self.ask(&format!("p{number:x}"))?;
        let value = u64::from_str_radix(&digits, 16);
        let value = value.with_context(|| format!("gdb: register {number}: {digits}"))?;
        Ok(value.swap_bytes())
    }
}

/// The registers of a description, each with its number.
fn numbers(text: &str) -> BTreeMap<String, u32> {
    let field = |one: &str, name: &str| {
        let (_, rest) = one.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let ones = text.split("<reg ").skip(1);
    ones.filter_map(|one| Some((field(one, "name")?, field(one, "regnum")?.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_by_their_names() {
        let text = r#"<feature name="x"><reg name="fflags" bitsize="64" regnum="67" type="int"/><reg name="pmpcfg0" regnum="994"/></feature>"#;
        let found = numbers(text);
        assert_eq!(found.get("fflags"), Some(&67));
        assert_eq!(found.get("pmpcfg0"), Some(&994));
        assert_eq!(found.len(), 2);
    }
}
