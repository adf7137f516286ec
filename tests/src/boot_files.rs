//! A file system from which U-Boot starts the tiny guest by extlinux.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use poorwill_machine::Board;
use poorwill_machine::paths::Tiny;

/// Bytes of the file system beyond its files.
const SPARE_BYTES: u64 = 16 << 20;

/// Makes the file system in `folder`, with `words` on the kernel's command line. Returns its file.
///
/// # Errors
///
/// A file cannot be copied, or `mkfs.ext4` fails.
pub(crate) fn make(tiny: &Tiny, words: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let (files, image) = (folder.join("boot-files"), folder.join("boot.ext4"));
    let boot = files.join("boot");
    fs::create_dir_all(boot.join("extlinux"))?;
    let console = Board::default().tiny_command_line();
    let configuration = format!(
        "default linux\ntimeout 1\nlabel linux\n  linux /boot/Image\n  initrd /boot/initrd.img\n  \
         append {console} {words}\n"
    );
    fs::write(boot.join("extlinux/extlinux.conf"), configuration)?;
    let mut bytes = SPARE_BYTES;
    for (from, name) in [(&tiny.kernel, "Image"), (&tiny.initrd, "initrd.img")] {
        bytes += fs::copy(from, boot.join(name)).with_context(|| from.display().to_string())?;
    }
    File::create(&image)?.set_len(bytes)?;
    let mut tool = Command::new("mkfs.ext4");
    tool.args(["-q", "-F", "-d"]).arg(&files).arg(&image);
    let made = tool.output().context("mkfs.ext4")?;
    let reason = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "mkfs.ext4: {reason}");
    fs::remove_dir_all(files)?;
    Ok(image)
}
