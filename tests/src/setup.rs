//! Finds the programs and files that the trials need.

use std::path::{Path, PathBuf};

use anyhow::Context;
use poorwill_machine::Qemu;
use poorwill_machine::paths::{self, Kernel, Tiny};

use crate::expand::Trial;
use crate::plan::{Domain, Guest, Step};

/// Programs and files. Each is present, or has the reason why it is not.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The emulator.
    pub qemu: Result<Qemu, String>,
    /// The firmware under test.
    pub firmware: Result<PathBuf, String>,
    /// The firmware under test, built so that it overwrites pages that it considers free
    /// (`poison-free`).
    pub poisoning: Result<PathBuf, String>,
    /// The firmware under test, built so that the weak hart gives the OS back again and again
    /// (`hand-back`).
    pub handing_back: Result<PathBuf, String>,
    /// The firmware under test, built so that it compares translated code (`check-blocks`).
    pub checking: Result<PathBuf, String>,
    /// The test kernel.
    pub kernel: Result<PathBuf, String>,
    /// The loader, for the first flash.
    pub loader: Result<PathBuf, String>,
    /// The critical guest.
    pub critical: Result<PathBuf, String>,
    /// The guest that attacks other domains.
    pub hostile: Result<PathBuf, String>,
    /// OpenSBI, for comparisons.
    pub opensbi: Result<PathBuf, String>,
    /// The plugin for QEMU.
    pub plugin: Result<PathBuf, String>,
    /// The Debian guest.
    pub linux: Result<paths::Guest, String>,
    /// The Debian guest with the backports' kernel.
    pub backports: Result<paths::Guest, String>,
    /// The installed U-Boot.
    pub u_boot: Result<PathBuf, String>,
    /// The U-Boot of the guest's lock.
    pub locked_u_boot: Result<PathBuf, String>,
    /// EDK2's code. Its variables are beside it.
    pub edk2: Result<PathBuf, String>,
    /// The folder for disks and logs.
    pub work: Result<PathBuf, String>,
}

/// U-Boot for S-mode, from the package `u-boot-qemu`.
const U_BOOT: &str = "/usr/lib/u-boot/qemu-riscv64_smode/uboot.elf";

/// EDK2's variables, as its package has them.
pub(crate) const EDK2_VARIABLES: &str = "edk2-vars.fd";

impl Setup {
    /// Searches for each program and file.
    #[must_use]
    pub fn find() -> Self {
        Self {
            qemu: Qemu::find().map_err(|error| error.to_string()),
            firmware: paths::firmware().map_err(|error| error.to_string()),
            poisoning: other_build("poison-free"),
            handing_back: other_build("hand-back"),
            checking: other_build("check-blocks"),
            kernel: kernel(),
            loader: built("loader.bin", "build it with `make loader`"),
            hostile: built("hostile.bin", "build it with `make hostile`"),
            critical: built("critical.bin", "build it with `make critical`"),
            opensbi: built("opensbi.bin", "unpack it with `make opensbi`"),
            plugin: built("poorwill-plugin.so", "build it with `make plugin`"),
            linux: paths::Guest::find(Kernel::Stock).map_err(|error| error.to_string()),
            backports: paths::Guest::find(Kernel::Backports).map_err(|error| error.to_string()),
            u_boot: file(Path::new(U_BOOT), "install the package u-boot-qemu"),
            locked_u_boot: built("u-boot.elf", "unpack it with `make u-boot`"),
            edk2: built("edk2-code.fd", "unpack it with `make edk2`"),
            work: paths::cache()
                .map(|cache| cache.join("tests"))
                .map_err(|error| error.to_string()),
        }
    }

