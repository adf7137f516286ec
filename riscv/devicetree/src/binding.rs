//! Known devices, by their `compatible`.

use dtoolkit::fdt::FdtNode;

use crate::flash::FLASH;
use crate::power_fail::POWER_FAIL;
use crate::switch::{Action, Means};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Uart,
    SifiveUart,
    Clint,
    AclintMtimer,
    AclintMswi,
    Plic,
    Imsics,
    Aplic,
    PciHost,
    Switch(Action, Means),
    Rtc,
    Flash,
    FwCfg,
    PowerFail,
    Iommu,
    VirtioMmio,
}

impl Binding {
    /// The binding of the first known name in the node's `compatible`.
    pub(crate) fn of(node: FdtNode<'_>) -> Option<Self> {
        node.compatible()?.find_map(Self::named)
    }

    /// The binding of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "ns16550a" | "ns16550" | "snps,dw-apb-uart" => Some(Binding::Uart),
            "sifive,uart0" => Some(Binding::SifiveUart),
            "riscv,clint0" | "sifive,clint0" => Some(Binding::Clint),
            "riscv,aclint-mtimer" => Some(Binding::AclintMtimer),
            "riscv,aclint-mswi" => Some(Binding::AclintMswi),
            "riscv,plic0" | "sifive,plic-1.0.0" | "thead,c900-plic" => Some(Binding::Plic),
            "riscv,imsics" => Some(Binding::Imsics),
            "riscv,aplic" => Some(Binding::Aplic),
            "pci-host-ecam-generic" => Some(Binding::PciHost),
            "syscon-poweroff" => Some(Binding::Switch(Action::PowerOff, Means::Syscon)),
            "syscon-reboot" => Some(Binding::Switch(Action::Reset, Means::Syscon)),
            "gpio-poweroff" => Some(Binding::Switch(Action::PowerOff, Means::Gpio)),
            "gpio-restart" => Some(Binding::Switch(Action::Reset, Means::Gpio)),
            "google,goldfish-rtc" => Some(Binding::Rtc),
            FLASH => Some(Binding::Flash),
            "riscv,iommu" => Some(Binding::Iommu),
            "virtio,mmio" => Some(Binding::VirtioMmio),
            "qemu,fw-cfg-mmio" => Some(Binding::FwCfg),
            POWER_FAIL => Some(Binding::PowerFail),
            _ => None,
        }
    }
}
