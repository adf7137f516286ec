//! Builds the machine of a power-on from a trial's row.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_machine::domains::{Sleep, critical_devices};
use poorwill_machine::flash::make_loader;
use poorwill_machine::tree::{power_fail, weak_core, write};
use poorwill_machine::{DEBIAN_COMMAND_LINE, GRACE_US, Machine};
use poorwill_plugin::cache::Geometry;

use super::events::{has_supply, psu};
use super::follow::resets_with_verdict;
use super::{Run, loops};
use crate::domains::{self, Sockets, add_fair, add_loads, add_trace};
use crate::layout::Found;
use crate::plan::{Guest, PowerOn};
use crate::setup::{EDK2_VARIABLES, found};
use crate::tree;
use crate::{faults, intact, power};

impl Run<'_> {
    /// The machine of a power-on. Its sockets are in the folder `sockets`.
    pub(super) fn machine(&self, on: &PowerOn, sockets: &Path) -> anyhow::Result<Machine> {
        let (trial, setup) = (self.trial, self.setup);
        let mut machine = match trial.kind.sockets {
            true => self.on_sockets(on, sockets)?,
            false => self.on_board(on, sockets)?,
        };
        if trial.row.junk_initrd {
            machine.initrd = Some(self.folder.join("junk"));
        }
        if trial.row.loader {
            machine.loader = Some(self.loader_flash()?);
        }
        if trial.row.lasting_memory {
            machine.ram = Some(power::memory(self.folder));
        }
        let mut more = trial.kind.arguments.clone();
        if trial.row.vault {
            // QEMU reads two commas in a name as one.
            let file = self.vault().display().to_string().replace(',', ",,");
            let drive = format!("if=pflash,unit=1,format=raw,file={file}");
            more.extend(["-drive".to_owned(), drive]);
        }
        if trial.row.edk2 {
            machine.loader = Some(found(&setup.edk2)?.clone());
            let file = self.edk2_variables()?.display().to_string();
            let drive = format!(
                "if=pflash,unit=1,format=raw,file={}",
                file.replace(',', ",,")
            );
            more.extend(["-drive".to_owned(), drive]);
        }
        self.attach(on, &mut machine, &mut more)?;
        more.extend(on.arguments.iter().cloned());
        more.extend(faults::silence(on).into_iter().flatten());
        if let Some(instead) = &on.instead {
            more.extend([
                "-fw_cfg".to_owned(),
                format!("name=opt/poorwill/test,string={instead}"),
            ]);
        }
        (machine.extra_arguments).extend(more.into_iter().map(OsString::from));
        self.add_tree(on, &mut machine)?;
        add_loads(&mut machine, &trial.row.loads, &setup.hostile, self.folder)?;
        if on.domains {
            loops::load(&mut machine, self.folder)?;
        }
        self.watch(on, &mut machine)?;
        if trial.row.plugin {
            // Added last, so that a QEMU that only writes the device tree runs without the plugin.
            let plugin = found(&self.setup.plugin)?;
            // Harts wait, so that a slow disk of the host causes no time-out in a driver.
            let grace_us = if trial.disks.is_empty() { 0 } else { GRACE_US };
            let supply = has_supply(on).then(|| psu(sockets));
            let (firmware, supply) = (&machine.firmware, supply.as_deref());
            let plugin = power::arguments(plugin, firmware, self.folder, supply, grace_us, on)?;
            (machine.extra_arguments).extend(plugin.into_iter().map(OsString::from));
        }
        Ok(machine)
    }

    /// A machine without sockets, with its guest.
    fn on_board(&self, on: &PowerOn, sockets: &Path) -> anyhow::Result<Machine> {
        let trial = self.trial;
        let memory = on.memory.as_deref().map(str::parse).transpose()?;
        let mut machine = Machine {
            harts: on.harts.unwrap_or(trial.harts),
            memory: memory.unwrap_or(trial.memory),
            interrupts: trial.interrupts,
            command_line: trial.row.words_of(on).to_owned(),
            exit_on_reset: trial.row.exit_on_reset || resets_with_verdict(on, trial.kind.board),
            ..Machine::on(trial.kind.board, found(self.setup.firmware_for(trial))?)
        };
        self.add_guest(on, &mut machine, sockets)?;
        Ok(machine)
    }

    /// A machine with sockets, with its domains.
    fn on_sockets(&self, on: &PowerOn, sockets: &Path) -> anyhow::Result<Machine> {
        let qemu = found(&self.setup.qemu)?;
        let firmware = found(self.setup.firmware_for(self.trial))?;
        let row = &self.trial.row;
        let mut on_sockets = self.sockets()?;
        if let Some(Sleep::Nvme(disk)) = &mut on_sockets.sleep {
            faults::add(on, disk, || self.found_on_last_disk())?;
        }
        if on.guest.is_some() {
            let mut machine = on_sockets.plain(firmware, self.folder)?;
            row.words_of(on).clone_into(&mut machine.command_line);
            self.add_guest(on, &mut machine, sockets)?;
            return Ok(machine);
        }
        match row.page {
            true => domains::of_page(qemu, firmware, sockets),
            false => on_sockets.machine(qemu, firmware, self.folder, sockets),
        }
    }

    pub(super) fn sockets(&self) -> anyhow::Result<Sockets<'_>> {
        let row = &self.trial.row;
        let sleep = self.disks.last().map(|disk| {
            let sleep = disk.sleep()?;
            sleep.context("machine mode's own disk is NVMe or memory")
        });
        Ok(Sockets {
            setup: self.setup,
            domains: &row.domains,
            bus: &row.bus,
            sleep: sleep.transpose()?,
            harts: self.trial.harts,
            memory: self.trial.memory,
        })
    }

    /// Adds what shows the critical guest's frames.
    fn watch(&self, on: &PowerOn, machine: &mut Machine) -> anyhow::Result<()> {
        let is_fair = self.trial.row.fair;
        if is_fair {
            add_fair(machine, found(&self.setup.plugin)?, self.folder)?;
        }
        if on.frames.is_some_and(|frames| frames.traced || !is_fair) {
            add_trace(machine, self.folder);
        }
        Ok(())
    }

    /// The flash with the loader, which is created at the first power-on.
    fn loader_flash(&self) -> anyhow::Result<PathBuf> {
        let file = self.folder.join("loader");
        if !file.exists() {
            make_loader(found(&self.setup.loader)?, &file)?;
        }
        Ok(file)
    }

    /// The flash with EDK2's variables, which is created at the first power-on.
    fn edk2_variables(&self) -> anyhow::Result<PathBuf> {
        let file = self.folder.join("variables");
        if !file.exists() {
            let code = found(&self.setup.edk2)?;
            std::fs::copy(code.with_file_name(EDK2_VARIABLES), &file)
                .context("EDK2's variables")?;
        }
        Ok(file)
    }

    /// Makes the machine load the guest of this power-on.
    fn add_guest(&self, on: &PowerOn, machine: &mut Machine, sockets: &Path) -> anyhow::Result<()> {
        let (trial, setup) = (self.trial, self.setup);
        let guest = trial.row.guest_of(on);
        match guest {
            Guest::Kernel => machine.kernel = Some(found(&setup.kernel)?.clone()),
            Guest::UBoot => machine.kernel = Some(found(setup.u_boot_for(trial))?.clone()),
            Guest::Nothing => {}
            Guest::Critical => {
                machine.kernel = Some(found(&setup.critical)?.clone());
                for (option, value) in critical_devices(Some(&sockets.join("trigger"))) {
                    machine.add(option, value);
                }
            }
            Guest::LinuxTiny => {
                let tiny = setup.tiny_for(trial).map_err(anyhow::Error::msg)?;
                machine.kernel = Some(tiny.kernel);
                machine.initrd = Some(tiny.initrd);
                let console = machine.board.tiny_command_line();
                machine.command_line = format!("{console} {}", machine.command_line);
            }
            Guest::Linux | Guest::LinuxSnapshot | Guest::LinuxWork => {
                let linux = setup.linux_for(trial).clone().map_err(anyhow::Error::msg)?;
                machine.kernel = Some(linux.kernel);
                machine.initrd = Some(linux.initrd);
                machine.command_line = format!(
                    "{DEBIAN_COMMAND_LINE} init=/usr/local/lib/poorwill/{} {}",
                    match guest {
                        Guest::LinuxSnapshot => "snapshot",
                        Guest::LinuxWork => "work",
                        _ => "cycle",
                    },
                    machine.command_line
                );
            }
        }
        Ok(())
    }

    /// Adds the board's nodes to QEMU's device tree, if the board has some.
    fn add_tree(&self, on: &PowerOn, machine: &mut Machine) -> anyhow::Result<()> {
        let kind = &self.trial.kind;
        let mut source = String::new();
        if let Some(hold_up_us) = kind.hold_up_us {
            let cache = Geometry::default().bytes();
            source += &power_fail(machine.interrupts, hold_up_us, cache);
        }
        if let Some(hart) = kind.weak_core {
            source += &weak_core(hart);
        }
        if kind.sockets && on.guest.is_none() {
            source += &self.sockets()?.source();
        }
        // Last, since they may delete nodes that were added before.
        source += kind.tree.as_deref().unwrap_or_default();
        source += &self.trial.row.tree;
        source += &on.tree;
        source += if on.domains { loops::SOURCE } else { "" };
        if source.is_empty() && kind.damaged_at.is_none() {
            return Ok(());
        }
        let file = self.folder.join("tree.dtb");
        let qemu = found(&self.setup.qemu)?;
        write(machine, qemu, &source, &file)?;
        if let Some(node) = &kind.damaged_at {
            tree::damage(&file, node)?;
        }
        machine.extra_arguments.extend(["-dtb".into(), file.into()]);
        Ok(())
    }

    fn attach(
        &self,
        on: &PowerOn,
        machine: &mut Machine,
        more: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        if self.trial.row.intact {
            more.extend(intact::arguments(&self.memory(), machine.memory.0)?);
        }
        if self.trial.kind.sockets {
            return Ok(());
        }
        let count = on.disks.unwrap_or(self.disks.len());
        for (number, disk) in self.disks.iter().take(count).enumerate() {
            match disk.plain() {
                Some(plain) => machine.disks.push(plain),
                None => more.extend(disk.arguments(number)?),
            }
        }
        match machine.disks.last_mut() {
            Some(last) => faults::add(on, last, || self.found_on_last_disk())?,
            None => ensure!(on.faults.is_empty(), "no disk for the faults"),
        }
        Ok(())
    }

    fn found_on_last_disk(&self) -> anyhow::Result<Found> {
        let disk = self.last_disk()?;
        Found::on(&disk.file, disk.block_bytes())
    }
}
