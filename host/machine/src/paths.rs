//! Finds the files that Poorwill builds or downloads.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// Debian's OpenSBI, for comparisons.
pub const OPENSBI: &str = "/usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin";

#[derive(Debug, Error)]
pub enum PathError {
    #[error("no home directory: set {0}, or HOME")]
    NoHome(&'static str),
    #[error("no firmware found: build it with `make firmware`, or name it with --firmware FILE")]
    NoFirmware,
    #[error(
        "no test kernel found: build it with `make test-kernel`, or name it in \
             POORWILL_TEST_KERNEL"
    )]
    NoTestKernel,
    #[error("no loader found: build it with `make loader`, or name it in POORWILL_LOADER")]
    NoLoader,
    #[error(
        "no critical guest found: build it with `make critical`, or name it in POORWILL_CRITICAL"
    )]
    NoCritical,
    #[error("no plugin for QEMU found: build it with `make plugin`, or name it in POORWILL_PLUGIN")]
    NoPlugin,
    #[error("no guest ({file} is missing): build it once with `tools/guest`",
            file = .0.display())]
    NoGuest(PathBuf),
    #[error("cannot read {what} {path}: {reason}", path = .path.display())]
    Unreadable {
        what: &'static str,
        path: PathBuf,
        reason: std::io::Error,
    },
}

fn directory(
    own: &'static str,
    xdg: &str,
    in_home: &str,
    get: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, PathError> {
    let set = |name: &str| {
        get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set(own)
        .or_else(|| set(xdg).map(|base| base.join("poorwill")))
        .or_else(|| set("HOME").map(|home| home.join(in_home).join("poorwill")))
        .ok_or(PathError::NoHome(own))
}

/// The folder for files that can be built again: `$POORWILL_CACHE`, else the user's cache
/// directory.
///
/// # Errors
///
/// [`PathError`].
pub fn cache() -> Result<PathBuf, PathError> {
    directory("POORWILL_CACHE", "XDG_CACHE_HOME", ".cache", |name| {
        env::var_os(name)
    })
}

/// The folder for the machines of `poorwill run`: `$POORWILL_DATA`, else the user's data directory.
///
/// # Errors
///
/// [`PathError`].
pub fn data() -> Result<PathBuf, PathError> {
    directory("POORWILL_DATA", "XDG_DATA_HOME", ".local/share", |name| {
        env::var_os(name)
    })
}

/// The kernels of `tools/guest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// The distribution's own.
    #[default]
    Stock,
    /// The newer one of Debian's backports. Archives keep each version for some weeks only.
    Backports,
}

impl Kernel {
    fn image(self) -> &'static str {
        match self {
            Kernel::Stock => "Image",
            Kernel::Backports => "Image.backports",
        }
    }

    /// The name of the initramfs with this kernel's modules.
    fn initrd(self, name: &str) -> String {
        match self {
            Kernel::Stock => format!("{name}.img"),
            Kernel::Backports => format!("{name}.backports.img"),
        }
    }
}

/// The files of the stock Debian guest in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The distribution's kernel, uncompressed.
    pub kernel: PathBuf,
    /// The initramfs that mounts `root=`.
    pub initrd: PathBuf,
    /// The root file system, ext4.
    pub root: PathBuf,
}

impl Guest {
    /// Finds the guest's files.
    ///
    /// # Errors
    ///
    /// [`PathError::NoHome`]; [`PathError::NoGuest`] names the first missing file.
    pub fn find(kernel: Kernel) -> Result<Self, PathError> {
        let directory = guest_directory()?;
        let guest = Guest {
            kernel: directory.join(kernel.image()),
            initrd: directory.join(kernel.initrd("initrd")),
            root: directory.join("root.ext4"),
        };
        all_there([&guest.kernel, &guest.initrd, &guest.root])?;
        Ok(guest)
    }

