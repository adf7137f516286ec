//! A vault's life without power cuts: what is refused, what fails, what is told.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod common;

use common::{CutFlash, Torn};
use poorwill_vault::{
    CutCounter, FlashFault, KEY_BYTES, Key, KeyState, OLDEST_VAULT_VERSION, RollbackCounter,
    SliceFlash, VAULT_VERSION, Vault, VaultError,
};

const BLOCK: usize = 1024;
const LENGTH: u32 = 4 * BLOCK as u32;

type Flash = CutFlash<BLOCK>;

fn blank() -> Flash {
    Flash::new(vec![0xff; 4 * BLOCK])
}

fn open(flash: Flash) -> Result<Vault<Flash>, VaultError> {
    Vault::open(flash, 0..LENGTH)
}

fn key(byte: u8) -> Key {
    Key::new(&[byte; KEY_BYTES])
}

fn refusal(bytes: Vec<u8>) -> VaultError {
    let mut flash = Flash::new(bytes.clone());
    let error = Vault::open(&mut flash, 0..LENGTH).expect_err("refused");
    assert!(flash.bytes == bytes, "{error}: it was written to");
    assert_eq!(flash.steps, 0);
    error
}

#[test]
fn a_blank_flash_becomes_a_vault_and_stays_one() {
    let mut vault = open(blank()).unwrap();
    assert_eq!(vault.key_state(), KeyState::Missing);
    assert!(vault.key().is_none());
    assert_eq!((vault.generation(), vault.armed()), (0, None));
    vault.install_key(key(7)).unwrap();
    assert_eq!(vault.install_key(key(8)), Err(VaultError::KeyPresent));
    assert_eq!(vault.reserve(0), Ok(1));
    assert_eq!(vault.armed(), None);
    vault.arm(1).unwrap();
    assert_eq!(vault.reserve(41), Ok(42));
    assert_eq!(vault.armed(), None, "reserving disarms");
    vault.arm(42).unwrap();
    let vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!(vault.flash().steps, 0, "only read");
    assert_eq!(vault.key_state(), KeyState::Present);
    assert_eq!(vault.key().unwrap().bytes(), &[7; KEY_BYTES]);
    assert_eq!((vault.generation(), vault.armed()), (42, Some(42)));
}

#[test]
fn only_the_number_reserved_last_is_armed_and_only_once() {
    let mut vault = open(blank()).unwrap();
    let refused = |generation, latest| Err(VaultError::NotReserved { generation, latest });
    assert_eq!(vault.arm(0), refused(0, 0), "none was reserved");
    vault.reserve(0).unwrap();
    vault.reserve(0).unwrap();
    assert_eq!(vault.arm(1), refused(1, 2));
    assert_eq!(vault.arm(3), refused(3, 2));
    vault.arm(2).unwrap();
    vault.arm(2).unwrap();
    vault.disarm().unwrap();
    assert_eq!(vault.armed(), None);
    assert_eq!(vault.arm(2), refused(2, 2), "it was consumed");
    let steps = vault.flash().steps;
    vault.disarm().unwrap();
    assert_eq!(vault.flash().steps, steps, "nothing to write");
    let mut vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!(vault.arm(2), refused(2, 2), "also after a power-on");
}

#[test]
fn a_vault_that_counts_cuts_has_the_next_version() {
    let mut vault = open(blank()).unwrap();
    vault.install_key(key(7)).unwrap();
    vault.reserve(0).unwrap();
    vault.make_room().unwrap();
    assert_eq!((vault.cut(), vault.version()), (0, OLDEST_VAULT_VERSION));
    assert_eq!(vault.next_cut(), Ok(1));
    assert_eq!(vault.next_cut(), Ok(2));
    vault.arm(1).unwrap();
    let mut vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!((vault.cut(), vault.version()), (2, VAULT_VERSION));
    assert_eq!((vault.generation(), vault.armed()), (1, Some(1)));
    assert_eq!(vault.key().unwrap().bytes(), &[7; KEY_BYTES]);
    vault.erase_key().unwrap();
    let vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!(
        (vault.cut(), vault.armed()),
        (2, None),
        "no number comes twice"
    );
}

