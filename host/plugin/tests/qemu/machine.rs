//! Machines of a few instructions under QEMU, with the plugin.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poorwill_plugin::report::Report;
use tempfile::TempDir;

/// How long one machine may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What RAM holds before power-on.
pub(crate) const OLD: u8 = 0xaa;

/// Where the tests' lines lie in RAM.
pub(crate) const DATA: usize = 0x10_0000;

const RAM_BYTES: usize = 64 << 20;

/// Whether a test can run; without QEMU or an assembler it is passed over, or fails with
/// `POORWILL_STRICT=1`.
pub(crate) fn is_ready() -> bool {
    let tools = ["qemu-system-riscv64", "riscv64-linux-gnu-as"];
    for tool in tools {
        let ran = Command::new(tool).arg("--version").output();
        if let Err(reason) = ran {
            let strict = std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1");
            assert!(!strict, "{tool}: {reason}");
            eprintln!("passed over: {tool}: {reason}");
            return false;
        }
    }
    true
}

/// A machine before it is switched on.
pub(crate) struct Machine {
    folder: TempDir,
    harts: usize,
    board: &'static str,
    more: Vec<&'static str>,
    has_caches: bool,
}

/// A machine that runs.
pub(crate) struct Running {
    machine: Machine,
    child: Child,
    until: Instant,
}

/// What a machine leaves.
pub(crate) struct Ended {
    machine: Machine,
    pub(crate) status: Option<i32>,
    pub(crate) errors: String,
    ram: Vec<u8>,
    report: Option<Report>,
}

impl Machine {
    /// One hart that will execute `source` from the beginning of RAM on.
    pub(crate) fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine {
            folder,
            harts: 1,
            board: "virt",
            more: Vec::new(),
            has_caches: true,
        };
        machine.assemble(source);
        machine.fill();
        machine
    }

    pub(crate) fn harts(self, harts: usize) -> Self {
        Machine { harts, ..self }
    }

    pub(crate) fn board(self, board: &'static str) -> Self {
        Machine { board, ..self }
    }

    /// The plugin gets no file of the RAM.
    pub(crate) fn without_caches(self) -> Self {
        Machine {
            has_caches: false,
            ..self
        }
    }

    /// More arguments for QEMU.
    pub(crate) fn with(self, more: &[&'static str]) -> Self {
        let more = more.to_vec();
        Machine { more, ..self }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn assemble(&self, source: &str) {
        let [text, object, guest] = ["guest.s", "guest.o", "guest.elf"].map(|name| self.file(name));
        fs::write(&text, [PRELUDE, source].concat()).expect("it is written");
        let mut assembler = Command::new("riscv64-linux-gnu-as");
        assembler.arg("-march=rv64imac_zicsr_zifencei_zicbom_zicboz");
        run(assembler.arg("-o").arg(&object).arg(&text));
        let mut linker = Command::new("riscv64-linux-gnu-ld");
        linker.args(["-Ttext=0x80000000", "-e", "_start", "-o"]);
        run(linker.arg(&guest).arg(&object));
    }

    fn fill(&self) {
        let file = fs::File::create(self.file("ram")).expect("a file");
        file.set_len(RAM_BYTES as u64).expect("a size");
        let mut ram = vec![0; DATA];
        ram.extend_from_slice(&[OLD; 1 << 16]);
        let file = self.file("ram");
        let mut options = fs::File::options();
        let mut file = options.write(true).open(file).expect("a file");
        std::io::Write::write_all(&mut file, &ram).expect("it is written");
    }

    /// Switches it on, with these arguments of the plugin; `@` is its folder.
    pub(crate) fn start(self, arguments: &str) -> Running {
        let place = |name| self.file(name).display().to_string();
        let folder = self.folder.path().display().to_string();
        let arguments = arguments.replace('@', &folder);
        let ram = match self.has_caches {
            true => format!("ram={},", place("ram")),
            false => String::new(),
        };
        let plugin = format!(
            "{},{ram}report={}{}{arguments}",
            plugin().display(),
            place("report"),
            if arguments.is_empty() { "" } else { "," },
        );
        let ram = format!(
            "memory-backend-file,id=m,size=64M,mem-path={},share=on",
            place("ram")
        );
        let board = format!("{},memory-backend=m", self.board);
        let child = Command::new("qemu-system-riscv64")
            .args(["-M", &board, "-object", &ram, "-m", "64M"])
            .args(["-seed", "7", "-smp", &self.harts.to_string()])
            .args([
                "-display",
                "none",
                "-nodefaults",
                "-bios",
                &place("guest.elf"),
            ])
            .args(if self.more.is_empty() {
                &["-accel", "tcg,thread=single"]
            } else {
                self.more.as_slice()
            })
            .args(["-plugin", &plugin])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("QEMU starts");
        Running {
            machine: self,
            child,
            until: Instant::now() + LIMIT,
        }
    }

    pub(crate) fn run(self, arguments: &str) -> Ended {
        self.start(arguments).wait()
    }
}

impl Running {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.machine.file(name)
    }

    /// Waits until something is so.
    pub(crate) fn until<T>(&mut self, mut is_so: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            if let Some(so) = is_so(self) {
                return so;
            }
            if Instant::now() > self.until {
                self.child.kill().expect("it is ended");
                panic!("it takes too long");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Byte `at` of the RAM.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        let file = fs::File::open(self.file("ram")).expect("it is there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64)
            .expect("it is read");
        byte[0]
    }

    pub(crate) fn wait(mut self) -> Ended {
        while self.child.try_wait().expect("it is asked").is_none() {
            if Instant::now() > self.until {
                self.child.kill().expect("it is ended");
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait().expect("it has ended").code();
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut errors).expect("text");
        let report = fs::read_to_string(self.file("report")).ok();
        let ram = fs::read(self.file("ram")).expect("it is read");
        Ended {
            machine: self.machine,
            status,
            errors,
            ram,
            report: report.map(|text| serde_json::from_str(&text).expect("a report")),
        }
    }
}

impl Ended {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.machine.file(name)
    }

    /// The report, of a machine that ended with `status`.
    pub(crate) fn report(&self, status: i32) -> &Report {
        assert_eq!(self.status, Some(status), "{}", self.errors);
        // QEMU has warnings of its own.
        assert!(!self.errors.contains("poorwill-plugin"), "{}", self.errors);
        let report = self.report.as_ref().expect("a report");
        assert_eq!(report.unknown_accesses, 0);
        report
    }

    /// The first byte of the test's line `number`.
    pub(crate) fn line(&self, number: usize) -> u8 {
        self.byte(number, 0)
    }

    /// Byte `at` of it.
    pub(crate) fn byte(&self, number: usize, at: usize) -> u8 {
        self.ram[DATA + number * 64 + at]
    }
}

/// What every guest begins with.
const PRELUDE: &str = "
    .equ DATA, 0x80100000
    .macro off
    li t0, 0x100000
    li t1, 0x5555
    sw t1, 0(t0)
    .endm
    # Stores 1 to count lines from DATA on.
    .macro store count
    li a0, DATA
    li a1, \\count
    li a2, 1
10: sd a2, 0(a0)
    addi a0, a0, 64
    addi a1, a1, -1
    bnez a1, 10b
    .endm
    .macro sleep
10: wfi
    j 10b
    .endm
    .globl _start
_start:
";

fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// The plugin that cargo built for this test. The copy a folder higher is made by
/// `cargo build` alone, and may be an old one.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let plugin = test.with_file_name("libpoorwill_plugin.so");
    assert!(
        plugin.exists(),
        "cargo builds {} for its tests",
        plugin.display()
    );
    plugin
}
