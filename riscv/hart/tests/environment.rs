//! What the CSRs hold when an OS starts, by what a hart can do.
#![allow(missing_docs, reason = "a test")]

use poorwill_devicetree::Extensions;
use poorwill_hart::interrupt::{LCOFI, MEI, MSI, MTI, Pending, SEI, SSI, STI};
use poorwill_hart::{Environment, Kept};

/// That of a hart with the extension that `set` gives it, and no other.
fn with(set: impl Fn(&mut Extensions)) -> Environment {
    let mut extensions = Extensions::default();
    set(&mut extensions);
    Environment::of(&extensions, KEPT)
}

const KEPT: Kept = Kept {
    interrupts: MSI | MEI,
    access_faults: false,
    illegal_instructions: false,
    external_interrupts: false,
};

/// Which exceptions are whose (privileged specification, table 3.6; H extension, table 8.6):
/// every one of the 64 is decided.
#[test]
fn all_exceptions_go_to_the_os_but_its_calls_and_what_it_cannot_handle() {
    let delegated = with(|_| ()).medeleg;
    let own = [9, 11, 14, 16, 17].into_iter().chain(24..64);
    let own: Vec<u64> = own.collect();
    for cause in 0..64 {
        assert_eq!(
            delegated >> cause & 1 == 0,
            own.contains(&cause),
            "exception {cause}"
        );
    }
}

/// Double traps of S-mode, its landing pads and its shadow stacks are off: an OS that does
/// not know of them would not survive them. Without DTE, `sstatus.SDT` stays clear.
#[test]
fn no_os_gets_what_it_has_not_asked_for() {
    let all = with(|has| {
        (has.sstc, has.svadu, has.svpbmt) = (true, true, true);
        (has.zicbom, has.zicboz, has.hypervisor) = (true, true, true);
    });
    let [dte, sse, lpe] = [59, 3, 2].map(|bit| 1 << bit);
    assert_eq!(all.menvcfg & (dte | sse | lpe), 0);
}

#[test]
fn machine_mode_has_what_it_keeps_and_no_more() {
    let of = |kept| Environment::of(&Extensions::default(), kept);
    let plain = of(KEPT);
    let access_faults = of(Kept {
        access_faults: true,
        ..KEPT
    });
    // Of loads and of stores, not of fetches.
    assert_eq!(access_faults.medeleg, plain.medeleg & !(1 << 5 | 1 << 7));
    let illegal_instructions = of(Kept {
        illegal_instructions: true,
        ..KEPT
    });
    assert_eq!(
        illegal_instructions,
        Environment {
            medeleg: plain.medeleg & !(1 << 2),
            ..plain
        }
    );
    assert_eq!(
        of(Kept {
            interrupts: MSI,
            ..KEPT
        })
        .mie,
        MSI
    );
    // They stay in machine mode, where they are off.
    let external = of(Kept {
        external_interrupts: true,
        ..KEPT
    });
    assert_eq!(external.mideleg, plain.mideleg & !(1 << 9));
    assert_eq!(external.mie, plain.mie);
}

#[test]
fn a_hart_without_extensions_gets_none_of_their_bits() {
    let plain = with(|_| ());
    assert_eq!(plain.mideleg, 0x2222);
    assert_eq!((plain.mie, plain.counters), (MSI | MEI, 0b111));
    assert_eq!(plain.menvcfg, 0);
    assert_eq!(
        (plain.mstateen0, plain.mseccfg, plain.stimecmp),
        (None, None, None)
    );
}

#[test]
fn each_extension_has_its_own_bits() {
    let plain = with(|_| ());
    let menvcfg = |bits| Environment {
        menvcfg: bits,
        ..plain
    };
    assert_eq!(
        with(|has| has.sstc = true),
        Environment {
            stimecmp: Some(u64::MAX),
            ..menvcfg(1 << 63)
        }
    );
    assert_eq!(with(|has| has.svpbmt = true), menvcfg(1 << 62));
    assert_eq!(with(|has| has.svadu = true), menvcfg(1 << 61));
    assert_eq!(with(|has| has.zicbom = true), menvcfg(0xf0));
    assert_eq!(with(|has| has.zicboz = true), menvcfg(0xf0));
    assert_eq!(
        with(|has| has.smstateen = true),
        Environment {
            mstateen0: Some(0xdec0_0000_0000_0006),
            ..plain
        }
    );
    assert_eq!(
        with(|has| has.zkr = true),
        Environment {
            mseccfg: Some(1 << 9),
            ..plain
        }
    );
    // These ask for nothing here.
    for set in [
        (|has| has.ssaia = true) as fn(&mut Extensions),
        |has| has.hypervisor = true,
        |has| has.float = true,
        |has| has.vector = true,
    ] {
        assert_eq!(with(set), plain);
    }
}

#[test]
fn only_what_the_os_has_enabled_is_pending_for_it() {
    let pending = |mip, mie| {
        let Pending { timer, other } = Pending::of(mip, mie);
        (timer, other)
    };
    assert_eq!(pending(STI, STI), (true, false));
    assert_eq!(pending(STI | SEI, STI | SEI), (true, true));
    assert_eq!(pending(STI | SEI, SEI), (false, true));
    assert_eq!(pending(STI, !STI), (false, false));
    for own in [SSI, SEI, LCOFI] {
        assert_eq!(pending(own, u64::MAX), (false, true));
    }
    // Machine mode's are not the OS's, whoever has enabled them.
    assert_eq!(pending(MSI | MTI | MEI, u64::MAX), (false, false));
}