#[test]
fn a_forgotten_key_is_in_the_flash_alone() {
    let mut vault = open(blank()).unwrap();
    vault.forget_key();
    assert_eq!(
        vault.key_state(),
        KeyState::Missing,
        "there is none to forget"
    );
    vault.install_key(key(7)).unwrap();
    vault.forget_key();
    assert!(vault.key().is_none());
    assert_eq!(vault.key_state(), KeyState::Present);
    assert_eq!(vault.install_key(key(8)), Err(VaultError::KeyPresent));
    // The other half has it, too, when the first is full.
    let erases = vault.flash().erases;
    while vault.flash().erases == erases {
        vault.next_cut().unwrap();
        assert!(vault.key().is_none());
    }
    vault.recall_key().unwrap();
    assert_eq!(vault.key().unwrap().bytes(), &[7; KEY_BYTES]);
    // Where the flash does not say, it is not missing.
    let mut vault = open(vault.flash().powered().cut_at(0, Torn::Before)).unwrap();
    vault.forget_key();
    assert!(vault.next_cut().is_err(), "the flash is gone");
    assert_eq!(
        vault.recall_key(),
        Err(VaultError::Flash(FlashFault::Device))
    );
    assert_eq!(vault.key_state(), KeyState::Present);
}

#[test]
fn numbers_end() {
    let mut vault = open(blank()).unwrap();
    assert_eq!(vault.reserve(u64::MAX), Err(VaultError::Exhausted));
    assert_eq!(vault.reserve(u64::MAX - 1), Ok(u64::MAX));
    assert_eq!(vault.reserve(0), Err(VaultError::Exhausted));
}

#[test]
fn rotating_and_erasing_leave_nothing_of_the_key() {
    let mut vault = open(blank()).unwrap();
    let old = [0xc3; KEY_BYTES];
    vault.install_key(Key::new(&old)).unwrap();
    vault.reserve(0).unwrap();
    vault.arm(1).unwrap();
    assert!(vault.flash().holds(&old));
    vault.rotate_key(key(0x5a)).unwrap();
    assert!(!vault.flash().holds(&old));
    assert_eq!(vault.key().unwrap().bytes(), &[0x5a; KEY_BYTES]);
    assert_eq!((vault.generation(), vault.armed()), (1, None));
    vault.erase_key().unwrap();
    assert!(!vault.flash().holds(&[0x5a; KEY_BYTES]));
    assert_eq!(vault.key_state(), KeyState::Erased);
    let mut vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!(vault.key_state(), KeyState::Erased);
    assert_eq!(vault.reserve(0), Ok(2), "numbers go on");
    vault.install_key(key(1)).unwrap();
    let vault = open(vault.into_flash().powered()).unwrap();
    assert_eq!(vault.key_state(), KeyState::Present);
}

#[test]
fn keys_are_not_printed() {
    assert_eq!(format!("{:?}", key(0x41)), "Key(..)");
    let mut vault = open(blank()).unwrap();
    vault.install_key(key(0x41)).unwrap();
    let flash = vault.into_flash();
    let flash = SliceFlash::<_, BLOCK>::new(flash.bytes);
    let vault = Vault::open(flash, 0..LENGTH).unwrap();
    let text = format!("{vault:?}");
    assert!(text.contains("Key(..)"), "{text}");
    assert!(!text.contains("65, 65"), "the bytes of the key");
}

#[test]
fn what_is_not_a_vault_is_named_and_left_alone() {
    assert_eq!(refusal(vec![0; 4 * BLOCK]), VaultError::NotBacked);
    assert_eq!(refusal(vec![0x5a; 4 * BLOCK]), VaultError::Foreign);
    for offset in (4..4 * BLOCK).step_by(4) {
        let mut bytes = vec![0xff; 4 * BLOCK];
        bytes[offset] = 0;
        assert_eq!(refusal(bytes), VaultError::Foreign, "{offset}");
    }
    let mut bytes = vec![0; 4 * BLOCK];
    bytes[4 * BLOCK - 1] = 1;
    assert_eq!(refusal(bytes), VaultError::Foreign);
}

