//! The memory of a case, and Sail's address translation in it (`vmem.sail`, `vmem_pte.sail`, which
//! `softcore-rv64` lacks). Svnapot and Svpbmt are on; Svadu sets A and D.

use poorwill_hart::emulation::PhysicalMemory;
use softcore_rv64::raw::{
    _get_Mstatus_MXR, _get_Mstatus_SUM, AccessType, ExceptionType, Privilege, accessToFault,
    effectivePrivilege, phys_access_check, physaddr,
};
use softcore_rv64::{Core, prelude::bv};

/// The OS's memory. All else is the device's.
pub(crate) const RAM: u64 = 0x8000_0000;
pub(crate) const RAM_BYTES: u64 = 1 << 24;

/// Memory that is zero but for these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Words of page tables, by address.
    pub(crate) words: Vec<(u64, u64)>,
    /// Parcels of the instruction, by address.
    pub(crate) parcels: Vec<(u64, u16)>,
}

pub(crate) fn is_ram(address: u64) -> bool {
    (RAM..RAM + RAM_BYTES).contains(&address)
}

impl PhysicalMemory for Memory {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        if !is_ram(address) {
            return None;
        }
        Some(match bytes {
            2 => find(&self.parcels, address).map_or(0, |parcel| parcel.into()),
            8 => find(&self.words, address).unwrap_or(0),
            _ => panic!("{bytes} bytes"),
        })
    }
}

fn find<T: Copy>(list: &[(u64, T)], address: u64) -> Option<T> {
    let found = list.iter().find(|(at, _)| *at == address)?;
    Some(found.1)
}

impl Memory {
    pub(crate) fn put(&mut self, address: u64, word: u64) {
        self.words.retain(|(at, _)| *at != address);
        self.words.push((address, word));
    }
}

const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;
const A: u64 = 1 << 6;
const D: u64 = 1 << 7;
const N: u64 = 1 << 63;
/// Bits of `PTE_Ext`: the reserved ones, and those of Svrsw60t59b, which is off.
const RESERVED: u64 = 0x7f << 54;
const PBMT: u64 = 3 << 61;

type Access = AccessType<()>;

fn page_fault(access: Access) -> ExceptionType {
    match access {
        AccessType::InstructionFetch(()) => ExceptionType::E_Fetch_Page_Fault(()),
        AccessType::Read(()) => ExceptionType::E_Load_Page_Fault(()),
        _ => ExceptionType::E_SAMO_Page_Fault(()),
    }
}

/// `translateAddr`, and the check of the physical address that follows it.
pub(crate) fn reach(
    core: &mut Core,
    memory: &mut Memory,
    address: u64,
    access: Access,
    bytes: u64,
) -> Result<u64, ExceptionType> {
    let privilege = effectivePrivilege(access, core.mstatus, core.cur_privilege);
    let physical = translate(core, memory, address, access, privilege)?;
    let at = physaddr::Physaddr(bv(physical));
    match phys_access_check(core, access, privilege, at, bytes.into()) {
        Some(fault) => Err(fault),
        None => Ok(physical),
    }
}

fn translate(
    core: &Core,
    memory: &mut Memory,
    address: u64,
    access: Access,
    privilege: Privilege,
) -> Result<u64, ExceptionType> {
    let satp = core.satp.bits();
    let levels = match satp >> 60 {
        0 => return Ok(address),
        mode @ 8..=10 => mode - 5,
        mode => panic!("mode {mode}"),
    };
    let sv_width = 12 + 9 * levels;
    let unused = 64 - sv_width;
    if (address << unused).cast_signed() >> unused != address.cast_signed() {
        return Err(page_fault(access));
    }
    let sum = _get_Mstatus_SUM(core.mstatus).bits() == 1;
    let mxr = _get_Mstatus_MXR(core.mstatus).bits() == 1;
    let mut base_ppn = satp & ((1 << 44) - 1);
    for level in (0..levels).rev() {
        let vpn_i = address >> (12 + 9 * level) & 0x1ff;
        let pte_addr = base_ppn << 12 | vpn_i << 3;
        let pte = memory.read(pte_addr, 8).ok_or(accessToFault(access))?;
        let ppn = pte >> 10 & ((1 << 44) - 1);
        if is_invalid(pte) {
            return Err(page_fault(access));
        }
        if pte & (R | W | X) == 0 {
            base_ppn = ppn;
            continue;
        }
        let low = (1 << (9 * level)) - 1;
        if ppn & low != 0 || !is_permitted(pte, access, privilege, sum, mxr) {
            return Err(page_fault(access));
        }
        let vpn = address >> 12;
        let ppn = match (pte & N != 0, level) {
            (false, _) => ppn | vpn & low,
            (true, 0) if ppn & 15 == 0b1000 => ppn & !15 | vpn & 15,
            (true, _) => return Err(page_fault(access)),
        };
        let is_store = matches!(access, AccessType::Write(()));
        memory.put(pte_addr, pte | A | if is_store { D } else { 0 });
        return Ok(ppn << 12 | address & 0xfff);
    }
    Err(page_fault(access))
}

/// `pte_is_invalid`.
fn is_invalid(pte: u64) -> bool {
    let is_non_leaf = pte & (R | W | X) == 0;
    pte & V == 0
        || pte & (R | W) == W
        || pte & RESERVED != 0
        || pte & PBMT == PBMT
        || is_non_leaf && pte & (A | D | U | N | PBMT) != 0
}

/// `check_PTE_permission`.
fn is_permitted(pte: u64, access: Access, privilege: Privilege, sum: bool, mxr: bool) -> bool {
    let is_fetch = access == AccessType::InstructionFetch(());
    let user = pte & U != 0;
    let privilege_ok = match privilege {
        Privilege::User => user,
        Privilege::Supervisor => !user || sum && !is_fetch,
        Privilege::Machine => panic!("machine mode translates no address"),
    };
    let readable = pte & R != 0 || pte & X != 0 && mxr;
    privilege_ok
        && match access {
            AccessType::InstructionFetch(()) => pte & X != 0,
            AccessType::Read(()) => readable,
            _ => pte & W != 0,
        }
}
