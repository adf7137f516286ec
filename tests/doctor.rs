//! `poorwill doctor --tree` beside the firmware: a machine runs until its OS starts, and its
//! registers are compared with what the command says of the machine's tree.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use poorwill_machine::{Qemu, paths};
use poorwill_tests::Gdb;
use serde_json::Value;
use tempfile::TempDir;

/// Entries of QEMU's harts.
const ENTRIES: u64 = 16;

/// Entries of a word of `pmpcfg`.
const IN_A_WORD: usize = 8;

/// SRST's extension and function, and kinds of a reset (SBI 3.0, chapter 10).
const SYSTEM_RESET: [u64; 2] = [0x5352_5354, 0];
const SHUTDOWN: u64 = 0;
const COLD_REBOOT: u64 = 1;

/// Offset of the register `output_val` of `sifive,gpio0`.
const GPIO_OUTPUT: u64 = 0x0c;

/// A kind of machine.
struct Board {
    machine: &'static str,
    harts: &'static str,
    /// With a flash that holds a vault.
    has_vault: bool,
}

/// What the machines need.
struct Tools {
    qemu: PathBuf,
    firmware: PathBuf,
    kernel: PathBuf,
    command: PathBuf,
    folder: TempDir,
}

impl Tools {
    fn find() -> anyhow::Result<Self> {
        let command = poorwill_tests::command()?;
        Ok(Tools {
            qemu: Qemu::find()?.program,
            firmware: paths::firmware()?,
            kernel: paths::test_kernel()?,
            command,
            folder: tempfile::tempdir()?,
        })
    }
}

/// A machine that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

impl Board {
    /// QEMU's arguments; `more`: further properties of the machine.
    fn arguments(&self, tools: &Tools, more: &str) -> anyhow::Result<Vec<OsString>> {
        let machine = format!("{}{more}", self.machine);
        let mut all: Vec<OsString> = ["-M", &machine, "-smp", self.harts, "-m", "512M"]
            .map(OsString::from)
            .into();
        all.extend(["-bios".into(), tools.firmware.clone().into()]);
        all.extend(["-kernel".into(), tools.kernel.clone().into()]);
        all.extend(["-append", "case=alive", "-display", "none"].map(OsString::from));
        if self.has_vault {
            let flash = tools.folder.path().join("flash");
            fs::write(&flash, vec![0xff; 32 << 20])?;
            let drive = format!("if=pflash,unit=1,format=raw,file={}", flash.display());
            all.extend(["-drive".into(), drive.into()]);
        }
        Ok(all)
    }

    /// What the command says of the machine's tree.
    fn said(&self, tools: &Tools) -> anyhow::Result<Value> {
        let tree = tools.folder.path().join("tree");
        let dump = format!(",dumpdtb={}", tree.display());
        let arguments = self.arguments(tools, &dump)?;
        let output = Command::new(&tools.qemu).args(arguments).output()?;
        ensure!(output.status.success(), "QEMU: {output:?}");
        let output = Command::new(&tools.command)
            .args(["doctor", "--json", "--tree"])
            .arg(&tree)
            .env("POORWILL_FIRMWARE", &tools.firmware)
            .output()?;
        ensure!(output.status.success(), "doctor: {output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn start(&self, tools: &Tools, socket: &Path) -> anyhow::Result<Running> {
        let stub = format!("unix:{},server=on,wait=off", socket.display());
        let child = Command::new(&tools.qemu)
            .args(self.arguments(tools, "")?)
            .args(["-S", "-gdb", &stub, "-serial", "null", "-monitor", "none"])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Running(child))
    }