    /// The reasons for all that is missing.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        [
            self.qemu.as_ref().err(),
            self.firmware.as_ref().err(),
            self.poisoning.as_ref().err(),
            self.handing_back.as_ref().err(),
            self.kernel.as_ref().err(),
            self.loader.as_ref().err(),
            self.plugin.as_ref().err(),
            self.critical.as_ref().err(),
            self.hostile.as_ref().err(),
            self.opensbi.as_ref().err(),
            self.linux.as_ref().err(),
            self.u_boot.as_ref().err(),
            self.locked_u_boot.as_ref().err(),
            self.work.as_ref().err(),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect()
    }

    /// The firmware for a trial.
    ///
    /// # Errors
    ///
    /// The firmware is missing, for this reason.
    pub fn firmware_for(&self, trial: &Trial) -> &Result<PathBuf, String> {
        match trial.row {
            ref row if row.poison_free => &self.poisoning,
            ref row if row.hand_back => &self.handing_back,
            ref row if row.check_blocks => &self.checking,
            _ => &self.firmware,
        }
    }

    /// The Linux guest for a trial.
    ///
    /// # Errors
    ///
    /// The guest is missing, for this reason.
    pub fn linux_for(&self, trial: &Trial) -> &Result<paths::Guest, String> {
        match trial.row.kernel {
            Kernel::Stock => &self.linux,
            Kernel::Backports => &self.backports,
        }
    }

    /// U-Boot for a trial.
    ///
    /// # Errors
    ///
    /// U-Boot is missing, for this reason.
    pub fn u_boot_for(&self, trial: &Trial) -> &Result<PathBuf, String> {
        match trial.row.locked_u_boot {
            true => &self.locked_u_boot,
            false => &self.u_boot,
        }
    }

    /// The Linux guest without a root file system for a trial.
    ///
    /// # Errors
    ///
    /// The guest is missing, for this reason.
    pub fn tiny_for(&self, trial: &Trial) -> Result<Tiny, String> {
        Tiny::find(trial.row.kernel).map_err(|error| error.to_string())
    }

    /// Whether only packages are missing that archives drop after some weeks: a backports kernel,
    /// or EDK2. The trial is then skipped with a message, even with `--strict`.
    #[must_use]
    pub fn is_gone(&self, trial: &Trial) -> bool {
        trial.row.kernel == Kernel::Backports && self.backports.is_err()
            || trial.row.edk2 && self.edk2.is_err()
    }

    /// Why a trial cannot run; `None`: it can.
    #[must_use]
    pub fn missing_for(&self, trial: &Trial) -> Option<&str> {
        let missing_guest = |guest| match guest {
            Guest::Kernel => self.kernel.as_ref().err(),
            Guest::Linux | Guest::LinuxSnapshot | Guest::LinuxWork | Guest::LinuxTiny => {
                self.linux_for(trial).as_ref().err()
            }
            Guest::UBoot => self.u_boot_for(trial).as_ref().err(),
            Guest::Critical => self.critical.as_ref().err(),
            Guest::Nothing => None,
        };
        let of_step = |step: &Step| match step {
            Step::PowerOn(on) => missing_guest(trial.row.guest_of(on)),
            _ => missing_guest(trial.row.guest),
        };
        let loader = trial.row.loader.then_some(&self.loader);
        let edk2 = trial.row.edk2.then_some(&self.edk2);
        let plugin = (trial.row.plugin || trial.row.fair).then_some(&self.plugin);
        let boots_linux = trial.disks.iter().any(|disk| disk.boot);
        let linux = boots_linux.then(|| self.linux_for(trial));
        let loads_hostile = trial.row.loads.iter().any(|load| load.hostile);
        let of_domain = |domain: &Domain| match domain {
            Domain::Hostile(_) => self.hostile.as_ref().err(),
            Domain::Critical(_) => self.critical.as_ref().err(),
            Domain::Linux(_) => self.linux.as_ref().err(),
        };
        let needs_opensbi = |step: &Step| matches!(step, Step::PowerOn(on) if on.opensbi.is_some());
        let of_domains = [
            (self.linux.as_ref().err()).filter(|_| trial.row.page),
            (self.critical.as_ref().err()).filter(|_| trial.row.page),
            (self.hostile.as_ref().err()).filter(|_| loads_hostile),
            (self.opensbi.as_ref().err()).filter(|_| trial.steps.iter().any(needs_opensbi)),
        ];
        let of_all = [
            linux.and_then(|linux| linux.as_ref().err()),
            self.qemu.as_ref().err(),
            plugin.and_then(|plugin| plugin.as_ref().err()),
            self.firmware_for(trial).as_ref().err(),
            loader.and_then(|loader| loader.as_ref().err()),
            edk2.and_then(|edk2| edk2.as_ref().err()),
            self.work.as_ref().err(),
        ];
        of_all
            .into_iter()
            .chain(of_domains)
            .chain(trial.row.domains.iter().map(of_domain))
            .chain(trial.steps.iter().map(of_step))
            .flatten()
            .next()
            .map(String::as_str)
    }
}

/// What was found, or an error with the reason why it is missing.
pub(crate) fn found<T>(what: &Result<T, String>) -> anyhow::Result<&T> {
    what.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))
}

/// The firmware with a feature. A mutant that `POORWILL_FIRMWARE` names is built so, too.
fn other_build(feature: &str) -> Result<PathBuf, String> {
    match std::env::var_os("POORWILL_FIRMWARE") {
        Some(_) => paths::firmware().map_err(|error| error.to_string()),
        None => built(
            &format!("poorwill-{feature}.elf"),
            &format!("build it with `make {feature}`"),
        ),
    }
}

/// The command `poorwill`, built in the folder of the test that calls this.
///
/// # Errors
///
/// It was not built.
pub fn command() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.ancestors().nth(2);
    let command = folder.context("a target folder")?.join("poorwill");
    anyhow::ensure!(command.exists(), "{} is missing", command.display());
    Ok(command)
}

/// A file that the Makefile builds, or the reason why it is missing.
fn built(name: &str, help: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build");
    file(&folder.join(name), help)
}

fn kernel() -> Result<PathBuf, String> {
    let named = std::env::var_os("POORWILL_TEST_KERNEL").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/test-kernel.bin");
    file(
        &named.unwrap_or(built),
        "build it with `make test-kernel`, or name it in POORWILL_TEST_KERNEL",
    )
}

fn file(path: &Path, help: &str) -> Result<PathBuf, String> {
    // An absolute path, since QEMU runs in another folder; a canonical one is easier to read.
    match path.canonicalize() {
        Ok(path) if path.is_file() => Ok(path),
        _ => Err(format!("no {}: {help}", path.display())),
    }
}
