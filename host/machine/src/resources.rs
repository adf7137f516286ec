//! The host's memory and disk space, as its kernel reports them.

use std::fs;
use std::io;
use std::path::Path;

use crate::size::Bytes;

/// RAM available to programs; `None`: the kernel does not report it.
pub fn memory_available() -> Option<Bytes> {
    of_meminfo("MemAvailable:")
}

/// Total RAM, without the kernel's own reservations; `None`: the kernel does not report it.
pub fn memory_installed() -> Option<Bytes> {
    of_meminfo("MemTotal:")
}

/// Space available to users in the file system of `folder`.
///
/// # Errors
///
/// The system's error.
pub fn disk_free(folder: &Path) -> io::Result<Bytes> {
    let about = rustix::fs::statvfs(folder)?;
    Ok(Bytes(about.f_bavail.saturating_mul(about.f_frsize)))
}

fn of_meminfo(field: &str) -> Option<Bytes> {
    parse(&fs::read_to_string("/proc/meminfo").ok()?, field)
}

fn parse(meminfo: &str, field: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       24576000 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(parse(text, "MemAvailable:"), Some(Bytes::gib(1)));
        assert_eq!(parse("MemTotal: 1 kB\n", "MemAvailable:"), None);
    }

    #[test]
    fn this_host_has_some() {
        assert!(memory_installed() >= memory_available());
        assert!(memory_available().is_some_and(|memory| memory.0 > 0));
        assert!(disk_free(Path::new("/")).is_ok());
        assert!(disk_free(Path::new("/no/such/folder")).is_err());
    }
}
