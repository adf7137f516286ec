//! The means by which a machine resets itself or switches itself off.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use thiserror::Error;

use crate::node::{NodeName, cell, cells, find_by_phandle, is_any, is_enabled, name_of, reg};

/// What resets the machine, and what switches its power off.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// What switches the power off.
    pub power_off: Option<Switch>,
    /// What resets the machine.
    pub reset: Option<Switch>,
    /// Why the first nodes of pins cannot be used.
    pub errors: ArrayVec<SwitchError, 2>,
}

/// What a switch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    PowerOff,
    Reset,
}

/// The binding of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    Syscon,
    Gpio,
}

impl Switches {
    /// Takes a node. A system controller's register comes before a pin, and of several registers the
    /// last one counts, of several pins the first.
    pub(crate) fn take(
        &mut self,
        action: Action,
        means: Means,
        root: FdtNode<'_>,
        node: FdtNode<'_>,
    ) {
        let (switch, times) = match action {
            Action::PowerOff => (&mut self.power_off, OF_POWER_OFF),
            Action::Reset => (&mut self.reset, OF_RESET),
        };
        match means {
            Means::Syscon => *switch = Syscon::read(root, node).map(Switch::Syscon).or(*switch),
            Means::Gpio => match GpioSwitch::read(root, node, times) {
                Ok(gpio) => {
                    switch.get_or_insert(Switch::Gpio(gpio));
                }
                // The first ones are enough to name.
                Err(error) => self.errors.try_push(error).unwrap_or_default(),
            },
        }
    }
}

/// A means to reset the machine, or to switch its power off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// By a register of the system controller.
    Syscon(Syscon),
    /// By a pin.
    Gpio(GpioSwitch),
}

impl Switch {
    /// Address of its register, or of its controller's registers.
    #[must_use]
    pub fn address(&self) -> u64 {
        match self {
            Switch::Syscon(syscon) => syscon.address,
            Switch::Gpio(gpio) => gpio.controller,
        }
    }
}

/// A register write that resets the machine or switches it off
/// (`syscon-poweroff`, `syscon-reboot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscon {
    /// Address of the 32-bit register.
    pub address: u64,
    /// Value to write.
    pub value: u32,
    /// Bits of the register to change; the others keep their values.
    pub mask: u32,
}

impl Syscon {
    fn read(root: FdtNode<'_>, node: FdtNode<'_>) -> Option<Self> {
        let base = find_by_phandle(root, cell(node, "regmap")?, 0).and_then(|map| reg(map, 0))?;
        let offset = cell(node, "offset").or_else(|| cell(node, "reg"))?;
        // A node without `value` has the value in `mask` (binding `syscon-poweroff`).
        let mask = cell(node, "mask");
        Some(Syscon {
            address: base.start.checked_add(u64::from(offset))?,
            value: cell(node, "value").or(mask)?,
            mask: mask.unwrap_or(u32::MAX),
        })
    }
}

/// A pin of a `sifive,gpio0` controller that resets the machine or switches it off (`gpio-restart`,
/// `gpio-poweroff`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpioSwitch {
    /// Address of the controller's registers.
    pub controller: u64,
    /// Number of the pin, 0 to 31.
    pub pin: u32,
    /// The pin is active while it is low.
    pub is_active_low: bool,
    /// How the pin is driven.
    pub drive: Drive,
    /// Time for which the pin is active at first, in ms.
    pub active_ms: u32,
    /// Time for which it is inactive then, in ms.
    pub inactive_ms: u32,
    /// Time in which the machine must react to the pin that is active again, in ms.
    pub wait_ms: u32,
}

/// How a pin is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// Low and high.
    Both,
    /// Low alone (open drain).
    Low,
    /// High alone (open source).
    High,
}

