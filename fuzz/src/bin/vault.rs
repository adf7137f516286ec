//! The vault: flash of any contents is a vault, or is refused and left alone;
//! and no number is ever given twice.
#![cfg_attr(fuzzing, no_main)]
#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use poorwill_fuzz::{Cases, Input};
use poorwill_vault::{BLOCKS, Key, KeyState, RollbackCounter, SliceFlash, Vault, VaultError};

poorwill_fuzz::target!(max_len = 2048, run);

/// Small blocks fill up soon.
const BLOCK: usize = 1024;

const FLASH: usize = BLOCK * BLOCKS as usize;

type Flash = SliceFlash<Vec<u8>, BLOCK>;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut flash = vec![if input.one_in(8) { 0 } else { 0xff }; FLASH];
    for _ in 0..=input.below(3) {
        if input.one_in(2) {
            damage(&mut flash, &mut input);
        }
        let before = flash.clone();
        flash = match open(flash) {
            Ok(vault) => live(vault, &mut input),
            Err(error) => {
                assert!(is_refusal(error), "{error}");
                before
            }
        };
    }
}

fn open(flash: Vec<u8>) -> Result<Vault<Flash>, VaultError> {
    let kept = flash.clone();
    let mut flash = flash;
    // The flash itself is gone when it is refused: look at a borrowed one first.
    let looked =
        Vault::open(SliceFlash::<_, BLOCK>::new(&mut flash[..]), 0..FLASH as u32).map(drop);
    if let Err(error) = looked {
        assert!(flash == kept, "what was refused was written to: {error}");
        return Err(error);
    }
    Vault::open(Flash::new(flash), 0..FLASH as u32)
}

fn is_refusal(error: VaultError) -> bool {
    matches!(
        error,
        VaultError::NotBacked
            | VaultError::Foreign
            | VaultError::Damaged
            | VaultError::Version { .. }
    )
}

/// Overwrites some words, each wholly or by clearing bits.
fn damage(flash: &mut [u8], input: &mut Input<'_>) {
    for _ in 0..input.below(12) {
        let length = 1 + input.below(16) as usize;
        let start = match input.below(4) {
            // The beginnings of the halves, where most is.
            0 => 0,
            1 => FLASH / 2,
            _ => input.below(FLASH as u64) as usize,
        } + input.below(64) as usize;
        for byte in flash.iter_mut().skip(start).take(length) {
            *byte = if input.one_in(2) {
                input.any()
            } else {
                *byte & input.any::<u8>()
            };
        }
    }
}

/// Uses a vault for a while, as one that is what it says. What was damaged may
/// show when it is written to: then the operation fails, and works the second
/// time.
fn live(mut vault: Vault<Flash>, input: &mut Input<'_>) -> Vec<u8> {
    for _ in 0..input.below(24) {
        match input.below(6) {
            0 | 1 => sleep(&mut vault, input),
            2 => {
                twice(|| vault.disarm());
                assert_eq!(vault.armed(), None);
            }
            3 if vault.key().is_none() => {
                let key = [input.any(); 32];
                twice(|| vault.install_key(Key::new(&key)));
            }
            4 => {
                let key = [input.any::<u8>(); 32];
                if twice(|| vault.rotate_key(Key::new(&key))).is_some() {
                    assert_eq!(vault.armed(), None);
                    assert!(vault.key().is_some_and(|now| *now.bytes() == key));
                }
            }
            _ => {
                if twice(|| vault.erase_key()).is_some() {
                    assert_eq!((vault.armed(), vault.key_state()), (None, KeyState::Erased));
                }
            }
        }
    }
    let told = say(&vault);
    let flash = vault.into_flash().into_inner();
    let again = open(flash).expect("a vault that was in use");
    assert_eq!(
        say(&again),
        told,
        "it says something else when it is opened again"
    );
    again.into_flash().into_inner()
}

fn sleep(vault: &mut Vault<Flash>, input: &mut Input<'_>) {
    let last = vault.generation();
    let Some(number) = twice(|| vault.reserve(0)) else {
        return;
    };
    assert!(number > last);
    assert_eq!((vault.generation(), vault.armed()), (number, None));
    if input.one_in(2) && twice(|| vault.arm(number)).is_some() {
        assert_eq!(vault.armed(), Some(number));
    }
}

/// Does something, and again if the flash did not keep it; `None` when there is
/// no number left, as a damaged vault may say.
fn twice<T>(mut operation: impl FnMut() -> Result<T, VaultError>) -> Option<T> {
    let mut result = operation();
    if let Err(VaultError::NotKept { .. }) = result {
        result = operation();
    }
    match result {
        Ok(value) => Some(value),
        Err(VaultError::Exhausted) => None,
        Err(error) => panic!("{error}"),
    }
}

fn say(vault: &Vault<Flash>) -> (u64, Option<u64>, KeyState, Option<[u8; 32]>) {
    (
        vault.generation(),
        vault.armed(),
        vault.key_state(),
        vault.key().map(|key| *key.bytes()),
    )
}