/// Somebody else's bank, whose last blocks are blank, is left alone; a vault stays one,
/// whoever moves in beside it.
#[test]
fn a_new_vault_is_made_only_where_nobody_else_is() {
    let mut flash = blank();
    let refused = Vault::open_shared(&mut flash, 0..LENGTH, |_| false).expect_err("refused");
    assert_eq!((refused, flash.steps), (VaultError::Foreign, 0));
    let vault = Vault::open_shared(flash, 0..LENGTH, |_| true).unwrap();
    let again = vault.into_flash().powered();
    assert!(Vault::open_shared(again, 0..LENGTH, |_| false).is_ok());
}

#[test]
fn a_damaged_vault_is_not_taken_for_a_new_one() {
    let mut vault = open(blank()).unwrap();
    vault.install_key(key(3)).unwrap();
    vault.rotate_key(key(4)).unwrap();
    let whole = vault.into_flash().bytes;
    // The count, the last item in the half, no longer checks.
    let end = whole.iter().rposition(|&byte| byte != 0xff).unwrap();
    let mut bytes = whole.clone();
    bytes[end - 3] ^= 1;
    assert_eq!(refusal(bytes), VaultError::Damaged);
    // Both halves say that they are the same epoch.
    let mut bytes = whole;
    bytes.copy_within(2 * BLOCK.., 0);
    assert_eq!(refusal(bytes), VaultError::Damaged);
}

#[test]
fn another_version_is_named() {
    // A header of version 3, made by the map itself.
    use sequential_storage::cache::Cache;
    use sequential_storage::map::{MapConfig, MapStorage};
    let flash = SliceFlash::<_, BLOCK>::new(vec![0xff; 4 * BLOCK]);
    let mut map =
        MapStorage::<u8, _, _>::new(flash, MapConfig::new(0..LENGTH / 2), Cache::new_uncached());
    let mut buffer = [0; 64];
    let value: &[u8] = b"PWVAULT\0\x03\0and whatever comes then";
    {
        let store = core::pin::pin!(map.store_item(&mut buffer, &1, &value));
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(matches!(
            Future::poll(store, &mut context),
            core::task::Poll::Ready(Ok(()))
        ));
    }
    let (flash, _) = map.destroy();
    let error = VaultError::Version { found: 3, known: 2 };
    assert_eq!(refusal(flash.into_inner()), error);
}

#[test]
fn a_range_that_is_not_four_blocks_is_refused() {
    for range in [0..LENGTH / 2, 4..LENGTH + 4, 0..LENGTH - 4, 0..LENGTH * 2] {
        let result = Vault::open(blank(), range);
        assert_eq!(result.err(), Some(VaultError::Range));
    }
    #[allow(clippy::reversed_empty_ranges, reason = "meant")]
    let result = Vault::open(blank(), LENGTH..0);
    assert_eq!(result.err(), Some(VaultError::Range));
    let result = Vault::open(blank(), LENGTH..2 * LENGTH);
    assert_eq!(result.err(), Some(VaultError::Range), "beyond the flash");
}

#[test]
fn the_vault_keeps_to_its_range() {
    let mut flash = Flash::new(vec![0xff; 7 * BLOCK]);
    flash.bytes[..2 * BLOCK].fill(0x11);
    flash.bytes[6 * BLOCK..].fill(0x22);
    let range = 2 * BLOCK as u32..6 * BLOCK as u32;
    let mut vault = Vault::open(flash, range.clone()).unwrap();
    for round in 0..200 {
        vault.reserve(0).unwrap();
        if round % 20 == 0 {
            vault.rotate_key(key(round as u8)).unwrap();
        }
    }
    let flash = vault.into_flash();
    assert!(flash.bytes[..2 * BLOCK].iter().all(|&byte| byte == 0x11));
    assert!(flash.bytes[6 * BLOCK..].iter().all(|&byte| byte == 0x22));
    assert_eq!(Vault::open(flash, range).unwrap().generation(), 200);
}

