use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::{Bus, Disk, HostCache, Machine};

/// The host's end of the machine's serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// The terminal, raw: Ctrl-C goes to the guest; Ctrl-A x ends QEMU and
    /// Ctrl-A c changes to QEMU's monitor, as with QEMU's own `-nographic`.
    Terminal,
    /// Pipes to a program; no byte has a special meaning.
    Pipe,
}

impl Machine {
    /// QEMU's arguments for this machine. They do not depend on the time, the process or earlier
    /// power-ons. Only the host's end of the serial port depends on `console`.
    #[must_use]
    pub fn arguments(&self, console: Console) -> Vec<OsString> {
        let mut list = Arguments::default();
        list.option("-machine", self.board.argument(self.interrupts));
        if let Some(loader) = &self.loader {
            list.option("-blockdev", loader_node(loader).to_string());
            list.option("-machine", format!("pflash0={LOADER_NODE}"));
        }
        if let Some(flash) = &self.flash {
            list.option("-blockdev", flash_node(flash).to_string());
            list.option("-machine", format!("pflash1={FLASH_NODE}"));
        }
        list.option("-smp", self.board.all_harts(self.harts).to_string());
        list.option("-m", format!("{}M", self.memory.in_mib()));
        self.add_memory(&mut list);
        list.option("-bios", &self.firmware);
        self.add_kernel(&mut list);
        list.0.push("-nodefaults".into());
        list.option("-display", "none");
        add_console(&mut list, console);
        for (index, disk) in self.disks.iter().enumerate() {
            add_disk(&mut list, index, disk);
        }
        if self.exit_on_reset {
            list.0.push("-no-reboot".into());
        }
        list.0.extend(self.extra_arguments.iter().cloned());
        list.0
    }

    /// Adds the file that backs the machine's memory, if it has one.
    fn add_memory(&self, list: &mut Arguments) {
        let backend = match &self.ram {
            Some(file) => {
                let mut backend = shared_memory(MEMORY, file, self.memory.in_mib() << 20);
                if self.prepared {
                    backend["prealloc"] = true.into();
                }
                backend.to_string()
            }
            None if self.prepared => {
                let size = format!("size={}M", self.memory.in_mib());
                format!("memory-backend-ram,id={MEMORY},{size},prealloc=on")
            }
            None => return,
        };
        list.option("-object", backend);
        list.option("-machine", format!("memory-backend={MEMORY}"));
        if self.prepared {
            list.0.push("-S".into());
        }
    }

    fn add_kernel(&self, list: &mut Arguments) {
        let Some(kernel) = &self.kernel else { return };
        list.option("-kernel", kernel);
        if let Some(initrd) = &self.initrd {
            list.option("-initrd", initrd);
        }
        if !self.command_line.is_empty() {
            list.option("-append", &self.command_line);
        }
    }
}

/// Returns whether arguments of QEMU name a device tree.
pub(crate) fn has_tree(arguments: &[OsString]) -> bool {
    (arguments.iter()).any(|word| word == "-dtb" || word == "--dtb")
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.push(name.into());
        self.0.push(value.into());
    }
}

fn add_console(list: &mut Arguments, console: Console) {
    match console {
        Console::Terminal => {
            list.option("-chardev", "stdio,id=console,mux=on,signal=off");
            list.option("-mon", "chardev=console,mode=readline");
        }
        Console::Pipe => list.option("-chardev", "stdio,id=console,signal=off"),
    }
    list.option("-serial", "chardev:console");
}

fn add_disk(list: &mut Arguments, index: usize, disk: &Disk) {
    let node = format!("disk{index}");
    list.option("-blockdev", block_node(&node, disk).to_string());
    // QEMU demands a serial number. It distinguishes two NVMe disks of one machine; Poorwill never
    // reads it.
    let device = match disk.bus {
        Bus::Nvme => format!("nvme,drive={node},serial=poorwill{index}"),
        Bus::Virtio => format!("virtio-blk-pci,drive={node}"),
    };
    list.option("-device", device);
}

/// A raw disk as a node of QEMU's block layer, in JSON, which allows any file name. A flush by the
/// guest is an `fdatasync` of the file, with or without the host's page cache. So flushed data
/// survives a power cut, except with [`HostCache::Unflushed`].
pub(crate) fn block_node(name: &str, disk: &Disk) -> Value {
    let driver = if is_block_device(&disk.file) {
        "host_device"
    } else {
        "file"
    };
    let mut file = json!({
        "driver": driver,
        "filename": disk.file.to_string_lossy(),
        "discard": "unmap",
    });
    match disk.host_cache {
        HostCache::Flushed => {}
        HostCache::Bypassed => {
            file["cache"] = json!({ "direct": true });
            file["aio"] = "native".into();
        }
        HostCache::Unflushed => file["cache"] = json!({ "no-flush": true }),
    }
    if let Some(node) = &disk.node {
        file = node.clone();
    }
    let below = match &disk.faults {
        None => file,
        Some(faults) => {
            let mut layer = faults.clone();
            layer.insert("driver".into(), "blkdebug".into());
            layer.insert("image".into(), file);
            Value::Object(layer)
        }
    };
    let mut top = json!({ "driver": "raw", "discard": "unmap", "file": below });
    if let Some(group) = &disk.throttle {
        // On top, since only there QEMU lets go on what waits, when the controller is reset.
        top = json!({ "driver": "throttle", "throttle-group": group, "file": top });
    }
    top["node-name"] = name.into();
    top
}

