//! The weak core's accesses to devices and its waits, from the plugin's log, with names from the
//! device tree and the guest.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Context;
use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use poorwill_plugin::log::{Entry, What};

use super::figures::{Accesses, DeviceAccesses, Share};

/// Start of the guest's lines about a PCI function: its name, its driver, and the ends of its BARs.
const FUNCTION: &str = "function: ";

/// The host bridge's node, whose registers are the functions' configuration spaces.
const BRIDGE: &str = "pci@";
/// Bytes of a function's configuration space.
const CONFIGURATION: u64 = 4096;

/// The core-local interruptor's node.
const INTERRUPTOR: &str = "clint@";
/// Timers and interrupt controllers: a wait ends with them, whichever device it is for.
const CONTROLLERS: [&str; 3] = [INTERRUPTOR, "plic@", "aclint"];

/// The name of a wait after which no device was accessed.
const NO_DEVICE: &str = "none";

/// The devices' registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Windows {
    named: Vec<(Range<u64>, String)>,
}

impl Windows {
    /// The windows of the nodes in a device tree's `/soc`.
    pub(super) fn of_tree(tree: &[u8]) -> anyhow::Result<Self> {
        let tree = Fdt::new(tree).context("the machine's device tree")?;
        let soc = tree.root().child("soc");
        let soc = soc.context("the machine's device tree has no /soc")?;
        let mut windows = Windows::default();
        for node in soc.children() {
            let reg = node.property("reg");
            let reg = reg.as_ref().map_or(&[][..], |reg| reg.value());
            // Two cells for an address, and two for a size.
            for pair in reg.as_chunks::<16>().0 {
                let (start, bytes) = pair.split_at(8);
                let number = |bytes: &[u8]| {
                    bytes
                        .iter()
                        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
                };
                let start = number(start);
                windows.add(start..start.saturating_add(number(bytes)), node.name());
            }
        }
        Ok(windows)
    }

    /// Adds the windows of a PCI function, from a line of the guest.
    pub(super) fn add_function(&mut self, line: &str) -> anyhow::Result<()> {
        let Some((_, text)) = line.split_once(FUNCTION) else {
            return Ok(());
        };
        let wrong = || format!("{line:?} describes no PCI function");
        let mut words = text.split_whitespace();
        let (Some(place), Some(driver)) = (words.next(), words.next()) else {
            anyhow::bail!(wrong());
        };
        let name = format!("{driver} {place}");
        let bridge = self.named.iter().find(|(_, name)| name.starts_with(BRIDGE));
        let start = bridge.map(|(window, _)| window.start);
        let start = start.zip(number_of(place)).with_context(wrong)?;
        let start = start.0 + start.1 * CONFIGURATION;
        // Before the bridge's own window, of which it is a part.
        self.named
            .insert(0, (start..start + CONFIGURATION, name.clone()));
        let numbers = words.map(|word| {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            u64::from_str_radix(digits, 16).with_context(wrong)
        });
        let numbers = numbers.collect::<anyhow::Result<Vec<_>>>()?;
        for bar in numbers.as_chunks::<3>().0 {
            let [start, end, _] = *bar;
            if start != 0 {
                self.add(start..end.saturating_add(1), &name);
            }
        }
        Ok(())
    }

    /// The register of the core-local interruptor by which harts interrupt this one.
    fn software_interrupt(&self, hart: usize) -> Option<u64> {
        let mut named = self.named.iter();
        let (window, _) = named.find(|(_, name)| name.starts_with(INTERRUPTOR))?;
        Some(window.start + 4 * hart as u64)
    }

    fn add(&mut self, window: Range<u64>, name: &str) {
        self.named.push((window, name.to_owned()));
    }

    /// The device at an address. Without a name it is called by its page.
    fn name(&self, address: u64) -> String {
        let mut named = self.named.iter();
        let found = named.find(|(window, _)| window.contains(&address));
        found.map_or_else(
            || format!("{:#x}", address & !(CONFIGURATION - 1)),
            |(_, name)| name.clone(),
        )
    }
}

/// The number of a function on bus 0: `0000:00:01.2` is 10.
fn number_of(place: &str) -> Option<u64> {
    let (_, rest) = place.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(bus)? << 8 | number(slot)? << 3 | number(function)?)
}