/// One step fails, the power stays on: the operation says so, the next one
/// works, and what it says is what the flash says.
#[test]
fn after_a_failed_step_the_next_operation_sets_things_right() {
    let mut failures = 0;
    for step in 0..200 {
        let mut vault = open(blank()).unwrap();
        vault.install_key(key(1)).unwrap();
        let mut flash = vault.into_flash().powered();
        flash.fail = Some((step, 1));
        let mut vault = open(flash).unwrap();
        for round in 0..8_u8 {
            let fault = VaultError::Flash(FlashFault::Device);
            let latest = vault.generation();
            match vault.reserve(0) {
                Ok(number) => assert!(number > latest),
                Err(error) => {
                    failures += 1;
                    assert_eq!(error, fault);
                    assert!(vault.generation() > latest, "that number is gone");
                    assert_eq!(vault.armed(), None);
                    assert!(vault.arm(vault.generation()).is_err());
                    vault.disarm().unwrap();
                    continue;
                }
            }
            let number = vault.generation();
            if let Err(error) = vault.arm(number) {
                failures += 1;
                assert_eq!((error, vault.armed()), (fault, None));
                vault.disarm().unwrap();
                let again = open(vault.flash().powered()).unwrap();
                assert_eq!(again.armed(), None, "step {step}");
            } else if let Err(error) = vault.rotate_key(key(round + 2)) {
                failures += 1;
                assert_eq!(error, fault);
                vault.rotate_key(key(round + 2)).unwrap();
            }
            let again = open(vault.flash().powered()).unwrap();
            assert_eq!(again.generation(), vault.generation());
            assert_eq!(again.armed(), vault.armed());
            assert_eq!(
                again.key().map(Key::bytes),
                vault.key().map(Key::bytes),
                "step {step}"
            );
            for old in 1..round + 2 {
                assert!(
                    !vault.flash().holds(&[old; KEY_BYTES])
                        || again.key().unwrap().bytes() == &[old; KEY_BYTES]
                );
            }
        }
    }
    assert_eq!(failures, 200, "each of these steps is one that was taken");
}

#[test]
fn writes_that_are_lost_are_noticed() {
    let live = |flash| {
        let mut vault = open(flash)?;
        vault.install_key(key(1))?;
        vault.reserve(0)?;
        Ok(vault.flash().steps)
    };
    for step in 0..live(blank()).unwrap() {
        let mut flash = blank();
        flash.loses_from = Some(step);
        let result = live(flash);
        assert!(
            matches!(result, Err(VaultError::NotKept { .. })),
            "step {step}: {result:?}"
        );
    }
    let mut flash = open(blank()).unwrap().into_flash().powered();
    flash.loses_from = Some(0);
    let mut vault = open(flash).unwrap();
    assert!(matches!(vault.erase_key(), Err(VaultError::NotKept { .. })));
}

#[cfg(feature = "std")]
#[test]
fn a_file_is_a_flash() {
    use poorwill_vault::FileFlash;
    let path = std::env::temp_dir().join(format!("poorwill-vault-{}", std::process::id()));
    std::fs::write(&path, vec![0xff; 4 * BLOCK]).unwrap();
    let reopen = || {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        Vault::open(FileFlash::<BLOCK>::new(file).unwrap(), 0..LENGTH).unwrap()
    };
    let mut vault = reopen();
    vault.install_key(key(1)).unwrap();
    for number in 1..100 {
        assert_eq!(vault.reserve(0), Ok(number));
    }
    drop(vault);
    let vault = reopen();
    assert_eq!(
        (vault.generation(), vault.key_state()),
        (99, KeyState::Present)
    );
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * BLOCK as u64);
    std::fs::remove_file(&path).unwrap();
}