    /// Compares a machine with what the command says of it.
    fn compare(&self, tools: &Tools) -> anyhow::Result<()> {
        let said = self.said(tools)?;
        for (switch, kind) in [("reset", COLD_REBOOT), ("power_off", SHUTDOWN)] {
            let socket = tools.folder.path().join(switch);
            let _running = self.start(tools, &socket)?;
            let mut gdb = Gdb::connect(&socket)?;
            if let Some(console) = said["console"]["address"].as_u64() {
                gdb.run_to_store(console).context("the console")?;
            }
            let end = said["fences"]["firmware"]["end"].as_u64();
            let next = end.context("a first range")?.next_multiple_of(2 << 20);
            gdb.run_to(next).context("the next stage")?;
            compare_pmp(&mut gdb, self.plan(&said)?)?;
            gdb.call_sbi(next, SYSTEM_RESET, [kind, 0])?;
            compare_switch(&mut gdb, &said[switch], next).context(switch)?;
        }
        Ok(())
    }

    /// The plan for these harts.
    fn plan<'v>(&self, said: &'v Value) -> anyhow::Result<&'v Value> {
        let plans = said["fences"]["divided"]["plans"].as_array();
        let mut plans = plans.into_iter().flatten();
        let is_its = |plan: &&Value| plan["entries"] == ENTRIES && plan["vault"] == self.has_vault;
        plans.find(is_its).context("a plan")
    }
}

/// Compares a switch with what a call for it does. A machine without the switch refuses the call, and
/// goes on after it.
fn compare_switch(gdb: &mut Gdb, said: &Value, call: u64) -> anyhow::Result<()> {
    let Some(address) = said["address"].as_u64() else {
        gdb.run_to(call + 4)?;
        let answer = gdb.integers()?[10].cast_signed();
        ensure!(answer < 0, "the call is answered by {answer}");
        return Ok(());
    };
    if said["kind"] == "gpio" {
        return gdb.run_to_store(address + GPIO_OUTPUT);
    }
    gdb.run_to_store(address)?;
    let value = said["value"].as_u64().context("a value")?;
    let registers = gdb.integers()?;
    ensure!(
        registers.contains(&value),
        "{value:#x} is not written to {address:#x}"
    );
    Ok(())
}

/// Compares all entries of the stopped hart with a plan: those after it must be off.
fn compare_pmp(gdb: &mut Gdb, plan: &Value) -> anyhow::Result<()> {
    let said = plan["registers"].as_array().context("registers")?;
    let used = said.len();
    ensure!(plan["used"] == used && used > 0, "used: {}", plan["used"]);
    for entry in 0..usize::try_from(ENTRIES)? {
        // Each word has a number of its own on RV32; on RV64 the odd ones are absent.
        let word = gdb.csr(&format!("pmpcfg{}", entry / IN_A_WORD * 2))?;
        let word = word.context("pmpcfg")?;
        let config = u64::from(word.to_le_bytes()[entry % IN_A_WORD]);
        let address = gdb.csr(&format!("pmpaddr{entry}"))?.context("pmpaddr")?;
        match said.get(entry) {
            Some(one) => ensure!(
                one["config"] == config && one["address"] == address,
                "entry {entry}: {one} is said, {config:#x} and {address:#x} is there"
            ),
            None => ensure!(config == 0, "entry {entry}: {config:#x} in place of none"),
        }
    }
    Ok(())
}

fn compare(board: &Board) {
    match Tools::find() {
        Ok(tools) => board.compare(&tools).unwrap(),
        Err(error) if std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1") => {
            panic!("{error:#}");
        }
        Err(error) => eprintln!("skipped: {error:#}"),
    }
}

#[test]
fn virt_with_a_plic() {
    compare(&Board {
        machine: "virt",
        harts: "2",
        has_vault: false,
    });
}

#[test]
fn virt_with_a_plic_and_a_vault() {
    compare(&Board {
        machine: "virt",
        harts: "4",
        has_vault: true,
    });
}

#[test]
fn virt_with_imsics() {
    compare(&Board {
        machine: "virt,aia=aplic-imsic",
        harts: "2",
        has_vault: false,
    });
}

#[test]
fn virt_with_an_aclint_and_an_aplic() {
    compare(&Board {
        machine: "virt,aia=aplic,aclint=on",
        harts: "1",
        has_vault: false,
    });
}

#[test]
fn sifive_u() {
    compare(&Board {
        machine: "sifive_u",
        harts: "5",
        has_vault: false,
    });
}