/// Sums over halves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// By the device's name: of the suspend, and of the resume.
    devices: BTreeMap<String, [Share; 2]>,
    /// The most instructions of a lent hart in a half.
    lent: Option<u64>,
}

impl Sums {
    /// Adds what the hart `weak` did in a half: 0 for a suspend, 1 for a resume.
    pub(super) fn add(&mut self, windows: &Windows, weak: usize, half: usize, log: &[Entry]) {
        let mut before: Option<&Entry> = None;
        let mut waited = 0;
        for entry in log.iter().filter(|entry| entry.hart == weak) {
            if let Some(before) = before {
                // An instruction takes a nanosecond.
                let time = entry.time.saturating_sub(before.time);
                waited += time.saturating_sub(entry.instructions - before.instructions);
            }
            before = Some(entry);
            let (address, is_store) = match entry.what {
                What::Loads { address } => (address, false),
                What::Stores { address, .. } => (address, true),
                What::Runs | What::Executes { .. } => continue,
            };
            let name = windows.name(address);
            let is_controller = CONTROLLERS.iter().any(|start| name.starts_with(start));
            let share = &mut self.devices.entry(name).or_default()[half];
            *(if is_store {
                &mut share.stores
            } else {
                &mut share.loads
            }) += 1.0;
            if !is_controller {
                share.wait_us += us(core::mem::take(&mut waited));
            }
        }
        if waited > 0 {
            self.devices.entry(NO_DEVICE.into()).or_default()[half].wait_us += us(waited);
        }
        self.lent = self.lent.max(lent(windows, weak, log));
    }

    /// The means of a sleep. The device with most accesses comes first.
    pub(super) fn means(self, sleeps: u32) -> Accesses {
        let mean = |share: Share| Share {
            loads: share.loads / f64::from(sleeps),
            stores: share.stores / f64::from(sleeps),
            wait_us: share.wait_us / f64::from(sleeps),
        };
        let device = |(name, halves): (String, [Share; 2])| {
            let [suspend, resume] = halves.map(mean);
            DeviceAccesses {
                name,
                suspend,
                resume,
            }
        };
        let mut devices: Vec<_> = self.devices.into_iter().map(device).collect();
        let count = |device: &DeviceAccesses| device.suspend.count() + device.resume.count();
        devices.sort_by(|one, other| count(other).total_cmp(&count(one)));
        Accesses {
            sleeps,
            devices,
            lent: self.lent,
        }
    }
}

/// Instructions of the hart that interrupts the hart `weak`, from there on until it clears the interrupt by
/// which it is given back.
fn lent(windows: &Windows, weak: usize, log: &[Entry]) -> Option<u64> {
    let stores = |entry: &Entry, hart, to| {
        let address = windows.software_interrupt(hart);
        address.is_some_and(|address| entry.what == What::Stores { address, value: to })
    };
    let asks = |entry: &Entry| entry.hart != weak && stores(entry, weak, 1);
    let mut log = log.iter();
    let request = log.find(|entry| asks(entry))?;
    let is_given = |entry: &&Entry| entry.hart == request.hart && stores(entry, entry.hart, 0);
    let given = log.find(is_given)?;
    Some(given.instructions - request.instructions)
}

