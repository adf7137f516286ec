//! APLIC (AIA, chapter 4).

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, ImsicLayout, MAX_HARTS};

use super::RegisterSet;
use crate::platform::mmio::Mmio;

/// Register offsets (AIA, section 4.5).
mod register {
    pub(super) const DOMAINCFG: usize = 0;
    pub(super) const SOURCECFG: usize = 0x4;
    pub(super) const MMSICFGADDR: usize = 0x1bc0;
    pub(super) const MMSICFGADDRH: usize = 0x1bc4;
    pub(super) const SMSICFGADDR: usize = 0x1bc8;
    pub(super) const SMSICFGADDRH: usize = 0x1bcc;
    pub(super) const SETIPNUM: usize = 0x1cdc;
    pub(super) const SETIE: usize = 0x1e00;
    pub(super) const CLRIE: usize = 0x1f00;
    pub(super) const TARGET: usize = 0x3004;
    pub(super) const IDC: usize = 0x4000;
    pub(super) const IDC_STRIDE: usize = 32;
    pub(super) const IDC_DELIVERY: usize = 0;
    pub(super) const IDC_THRESHOLD: usize = 8;
}

/// SOURCECFG: delegated to the child domain in the low bits.
const DELEGATED: u32 = 1 << 10;

#[derive(Debug)]
pub(super) struct Aplic {
    root: Option<Root>,
    os: Mmio,
    sources: usize,
    /// Interrupt delivery controls in use; none where IMSICs deliver.
    delivery: ArrayVec<usize, MAX_HARTS>,
}

/// Machine mode's domain, which every source belongs to at a reset.
#[derive(Debug)]
struct Root {
    registers: Mmio,
    sources: usize,
    delegated: ArrayVec<(u32, u32, u32), 4>,
    machine_imsic: Option<ImsicLayout>,
    os_imsic: Option<ImsicLayout>,
}

impl Aplic {
    /// # Safety
    ///
    /// `described` describes this machine.
    pub(super) unsafe fn new(described: &devicetree::Interrupts) -> Option<Self> {
        let os = described.os_aplic.as_ref()?;
        let root = described.machine_aplic.as_ref().map(|root| Root {
            // SAFETY: passed on to the caller.
            registers: unsafe { Mmio::new(root.base) },
            sources: root.sources as usize,
            delegated: root.delegated.clone(),
            machine_imsic: described.machine_imsic,
            os_imsic: described.os_imsic,
        });
        Some(Aplic {
            root,
            // SAFETY: passed on to the caller.
            os: unsafe { Mmio::new(os.base) },
            sources: os.sources as usize,
            delivery: if os.sends_msi {
                ArrayVec::new()
            } else {
                (os.harts.iter())
                    .map(|index| register::IDC + *index as usize * register::IDC_STRIDE)
                    .collect()
            },
        })
    }

    /// Hands the sources down to the OS's domain, and tells the root where the
    /// IMSICs are, which all domains share.
    pub(super) fn start(&self) {
        let Some(root) = &self.root else { return };
        root.registers.write32(register::DOMAINCFG, 0);
        for word in 0..=root.sources / 32 {
            root.registers.write32(register::CLRIE + 4 * word, u32::MAX);
        }
        for (child, first, last) in &root.delegated {
            for source in *first..=(*last).min(root.sources as u32) {
                let offset = register::SOURCECFG + 4 * (source as usize - 1);
                root.registers.write32(offset, DELEGATED | child);
            }
        }
        if let (Some(machine), Some(os)) = (root.machine_imsic, root.os_imsic) {
            root.point_at_imsics(machine, os);
        }
    }

    /// Makes a source pending. The APLIC ignores it for one that is inactive
    /// (AIA, 4.5.2).
    pub(super) fn raise(&self, source: u32) {
        self.os.write32(register::SETIPNUM, source);
    }
}

impl RegisterSet for Aplic {
    const TAG: u32 = u32::from_le_bytes(*b"APLC");
    const VERSION: u16 = 1;

    fn registers(&self) -> Mmio {
        self.os
    }

    /// A source's mode before its target, and the domain's own switch last.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let per_source = |base| (0..self.sources).map(move |source| base + 4 * source);
        let enables = (0..=self.sources / 32).map(|word| register::SETIE + 4 * word);
        let delivery = self.delivery.iter().flat_map(|control| {
            [
                control + register::IDC_THRESHOLD,
                control + register::IDC_DELIVERY,
            ]
        });
        per_source(register::SOURCECFG)
            .chain(per_source(register::TARGET))
            .chain(enables)
            .chain(delivery)
            .chain([register::DOMAINCFG])
    }
}

impl Root {
    /// AIA, 4.9.1 and 4.9.2: the page number of the first file, and how hart
    /// and group numbers spread over the address.
    fn point_at_imsics(&self, machine: ImsicLayout, os: ImsicLayout) {
        let spread = |layout: ImsicLayout| {
            let group_shift = layout.group_shift.saturating_sub(24);
            layout.hart_bits << 12
                | layout.group_bits << 16
                | layout.guest_bits << 20
                | group_shift << 24
        };
        let page = |layout: ImsicLayout| layout.base >> 12;
        let high = |layout: ImsicLayout| (page(layout) >> 32) as u32 & 0xfff;
        self.registers
            .write32(register::MMSICFGADDR, page(machine) as u32);
        self.registers
            .write32(register::MMSICFGADDRH, high(machine) | spread(machine));
        self.registers
            .write32(register::SMSICFGADDR, page(os) as u32);
        // Beyond the page number the specification has only the guest bits here,
        // and takes the rest from the registers above. QEMU takes all from here;
        // elsewhere the other fields are reserved and ignored.
        self.registers
            .write32(register::SMSICFGADDRH, high(os) | spread(os));
    }
}