/// QEMU's arguments for memory named `id` that the file backs: the largest power of two that fits
/// in it, as a BAR must be. Stores survive the end of QEMU.
///
/// # Errors
///
/// The file's length cannot be read, or is 0.
pub fn file_memory(id: &str, file: &Path) -> std::io::Result<[String; 2]> {
    let length = fs::metadata(file)?.len();
    let size = 1_u64
        << length
            .checked_ilog2()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
    let backend = shared_memory(id, file, size);
    Ok(["-object".to_owned(), backend.to_string()])
}

/// ID of the machine's memory as a QEMU object.
const MEMORY: &str = "memory";

/// Memory that is backed by a file.
fn shared_memory(id: &str, file: &Path, bytes: u64) -> Value {
    json!({
        "qom-type": "memory-backend-file",
        "id": id,
        "mem-path": file.to_string_lossy(),
        "share": true,
        "size": bytes,
    })
}

const LOADER_NODE: &str = "loader";

/// The first flash, read-only, so that several machines can use one file.
fn loader_node(file: &Path) -> Value {
    let file = json!({
        "driver": "file",
        "filename": file.to_string_lossy(),
        "read-only": true,
    });
    json!({ "driver": "raw", "node-name": LOADER_NODE, "read-only": true, "file": file })
}

const FLASH_NODE: &str = "flash";

/// The second flash. QEMU flushes the file when it ends. A power cut of the host loses the same
/// unflushed writes as a power cut of the machine.
fn flash_node(file: &Path) -> Value {
    let file = json!({ "driver": "file", "filename": file.to_string_lossy() });
    json!({ "driver": "raw", "node-name": FLASH_NODE, "file": file })
}

