//! Finds QEMU's functions by name at run time. So tests load this crate without QEMU, and the error
//! for a missing function names it.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("this QEMU has no symbol `{0}`")]
pub(crate) struct MissingSymbol(String);

/// Address of a symbol of the running program.
pub(crate) fn find(name: &CStr) -> Result<NonNull<c_void>, MissingSymbol> {
    // SAFETY: it only looks up a name, which ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    NonNull::new(address).ok_or_else(|| MissingSymbol(name.to_string_lossy().into_owned()))
}

/// Defines a structure of QEMU's functions, each named like its field, and `find`, which fills it.
macro_rules! functions {
    (
        $(#[$about:meta])*
        struct $table:ident {
            $(fn $name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn find() -> Result<Self, $crate::qemu::symbols::MissingSymbol> {
                $(
                    let name = concat!(stringify!($name), "\0");
                    let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes());
                    let name = name.expect("the only zero byte is the last");
                    let address = $crate::qemu::symbols::find(name)?;
                    // SAFETY: a QEMU of the version that this crate was written for has a function
                    // of this type under this name.
                    let $name = unsafe {
                        std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >(address.as_ptr())
                    };
                )*
                Ok($table { $($name),* })
            }
        }
    };
}

pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(find(c"malloc").is_ok());
        let missing = find(c"tcg_handle_interrupt").expect_err("no QEMU here");
        assert_eq!(
            missing.to_string(),
            "this QEMU has no symbol `tcg_handle_interrupt`"
        );
    }
}