#[expect(clippy::cast_precision_loss, reason = "shown to a microsecond")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The entries in lines of the plugin's log.
pub(super) fn entries(log: &str) -> anyhow::Result<Vec<Entry>> {
    let entry =
        |line| serde_json::from_str(line).with_context(|| format!("the plugin's log: {line:?}"));
    log.lines().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows() -> Windows {
        let mut windows = Windows {
            named: vec![
                (0x200_0000..0x201_0000, "clint@2000000".into()),
                (0x3000_0000..0x4000_0000, "pci@30000000".into()),
            ],
        };
        let bar = "0x0000000400000000 0x0000000400003fff 0x0000000000140204";
        let line = format!("function: 0000:00:02.1 nvme {bar} 0x0 0x0 0x0");
        windows.add_function(&line).unwrap();
        windows
    }

    #[test]
    fn an_address_has_its_devices_name() {
        let windows = windows();
        let names = [
            (0x200_4000, "clint@2000000"),
            (0x3001_1010, "nvme 0000:00:02.1"),
            (0x3000_0010, "pci@30000000"),
            (0x4_0000_1008, "nvme 0000:00:02.1"),
            (0x4_0000_4008, "0x400004000"),
        ];
        for (address, name) in names {
            assert_eq!(windows.name(address), name, "{address:#x}");
        }
        assert!(
            windows
                .clone()
                .add_function("function: 0000:00:02.1")
                .is_err()
        );
        assert!(
            windows
                .clone()
                .add_function("function: here nvme 0x0")
                .is_err()
        );
        let source = "../../riscv/devicetree/tests/machines/virt-plic.dts";
        let mut compiler = std::process::Command::new(poorwill_machine::tree::COMPILER);
        let compiled = compiler
            .args(["-q", "-I", "dts", "-O", "dtb", source])
            .output();
        let tree = compiled.unwrap().stdout;
        let windows = Windows::of_tree(&tree).unwrap();
        assert_eq!(windows.name(0x1000_0005), "serial@10000000");
        assert!(Windows::of_tree(&tree[..40]).is_err());
    }

    #[test]
    fn a_wait_belongs_to_the_next_device() {
        let entry = |hart, time, instructions, what| Entry {
            hart,
            time,
            instructions,
            what,
        };
        let load = |address| What::Loads { address };
        let store = What::Stores {
            address: 0x3001_1000,
            value: 1,
        };
        let log = [
            entry(1, 1000, 100, load(0x4_0000_0000)),
            // 5000 ns, of which 1000 are instructions.
            entry(1, 6000, 1100, What::Runs),
            entry(0, 6000, 1, load(0x1000_0000)),
            entry(1, 6100, 1200, load(0x200_bff8)),
            entry(1, 6200, 1300, store),
            entry(1, 9300, 1400, What::Runs),
        ];
        let mut sums = Sums::default();
        sums.add(&windows(), 1, 1, &log);
        let accesses = sums.means(2);
        let names: Vec<_> = accesses
            .devices
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["nvme 0000:00:02.1", "clint@2000000", "none"]);
        let nvme = accesses.devices[0].resume;
        let wanted = Share {
            loads: 0.5,
            stores: 0.5,
            wait_us: 2.0,
        };
        assert_eq!(nvme, wanted);
        assert_eq!(
            accesses.devices[1].resume.wait_us.to_bits(),
            0.0f64.to_bits()
        );
        assert_eq!(
            accesses.devices[2].resume.wait_us.to_bits(),
            1.5f64.to_bits()
        );
        assert_eq!(accesses.devices[0].suspend, Share::default());
    }

    #[test]
    fn a_lent_harts_instructions_are_counted() {
        let entry = |hart, instructions, address, value| Entry {
            hart,
            time: 0,
            instructions,
            what: What::Stores { address, value },
        };
        let log = [
            entry(0, 100, 0x200_0000, 0),
            entry(0, 900, 0x200_0004, 1),
            entry(1, 10, 0x200_0004, 0),
            entry(1, 5000, 0x200_0000, 1),
            entry(0, 930, 0x200_4000, 7),
            entry(0, 953, 0x200_0000, 0),
            entry(0, 999, 0x200_0000, 0),
        ];
        assert_eq!(lent(&windows(), 1, &log), Some(53));
        assert_eq!(lent(&windows(), 1, &log[..4]), None, "not given back");
        assert_eq!(lent(&windows(), 2, &log), None, "another weak hart");
        let mut sums = Sums::default();
        sums.add(&windows(), 1, 0, &log[..4]);
        sums.add(&windows(), 1, 1, &log);
        assert_eq!(sums.means(1).lent, Some(53));
    }

    #[test]
    fn a_log_is_lines_of_entries() {
        let line = r#"{"hart":1,"time":2,"instructions":3,"what":{"loads":{"address":4}}}"#;
        let read = entries(&format!("{line}\n{line}\n")).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].what, What::Loads { address: 4 });
        assert!(entries("no entry").is_err());
    }
}