    /// The manifest of `tools/guest`; `None`: the guest is not built.
    #[must_use]
    pub fn manifest() -> Option<Manifest> {
        let text = std::fs::read(guest_directory().ok()?.join("manifest.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// The manifest of a built guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// The stock kernel's version.
    pub kernel: String,
    /// SHA-256 of each file, in hexadecimal digits.
    #[serde(default)]
    pub sha256: BTreeMap<String, String>,
    /// Packages of the guest, with their versions.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Packages that only the guest for traces has.
    #[serde(default)]
    pub workloads: BTreeMap<String, String>,
    /// Whether its packages are those of the repository's lock file.
    pub pinned: bool,
}

/// A Linux guest without a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiny {
    /// The distribution's kernel, uncompressed.
    pub kernel: PathBuf,
    /// The initramfs with busybox and its script (`init` in `guest/tiny`, `guest/redis`, `guest/workloads`).
    pub initrd: PathBuf,
}

impl Tiny {
    /// Finds the tiny guest's files.
    ///
    /// # Errors
    ///
    /// [`PathError::NoHome`]; [`PathError::NoGuest`] names the first missing file.
    pub fn find(kernel: Kernel) -> Result<Self, PathError> {
        Self::of(kernel, "tiny")
    }

    /// Finds the guest that runs redis under constant load, with the distribution's kernel.
    ///
    /// # Errors
    ///
    /// As [`Tiny::find`].
    pub fn with_redis() -> Result<Self, PathError> {
        Self::of(Kernel::Stock, "redis")
    }

    /// Finds the guest that runs a program for a trace, with the distribution's kernel.
    ///
    /// # Errors
    ///
    /// As [`Tiny::find`].
    pub fn for_traces() -> Result<Self, PathError> {
        Self::of(Kernel::Stock, "workloads")
    }

    fn of(kernel: Kernel, initrd: &str) -> Result<Self, PathError> {
        let directory = guest_directory()?;
        let tiny = Tiny {
            kernel: directory.join(kernel.image()),
            initrd: directory.join(kernel.initrd(initrd)),
        };
        all_there([&tiny.kernel, &tiny.initrd])?;
        Ok(tiny)
    }
}

fn guest_directory() -> Result<PathBuf, PathError> {
    Ok(cache()?.join("guest"))
}

fn all_there<const N: usize>(files: [&PathBuf; N]) -> Result<(), PathError> {
    match files.into_iter().find(|file| !file.is_file()) {
        Some(missing) => Err(PathError::NoGuest(missing.clone())),
        None => Ok(()),
    }
}

/// The firmware: `$POORWILL_FIRMWARE`, else `build/poorwill.elf` in or above the current directory
/// or the running program's.
///
/// # Errors
///
/// [`PathError`].
pub fn firmware() -> Result<PathBuf, PathError> {
    let found = named_or_built("firmware", "POORWILL_FIRMWARE", "build/poorwill.elf");
    found.ok_or(PathError::NoFirmware)?
}

/// The kernel that tests start in place of an OS: `$POORWILL_TEST_KERNEL`, else
/// `build/test-kernel.bin`. It is searched for as the firmware is.
///
/// # Errors
///
/// [`PathError`].
pub fn test_kernel() -> Result<PathBuf, PathError> {
    let found = named_or_built(
        "test kernel",
        "POORWILL_TEST_KERNEL",
        "build/test-kernel.bin",
    );
    found.ok_or(PathError::NoTestKernel)?
}

/// The program that starts a kernel from flash: `$POORWILL_LOADER`, else `build/loader.bin`. It is
/// searched for as the firmware is.
///
/// # Errors
///
/// [`PathError`].
pub fn loader() -> Result<PathBuf, PathError> {
    named_or_built("loader", "POORWILL_LOADER", "build/loader.bin").ok_or(PathError::NoLoader)?
}

/// The critical guest: `$POORWILL_CRITICAL`, else `build/critical.bin`. It is searched for as the
/// firmware is.
///
/// # Errors
///
/// [`PathError`].
pub fn critical() -> Result<PathBuf, PathError> {
    named_or_built("critical guest", "POORWILL_CRITICAL", "build/critical.bin")
        .ok_or(PathError::NoCritical)?
}

/// The plugin for QEMU: `$POORWILL_PLUGIN`, else `build/poorwill-plugin.so`. It is searched for as
/// the firmware is.
///
/// # Errors
///
/// [`PathError`].
pub fn plugin() -> Result<PathBuf, PathError> {
    let found = named_or_built("plugin", "POORWILL_PLUGIN", "build/poorwill-plugin.so");
    // QEMU would search the system's libraries for a name without a folder.
    let file = found.ok_or(PathError::NoPlugin)??;
    file.canonicalize().map_err(|reason| PathError::Unreadable {
        what: "plugin",
        path: file,
        reason,
    })
}

/// The file named by an environment variable, else the built one, if it exists.
fn named_or_built(
    what: &'static str,
    variable: &str,
    name: &str,
) -> Option<Result<PathBuf, PathError>> {
    match env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(named) => Some(readable(what, Path::new(&named)).map(Path::to_owned)),
        None => built(name).map(Ok),
    }
}

/// Finds `name` in or above the current directory or the running program's.
fn built(name: &str) -> Option<PathBuf> {
    let starts = [env::current_dir(), env::current_exe()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Checks that `path` can be opened for reading.
///
/// # Errors
///
/// [`PathError`].
pub fn readable<'p>(what: &'static str, path: &'p Path) -> Result<&'p Path, PathError> {
    let is_directory = || std::io::Error::from(std::io::ErrorKind::IsADirectory);
    std::fs::File::open(path)
        .and_then(|file| file.metadata())
        .and_then(|data| {
            if data.is_dir() {
                Err(is_directory())
            } else {
                Ok(path)
            }
        })
        .map_err(|reason| PathError::Unreadable {
            what,
            path: path.to_owned(),
            reason,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Result<PathBuf, PathError> {
        directory("OWN", "XDG", ".cache", |name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn own_variable_comes_before_xdg_before_home() {
        let all = [("OWN", "/own"), ("XDG", "/xdg"), ("HOME", "/home/me")];
        assert_eq!(with(&all).unwrap(), Path::new("/own"));
        assert_eq!(with(&all[1..]).unwrap(), Path::new("/xdg/poorwill"));
        assert_eq!(
            with(&all[2..]).unwrap(),
            Path::new("/home/me/.cache/poorwill")
        );
        assert_eq!(
            with(&[("OWN", ""), ("HOME", "/h")]).unwrap(),
            Path::new("/h/.cache/poorwill")
        );
        assert!(matches!(with(&[]), Err(PathError::NoHome("OWN"))));
    }
}