/// Flags of a pin (Linux, `include/dt-bindings/gpio/gpio.h`).
mod flag {
    pub(super) const ACTIVE_LOW: u32 = 1 << 0;
    pub(super) const SINGLE_ENDED: u32 = 1 << 1;
    pub(super) const OPEN_DRAIN: u32 = 1 << 2;
}

/// Pins of a controller, unless its `ngpios` says otherwise (Linux, `sifive,gpio.yaml`), and at most.
const PINS: u32 = 16;
const MOST_PINS: u32 = 32;

/// The defaults of both bindings, in ms.
const PULSE_MS: u32 = 100;
const WAIT_MS: u32 = 3000;

/// Names of the bindings' properties for the times of [`GpioSwitch`].
#[derive(Clone, Copy, Debug)]
struct Times {
    active: &'static str,
    inactive: &'static str,
    wait: &'static str,
}

/// Those of `gpio-restart`.
const OF_RESET: Times = Times {
    active: "active-delay",
    inactive: "inactive-delay",
    wait: "wait-delay",
};

/// Those of `gpio-poweroff`.
const OF_POWER_OFF: Times = Times {
    active: "active-delay-ms",
    inactive: "inactive-delay-ms",
    wait: "timeout-ms",
};

/// Why a node's pin cannot be used. The machine counts as one without the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{node}: {fault}; the node is ignored")]
pub struct SwitchError {
    /// The node of the switch.
    pub node: NodeName,
    /// What is wrong with it.
    pub fault: SwitchFault,
}

/// See [`SwitchError`].
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SwitchFault {
    #[error("`gpios` is not a phandle, a pin and flags")]
    Gpios,
    #[error("no node has the phandle {0:#x} of `gpios`")]
    NoController(u32),
    #[error("{0}, which `gpios` names, is no enabled `sifive,gpio0` with registers")]
    OtherController(NodeName),
    #[error("{controller} has {pins} pins, and no pin {pin}")]
    NoPin {
        controller: NodeName,
        pins: u32,
        pin: u32,
    },
}

impl GpioSwitch {
    fn read(root: FdtNode<'_>, node: FdtNode<'_>, times: Times) -> Result<Self, SwitchError> {
        Self::find(root, node, times).map_err(|fault| SwitchError {
            node: name_of(node),
            fault,
        })
    }

    fn find(root: FdtNode<'_>, node: FdtNode<'_>, times: Times) -> Result<Self, SwitchFault> {
        let mut cells = cells(node, "gpios").into_iter().flatten();
        let mut next = || cells.next().ok_or(SwitchFault::Gpios);
        let (phandle, pin, flags) = (next()?, next()?, next()?);
        let controller =
            find_by_phandle(root, phandle, 0).ok_or(SwitchFault::NoController(phandle))?;
        let name = name_of(controller);
        let registers = reg(controller, 0).filter(|_| {
            is_any(controller, &["sifive,gpio0"])
                && is_enabled(controller)
                && cell(controller, "#gpio-cells") == Some(2)
        });
        let registers = registers.ok_or(SwitchFault::OtherController(name))?;
        let pins = cell(controller, "ngpios").unwrap_or(PINS).min(MOST_PINS);
        if pin >= pins {
            return Err(SwitchFault::NoPin {
                controller: name,
                pins,
                pin,
            });
        }
        let has = |bits: u32| flags & bits == bits;
        let drive = match node.property("open-source") {
            Some(_) => Drive::High,
            None if has(flag::SINGLE_ENDED | flag::OPEN_DRAIN) => Drive::Low,
            None if has(flag::SINGLE_ENDED) => Drive::High,
            None => Drive::Both,
        };
        let ms = |name, default| cell(node, name).unwrap_or(default);
        Ok(GpioSwitch {
            controller: registers.start,
            pin,
            is_active_low: has(flag::ACTIVE_LOW),
            drive,
            active_ms: ms(times.active, PULSE_MS),
            inactive_ms: ms(times.inactive, PULSE_MS),
            wait_ms: ms(times.wait, WAIT_MS),
        })
    }
}
