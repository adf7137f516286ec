//! The OS's CSRs.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Calls the macro `$list` with each CSR of the OS: its item name, its name in the specification,
/// and its number.
///
/// These are all CSRs of U, S and H level with state, except:
///
/// - `satp`: the firmware enters an OS with zero there, and the OS restores it;
/// - the counters;
/// - the registers in [`FloatRegisters`](super::FloatRegisters),
///   [`VectorRegisters`](super::VectorRegisters) and a [`Bank`](super::Bank).
///
/// A case of the test kernel tries every CSR number, so that it finds a missing one. An OS also
/// saves some of these itself. Of `sip` only the bits that the OS can write are kept; devices set
/// the others. A CSR that decides which bits another keeps comes before it: `hideleg` and `hvien`
/// before `vsie`, `sctrdepth` before `sctrstatus`, `vstimecmp` before `hvip`, whose VSTIP it may
/// clear.
#[macro_export]
macro_rules! for_each_os_csr {
    ($list:ident) => {
        $list! {
            Fcsr "fcsr" 0x003,
            Ssp "ssp" 0x011,
            Jvt "jvt" 0x017,
            Sstatus "sstatus" 0x100,
            Sie "sie" 0x104,
            Stvec "stvec" 0x105,
            Scounteren "scounteren" 0x106,
            Senvcfg "senvcfg" 0x10a,
            Sstateen0 "sstateen0" 0x10c,
            Sstateen1 "sstateen1" 0x10d,
            Sstateen2 "sstateen2" 0x10e,
            Sstateen3 "sstateen3" 0x10f,
            Scountinhibit "scountinhibit" 0x120,
            Sscratch "sscratch" 0x140,
            Sepc "sepc" 0x141,
            Scause "scause" 0x142,
            Stval "stval" 0x143,
            Sip "sip" 0x144,
            Stimecmp "stimecmp" 0x14d,
            Sctrctl "sctrctl" 0x14e,
            Sctrdepth "sctrdepth" 0x15f,
            Sctrstatus "sctrstatus" 0x14f,
            Siselect "siselect" 0x150,
            Srmcfg "srmcfg" 0x181,
            Scontext "scontext" 0x5a8,
            Hstatus "hstatus" 0x600,
            Hedeleg "hedeleg" 0x602,
            Hideleg "hideleg" 0x603,
            Hvien "hvien" 0x608,
            Hvictl "hvictl" 0x609,
            Hie "hie" 0x604,
            Htimedelta "htimedelta" 0x605,
            Hcounteren "hcounteren" 0x606,
            Hgeie "hgeie" 0x607,
            Henvcfg "henvcfg" 0x60a,
            Hstateen0 "hstateen0" 0x60c,
            Hstateen1 "hstateen1" 0x60d,
            Hstateen2 "hstateen2" 0x60e,
            Hstateen3 "hstateen3" 0x60f,
            Htval "htval" 0x643,
            Vstimecmp "vstimecmp" 0x24d,
            Hvip "hvip" 0x645,
            Hviprio1 "hviprio1" 0x646,
            Hviprio2 "hviprio2" 0x647,
            Htinst "htinst" 0x64a,
            Hgatp "hgatp" 0x680,
            Hcontext "hcontext" 0x6a8,
            Vsstatus "vsstatus" 0x200,
            Vsie "vsie" 0x204,
            Vstvec "vstvec" 0x205,
            Vsscratch "vsscratch" 0x240,
            Vsepc "vsepc" 0x241,
            Vscause "vscause" 0x242,
            Vstval "vstval" 0x243,
            Vsip "vsip" 0x244,
            Vsatp "vsatp" 0x280,
            Vsctrctl "vsctrctl" 0x24e,
            Vsiselect "vsiselect" 0x250,
        }
    };
}

macro_rules! csrs {
    ($($csr:ident $name:literal $number:literal,)*) => {
        /// A CSR of the OS (privileged specification, chapter 2; AIA, chapter 2).
        #[allow(missing_docs, reason = "the specification's own names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Csr {
            $($csr = $number,)*
        }

        impl Csr {
            /// All CSRs in the order of restoring, except that `sstatus` comes last.
            pub const ALL: &[Csr] = &[$(Csr::$csr,)*];

            /// Name in the specification.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Csr::$csr => $name,)*
                }
            }
        }
    };
}

for_each_os_csr!(csrs);

impl Csr {
    /// Number in the specification.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The OS's CSR with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Csr> {
        (Self::ALL.iter().copied()).find(|csr| u64::from(csr.number()) == number)
    }
}

/// Number and value of a CSR, as in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CsrValue {
    /// Number of the CSR.
    pub number: u64,
    /// Value of the CSR.
    pub value: u64,
}
