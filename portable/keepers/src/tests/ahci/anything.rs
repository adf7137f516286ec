//! Disks that do anything, and records that hold anything.

use std::vec::Vec;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::disk::{READ, READ_QUEUED, WRITE, WRITE_QUEUED};
use super::{busy, cut, one_disk};
use crate::tests::go;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever disks are doing, nothing that was acknowledged is lost, and nothing is
    /// acknowledged that was not done.
    #[test]
    fn nothing_is_lost(
        latency in prop_oneof![1u64..200, 1000u64..20_000],
        accept_us in prop_oneof![1u64..10, 50u64..500],
        requests in prop::collection::vec((0u32..32, any::<bool>(), 0u8..16, 0u64..3000), 1..12),
        is_queued in any::<bool>(),
        is_between in any::<bool>(),
        is_twice in any::<bool>(),
    ) {
        let mut driver = one_disk(latency);
        driver.hba.borrow_mut().disk(0).accept_us = accept_us;
        let mut used = 0u64;
        for (slot, is_write, lba, pause) in requests {
            // No slot, and no sector, twice at a time.
            let bits = 1u64 << slot | 1 << (32 + lba);
            if driver.is_idle() { used = 0 }
            if used & bits == 0 {
                used |= bits;
                driver.submit(0, slot, match (is_queued, is_write) {
                    (true, true) => WRITE_QUEUED,
                    (true, false) => READ_QUEUED,
                    (false, true) => WRITE,
                    (false, false) => READ,
                }, lba);
                driver.run(pause);
            }
        }
        let between = (0..32).find(|slot| used >> slot & 1 == 0);
        let between = between.filter(|_| is_between && is_queued);
        if let Some(slot) = between {
            driver.prepare(0, slot, WRITE_QUEUED, 20);
            driver.activate(0, slot);
        }
        let record = cut(&driver);
        if is_twice {
            crate::put_back(&driver.machine, &record.sections()).unwrap();
            driver.machine.power_cycle();
        }
        go(&driver.machine, &record).unwrap();
        if let Some(slot) = between {
            driver.issue(0, slot);
        }
        driver.run(500_000);
        if !driver.is_idle() {
            driver.time_out(0);
        }
        driver.run(500_000);
        prop_assert!(driver.is_idle());
        prop_assert_eq!(driver.errors, 0);
        driver.verify();
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A record may hold anything.
    #[test]
    fn no_payload_leads_astray(
        rows in prop::collection::vec(any::<[u32; 18]>(), 0..34),
        numbered in any::<bool>(),
        whole in any::<bool>(),
    ) {
        let (driver, record) = busy();
        driver.machine.power_cycle();
        for port in &mut driver.hba.borrow_mut().ports {
            port.is_lenient = true;
        }
        let record = record.with_payload(crate::ahci::TAG, |section| {
            let real = section.payload.as_chunks::<72>().0;
            let rows = rows.iter().enumerate().map(|(place, row)| {
                let mut row = *row;
                if numbered {
                    // As if of this HBA.
                    let real = real.get(place).map_or(&[0; 72], |real| real);
                    row[..4].as_mut_bytes().copy_from_slice(&real[..16]);
                    row[3] = place.try_into().unwrap();
                }
                row
            });
            let rows: Vec<_> = rows.collect();
            let bytes = rows.as_bytes();
            bytes[..bytes.len() - usize::from(!whole && !bytes.is_empty())].to_vec()
        });
        if crate::check(&driver.machine, &record.sections()).is_ok() {
            crate::put_back(&driver.machine, &record.sections()).ok();
            crate::announce(&driver.machine, &record.sections()).ok();
        }
    }
}
