//! What the firmware would find on a board and do there, a finding for each part.

use poorwill_devicetree::{
    Aplic, DescriptionError, Drive, Hart, HartState, KNOWN_PCI_HOSTS, KNOWN_TIMERS, KNOWN_UARTS,
    Machine, Ns16550, Plic, Purpose, Switch, Uart,
};
use poorwill_machine::size::Bytes;
use poorwill_memory::PhysRange;

use super::fence_findings::{fences, range_text, ranges_text};
use super::read::Board;
use super::sleeps::Allowed;
use crate::doctor::{Finding, Health};

impl Board {
    /// What the firmware would find and do, in order.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let visible = |finding: Finding| Finding {
            detail: visible(&finding.detail),
            ..finding
        };
        all(self).into_iter().map(visible).collect()
    }
}

/// Replaces control characters, which a tree's names may have: they could command a terminal.
fn visible(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_unicode().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

fn all(board: &Board) -> Vec<Finding> {
    let mut findings = vec![name(board)];
    findings.extend(error(board));
    findings.extend([console(board), time(board)]);
    findings.extend(harts(board));
    findings.extend([controllers(board), memory(board)]);
    findings.extend(fences(board));
    findings.push(switch(board, "reset", board.machine.switches.reset));
    findings.push(switch(board, "power-off", board.machine.switches.power_off));
    findings.extend(switch_errors(&board.machine));
    findings.extend([clock(board), pci(board), entropy(&board.machine)]);
    findings.extend(sleeps(board));
    findings
}

const MISSING: Health = Health::Missing;
const LACKING: Health = Health::Lacking;

fn name(board: &Board) -> Finding {
    let names = match board.compatible.is_empty() {
        true => "no name".to_owned(),
        false => board.compatible.join(", "),
    };
    Finding::good("board", names)
}

/// The error that ends the firmware's start, unless another finding tells it.
fn error(board: &Board) -> Option<Finding> {
    let cure = match board.error? {
        DescriptionError::NoHart
        | DescriptionError::TooManyHarts
        | DescriptionError::Memory
        | DescriptionError::Timebase
        | DescriptionError::NoTimer => return None,
        DescriptionError::Damaged => "dump the tree that the boot loader hands on",
        DescriptionError::TooDeep => "remove the nodes at the greatest depth",
        DescriptionError::TooMany(_) => "raise the limit in the crate `devicetree`",
        DescriptionError::TwoImsics(_) | DescriptionError::Intruder(_) => {
            "correct `reg` or `msi-parent`, or disable one of the nodes"
        }
    };
    let detail = board.error?.to_string();
    Some(Finding::bad("start", MISSING, detail, cure))
}

/// The names of devices, or a text without any.
fn listed(names: &[String], none: &str) -> String {
    match names.is_empty() {
        true => none.to_owned(),
        false => names.join("; "),
    }
}

fn console(board: &Board) -> Finding {
    const WHAT: &str = "console";
    let stdout = board.unknown(Purpose::Stdout);
    let known = KNOWN_UARTS.join(", ");
    let driver = format!("add a driver beside `riscv/drivers/src/uart.rs`; known are {known}");
    match board.machine.console {
        Some(uart) if stdout.is_empty() => Finding::good(WHAT, text_of_console(uart)),
        Some(uart) => {
            let (named, uart) = (stdout.join("; "), text_of_console(uart));
            let detail = format!("{uart}, but `stdout-path` names {named}");
            Finding::bad(WHAT, LACKING, detail, &driver)
        }
        None if stdout.is_empty() => {
            let others = board.unknown(Purpose::Uart);
            let others = listed(&others, "the tree has no enabled UART");
            let cure = format!("enable a UART that `stdout-path` names, or {driver}");
            Finding::bad(WHAT, LACKING, format!("silence: {others}"), &cure)
        }
        None => {
            let detail = format!("silence: no driver for {}", stdout.join("; "));
            Finding::bad(WHAT, LACKING, detail, &driver)
        }
    }
}

fn text_of_console(uart: Uart) -> String {
    match uart {
        Uart::Ns16550(Ns16550 { base, shift, width }) => {
            let step = 1 << shift;
            format!("16550 at {base:#x}, a register every {step} bytes, accesses of {width} bytes")
        }
        Uart::Sifive { base } => format!("SiFive's UART at {base:#x}"),
    }
}

fn time(board: &Board) -> Finding {
    const WHAT: &str = "time";
    let Machine {
        timebase_hz, mtime, ..
    } = &board.machine;
    if *timebase_hz == 0 {
        let cure = "add `timebase-frequency` to the node `cpus`, as a boot loader may";
        let detail = DescriptionError::Timebase.to_string();
        return Finding::bad(WHAT, MISSING, detail, cure);
    }
    if mtime.is_empty() {
        let timers = board.unknown(Purpose::Timer);
        let known = KNOWN_TIMERS.join(", ");
        let found = listed(&timers, "the tree names no timer of machine mode");
        let cure = match timers.is_empty() {
            true => format!("add the SoC's CLINT to the tree; known are {known}"),
            false => format!("add a binding for it in the crate `devicetree`; known are {known}"),
        };
        return Finding::bad(WHAT, MISSING, format!("no known timer: {found}"), &cure);
    }
    let at: Vec<_> = mtime.iter().map(|at| format!("{at:#x}")).collect();
    let lacks_sstc = board.machine.harts.iter().any(|hart| !hart.extensions.sstc);
    let timers = match lacks_sstc {
        true => "machine mode sets the OS's timers",
        false => "the OS sets its timers itself (Sstc)",
    };
    let at = at.join(" ");
    Finding::good(WHAT, format!("{timebase_hz} Hz, MTIME at {at}; {timers}"))
}

fn harts(board: &Board) -> Vec<Finding> {
    const WHAT: &str = "harts";
    let usable = board.harts.iter();
    let usable: Vec<_> = usable
        .filter(|hart| hart.state == HartState::Usable)
        .collect();
    let mut findings = Vec::new();
    let ids = usable.iter().filter_map(|hart| hart.id);
    let ids = ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
    if usable.is_empty() {
        let cure = "Linux needs an MMU; if harts have one, correct `mmu-type` and `status`";
        let detail = DescriptionError::NoHart.to_string();
        findings.push(Finding::bad(WHAT, MISSING, detail, cure));
    } else if board.error == Some(DescriptionError::TooManyHarts) {
        let count = usable.len();
        let error = DescriptionError::TooManyHarts;
        let cure = "disable the others in the tree, or raise `MAX_HARTS` in the crate `devicetree`";
        findings.push(Finding::bad(
            WHAT,
            MISSING,
            format!("{error}: {count}"),
            cure,
        ));
    } else {
        let is_deaf = |hart: &&Hart| hart.msip.is_none() && hart.machine_imsic.is_none();
        let deaf = board.machine.harts.iter().filter(is_deaf);
        let deaf: Vec<_> = deaf.map(|hart| hart.id.to_string()).collect();
        // An unknown timer may have IPIs, too, and another finding names it.
        let has_ipis =
            deaf.is_empty() || usable.len() == 1 || !board.unknown(Purpose::Timer).is_empty();
        let finding = match has_ipis {
            true => Finding::good(WHAT, format!("usable {ids}")),
            false => {
                let ipis = listed(&board.unknown(Purpose::Ipi), "no controller names them");
                let detail = format!("usable {ids}, but no IPIs reach {}: {ipis}", deaf.join(" "));
                let cure = "only one hart works; add a CLINT, `riscv,aclint-mswi` or machine-level `riscv,imsics`";
                Finding::bad(WHAT, LACKING, detail, cure)
            }
        };
        findings.push(finding);
    }
    findings.extend(executor(board));
    findings.extend(parked(board));
    findings
}

/// The executor that the tree asks for.
fn executor(board: &Board) -> Option<Finding> {
    const WHAT: &str = "executor";
    let finding = match board.machine.executor? {
        Ok(weak) => Finding::good(WHAT, format!("hart {} is the weak core", weak.hart.id)),
        Err(reason) => {
            let cure = "change the machine, or remove `poorwill,executor` from `/chosen`";
            Finding::bad(WHAT, LACKING, format!("none: {reason}"), cure)
        }
    };
    Some(finding)
}

/// A finding for each hart that parks.
fn parked(board: &Board) -> impl Iterator<Item = Finding> {
    let weak = board.machine.executor.and_then(Result::ok);
    let weak = weak.map(|weak| weak.hart.id);
    let others = (board.harts.iter()).filter(move |hart| weak.is_none() || hart.id != weak);
    others.filter_map(|hart| {
        let why = match hart.state {
            HartState::Usable => return None,
            HartState::Disabled => "the tree disables it",
            HartState::NoMmu => "it has no MMU",
            HartState::Incomplete => "its node has no `reg` or no `interrupt-controller`",
        };
        let id = hart.id.map_or("without ID".to_owned(), |id| id.to_string());
        let weak = match (hart.suits_weak_core(), hart.state) {
            (true, HartState::NoMmu) => "; it may be a weak core",
            (true, _) => "; enabled, it may be a weak core",
            (false, _) => "",
        };
        let detail = format!("hart {id} parks: {why}{weak}");
        Some(Finding::good("parked hart", detail))
    })
}

fn controllers(board: &Board) -> Finding {
    const WHAT: &str = "interrupts";
    let interrupts = &board.machine.interrupts;
    let plic = |plic: &Plic| format!("PLIC at {:#x}, {} sources", plic.base, plic.sources);
    let aplic = |aplic: &Aplic| {
        let by = match interrupts.os_imsic_of(aplic) {
            Some(_) => "by IMSICs",
            None => "by wires",
        };
        format!(
            "APLIC at {:#x}, {} sources, {by}",
            aplic.base, aplic.sources
        )
    };
    let plics = interrupts.plics.iter().map(plic);
    let all: Vec<_> = plics
        .chain(interrupts.os_aplics.iter().map(aplic))
        .collect();
    if all.is_empty() {
        let found = listed(
            &board.unknown(Purpose::Interrupts),
            "the tree names no interrupt controller",
        );
        let cure =
            "the OS must restore it after a sleep; add a driver beside `riscv/drivers/src/plic.rs`";
        return Finding::bad(WHAT, LACKING, format!("none is known: {found}"), cure);
    }
    let id = match board.machine.spare_source {
        Some(spare) => format!("; source {} announces a wake", spare.source),
        None => String::new(),
    };
    Finding::good(WHAT, all.join("; ") + &id)
}

fn memory(board: &Board) -> Finding {
    const WHAT: &str = "memory";
    let Machine {
        memory, reserved, ..
    } = &board.machine;
    if memory.is_empty() {
        let cure = "a boot loader adds it: dump the tree that it hands on";
        let detail = "the device tree has no memory";
        return Finding::bad(WHAT, MISSING, detail, cure);
    }
    if board.error == Some(DescriptionError::Memory) {
        let cure = "join neighbours, or raise `MAX_RANGES` in the crate `memory`";
        let detail = DescriptionError::Memory.to_string();
        return Finding::bad(WHAT, MISSING, detail, cure);
    }
    let lengths = memory.iter().map(PhysRange::length);
    let bytes = Bytes(lengths.fold(0, u64::saturating_add));
    let reserved = match reserved.len() {
        0 => "none is reserved".to_owned(),
        1 => "1 range is reserved".to_owned(),
        count => format!("{count} ranges are reserved"),
    };
    Finding::good(
        WHAT,
        format!("{bytes}: {}; {reserved}", ranges_text(memory)),
    )
}

fn switch(board: &Board, what: &'static str, switch: Option<Switch>) -> Finding {
    if let Some(switch) = switch {
        return Finding::good(what, switch_text(switch));
    }
    let watchdogs = listed(&board.unknown(Purpose::Watchdog), "no watchdog");
    let (effect, node) = match what {
        "reset" => (
            "a failed start or load switches the machine off or halts",
            "`syscon-reboot` or `gpio-restart`",
        ),
        _ => (
            "sleeps keep the RAM powered",
            "`syscon-poweroff` or `gpio-poweroff`",
        ),
    };
    let also = match what {
        "reset" => format!("; the tree has {watchdogs}"),
        _ => String::new(),
    };
    let cure = format!("add {node} to the tree, or a driver beside `riscv/drivers/src/syscon.rs`");
    Finding::bad(what, LACKING, format!("none: {effect}{also}"), &cure)
}

fn switch_text(switch: Switch) -> String {
    match switch {
        Switch::Syscon(syscon) => format!(
            "register at {:#x}, value {:#x}, mask {:#x}",
            syscon.address, syscon.value, syscon.mask
        ),
        Switch::Gpio(gpio) => {
            let level = match gpio.is_active_low {
                true => "low",
                false => "high",
            };
            let drive = match gpio.drive {
                Drive::Both => "",
                Drive::Low => ", open drain",
                Drive::High => ", open source",
            };
            let (pin, at) = (gpio.pin, gpio.controller);
            format!("pin {pin} of the GPIO controller at {at:#x}, active {level}{drive}")
        }
    }
}

fn switch_errors(machine: &Machine) -> impl Iterator<Item = Finding> {
    let errors = machine.switches.errors.iter();
    let cure = "correct the node's `gpios`, or add a driver for its controller";
    errors.map(move |error| Finding::bad("switch", LACKING, error.to_string(), cure))
}

fn clock(board: &Board) -> Finding {
    const WHAT: &str = "clock";
    if let Some(at) = board.machine.rtc {
        return Finding::good(WHAT, format!("goldfish at {at:#x}"));
    }
    let found = listed(&board.unknown(Purpose::Clock), "the tree has no clock");
    let detail = format!("none: `time` stops while the power is off; {found}");
    let cure = "add a driver beside `riscv/drivers/src/goldfish.rs`; `time` is right in a retain";
    Finding::bad(WHAT, LACKING, detail, cure)
}

fn pci(board: &Board) -> Finding {
    const WHAT: &str = "PCIe";
    let hosts: Vec<_> = (board.machine.pci.iter())
        .map(|host| format!("ECAM {}", range_text(&host.ecam)))
        .collect();
    if !hosts.is_empty() {
        return Finding::good(WHAT, hosts.join("; "));
    }
    let found = listed(
        &board.unknown(Purpose::PciHost),
        "the tree has no host bridge",
    );
    let known = KNOWN_PCI_HOSTS.join(", ");
    let cure =
        format!("implement `pci::ConfigSpace`, as `riscv/drivers/src/ecam.rs`; known is {known}");
    Finding::bad(WHAT, LACKING, format!("none is known: {found}"), &cure)
}

fn entropy(machine: &Machine) -> Finding {
    const WHAT: &str = "entropy";
    let has_zkr = machine.harts.iter().any(|hart| hart.extensions.zkr);
    match (has_zkr, machine.seed.len()) {
        (true, _) => Finding::good(WHAT, "Zkr"),
        (false, bytes @ 32..) => Finding::good(WHAT, format!("`rng-seed` of {bytes} bytes")),
        (false, _) => {
            let detail = "no Zkr, no `rng-seed` of 32 bytes: keys come from timing alone";
            let cure = "let the boot loader add 32 random bytes as `/chosen/rng-seed`";
            Finding::bad(WHAT, LACKING, detail, cure)
        }
    }
}

fn sleeps(board: &Board) -> impl Iterator<Item = Finding> {
    const WHAT: &str = "sleep";
    let wakes = board.sleeps.wake_sources.join(", ");
    board.sleeps.all.iter().map(move |sleep| {
        let modes = sleep.modes.join(", ");
        let is_retain = sleep.modes.contains(&"retain");
        match &sleep.allowed {
            Allowed::Yes if is_retain => Finding::good(WHAT, format!("{modes}: woken by {wakes}")),
            Allowed::Yes => Finding::good(WHAT, format!("{modes}: if caches and PCI allow it")),
            Allowed::WithArea => {
                let place = "with a sleep area on NVMe or in persistent memory";
                Finding::good(WHAT, format!("{modes}: {place}"))
            }
            Allowed::No(reasons) => {
                let cure = match modes.as_str() {
                    "cut" => "describe the power supply's line: docs/cut.md",
                    "retain" => "add a timer, a clock or a console",
                    _ => "mend the named parts; until then the machine retains",
                };
                let detail = format!("{modes}: {}", reasons.join("; "));
                Finding::bad(WHAT, LACKING, detail, cure)
            }
        }
    })
}