fn is_block_device(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| data.file_type().is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Bytes;
    use crate::{Board, Interrupts};

    fn text(machine: &Machine, console: Console) -> Vec<String> {
        machine
            .arguments(console)
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    fn value<'a>(arguments: &'a [String], option: &str) -> &'a str {
        let at = arguments.iter().position(|argument| argument == option);
        &arguments[at.unwrap_or_else(|| panic!("no {option} in {arguments:?}")) + 1]
    }

    #[test]
    fn whole_command_line_of_a_debian_machine() {
        let machine = Machine {
            kernel: Some("Image".into()),
            initrd: Some("initrd.img".into()),
            command_line: "root=PARTLABEL=root".into(),
            disks: vec![Disk::nvme("root,1.disk")],
            extra_arguments: vec!["-s".into()],
            ..Machine::new("poorwill.elf")
        };
        assert_eq!(
            text(&machine, Console::Pipe).join(" "),
            "-machine virt,aia=aplic-imsic -smp 2 -m 2048M -bios poorwill.elf -kernel Image \
             -initrd initrd.img -append root=PARTLABEL=root -nodefaults -display none \
             -chardev stdio,id=console,signal=off -serial chardev:console -blockdev \
             {\"discard\":\"unmap\",\"driver\":\"raw\",\"file\":{\"discard\":\"unmap\",\
             \"driver\":\"file\",\"filename\":\"root,1.disk\"},\"node-name\":\"disk0\"} \
             -device nvme,drive=disk0,serial=poorwill0 -s"
        );
    }

    #[test]
    fn a_machine_for_figures_has_its_memory_and_waits() {
        let mut machine = Machine::new("fw");
        machine.disks = vec![Disk::nvme("d")];
        let machine = machine.for_figures();
        assert_eq!(machine.disks[0].host_cache, HostCache::Bypassed);
        let arguments = text(&machine, Console::Pipe);
        assert_eq!(
            value(&arguments, "-object"),
            "memory-backend-ram,id=memory,size=2048M,prealloc=on"
        );
        assert!(arguments.contains(&"memory-backend=memory".to_owned()));
        assert!(arguments.contains(&"-S".to_owned()));
    }

    #[test]
    fn plic_machine_has_root_on_virtio() {
        let machine = Machine {
            interrupts: Interrupts::Plic,
            harts: 4,
            memory: Bytes::mib(512),
            disks: vec![Disk::virtio("root"), Disk::nvme("sleep")],
            exit_on_reset: true,
            ..Machine::new("fw")
        };
        let arguments = text(&machine, Console::Terminal);
        assert_eq!(value(&arguments, "-machine"), "virt");
        assert_eq!(value(&arguments, "-smp"), "4");
        assert_eq!(value(&arguments, "-m"), "512M");
        assert_eq!(value(&arguments, "-device"), "virtio-blk-pci,drive=disk0");
        assert!(arguments.contains(&"nvme,drive=disk1,serial=poorwill1".to_owned()));
        assert!(arguments.contains(&"-no-reboot".to_owned()));
        assert!(!arguments.contains(&"-append".to_owned()));
    }

    #[test]
    fn sifive_u_has_a_hart_of_its_own() {
        let machine = Machine {
            harts: 4,
            ..Machine::on(Board::SifiveU, "fw")
        };
        let arguments = text(&machine, Console::Pipe);
        assert_eq!(value(&arguments, "-machine"), "sifive_u");
        assert_eq!(value(&arguments, "-smp"), "5");
    }

    #[test]
    fn flash_is_the_boards_second_bank() {
        let mut machine = Machine::new("fw");
        machine.flash = Some("a,b.flash".into());
        let arguments = text(&machine, Console::Pipe);
        let node: Value = serde_json::from_str(value(&arguments, "-blockdev")).unwrap();
        assert_eq!(node["file"]["filename"], "a,b.flash");
        assert_eq!(node["node-name"], "flash");
        assert!(arguments.contains(&"pflash1=flash".to_owned()));
    }

    #[test]
    fn a_loader_is_the_boards_first_bank_and_gets_the_kernel() {
        let machine = Machine {
            loader: Some("a,b.loader".into()),
            flash: Some("flash".into()),
            kernel: Some("Image".into()),
            ..Machine::new("fw")
        };
        let arguments = text(&machine, Console::Pipe);
        let node: Value = serde_json::from_str(value(&arguments, "-blockdev")).unwrap();
        assert_eq!(node["file"]["filename"], "a,b.loader");
        assert_eq!(
            [&node["read-only"], &node["file"]["read-only"]],
            [true, true]
        );
        for bank in ["pflash0=loader", "pflash1=flash"] {
            assert!(arguments.contains(&bank.to_owned()), "{bank}");
        }
        assert_eq!(value(&arguments, "-kernel"), "Image");
    }

    #[test]
    fn memory_may_be_a_files_prepared_or_not() {
        let mut machine = Machine::new("fw");
        machine.memory = Bytes::mib(512);
        machine.ram = Some("a,b.ram".into());
        for prepared in [false, true] {
            machine.prepared = prepared;
            let arguments = text(&machine, Console::Pipe);
            let backend: Value = serde_json::from_str(value(&arguments, "-object")).unwrap();
            assert_eq!(backend["qom-type"], "memory-backend-file");
            assert_eq!(backend["mem-path"], "a,b.ram");
            assert_eq!(backend["share"], true);
            assert_eq!(backend["size"], 512 << 20);
            assert_eq!(backend.get("prealloc").is_some(), prepared);
            assert_eq!(arguments.contains(&"-S".to_owned()), prepared);
            assert!(arguments.contains(&"memory-backend=memory".to_owned()));
        }
    }

    #[test]
    fn the_hosts_cache_is_flushed_unless_said_otherwise() {
        let file = |host_cache| {
            let mut disk = Disk::nvme("d");
            disk.host_cache = host_cache;
            block_node("disk0", &disk)["file"].clone()
        };
        let bypassed = file(HostCache::Bypassed);
        assert_eq!(bypassed["cache"], json!({ "direct": true }));
        assert_eq!(bypassed["aio"], "native");
        let unflushed = file(HostCache::Unflushed);
        assert_eq!(unflushed["cache"], json!({ "no-flush": true }));
        assert_eq!(file(HostCache::default()).get("cache"), None);
    }

    #[test]
    fn faults_lie_between_file_and_disk() {
        let faults = json!({ "inject-error": [{ "event": "write_aio", "errno": 5 }] });
        let mut disk = Disk::nvme("d");
        disk.faults = faults.as_object().cloned();
        let node = block_node("disk0", &disk);
        assert_eq!(node["file"]["driver"], "blkdebug");
        assert_eq!(node["file"]["inject-error"][0]["errno"], 5);
        assert_eq!(node["file"]["image"]["filename"], "d");
        disk.throttle = Some("slow".into());
        let node = block_node("disk0", &disk);
        assert_eq!(node["throttle-group"], "slow");
        assert_eq!(node["file"]["file"]["driver"], "blkdebug");
    }
}
