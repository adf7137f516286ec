//! HSM (SBI 3.0, chapter 9).

use poorwill_hart::{Resume, Task};
use sbi_spec::binary::SbiRet;
use sbi_spec::hsm::suspend_type::{NON_RETENTIVE, RETENTIVE};
use sbi_spec::hsm::{HART_GET_STATUS, HART_START, HART_STOP, HART_SUSPEND};

use super::Call;
use crate::arch;
use crate::hart::{self, this_hart};
use crate::platform::platform;

pub(super) fn call(call: Call) -> SbiRet {
    let [first, second, third, ..] = call.arguments;
    match call.function {
        HART_START => start(first, second, third),
        HART_STOP => stop(),
        HART_GET_STATUS => status(first),
        // The type is 32 bits wide.
        HART_SUSPEND => suspend(first as u32, second, third),
        _ => SbiRet::not_supported(),
    }
}

fn start(id: usize, address: usize, argument: usize) -> SbiRet {
    let Some(hart) = hart::find(id as u64) else {
        return SbiRet::invalid_param();
    };
    let Some(address) = super::executable(&platform().memory, address) else {
        return SbiRet::invalid_address();
    };
    let task = Task::Start(Resume {
        address,
        argument: argument as u64,
    });
    match hart.start(task) {
        Ok(()) => SbiRet::success(0),
        Err(_) => SbiRet::already_available(),
    }
}

fn stop() -> SbiRet {
    let hart = this_hart();
    match hart.hsm().stop() {
        Ok(()) => hart.wait(),
        Err(_) => SbiRet::failed(),
    }
}

fn status(id: usize) -> SbiRet {
    match hart::find(id as u64) {
        Some(hart) => SbiRet::success(hart.state() as usize),
        None => SbiRet::invalid_param(),
    }
}

/// Both default types wait for an interrupt here; the hart has no deeper state.
/// After the non-retentive one it goes on at `address`.
fn suspend(kind: u32, address: usize, argument: usize) -> SbiRet {
    let address = match kind {
        RETENTIVE => None,
        NON_RETENTIVE => match super::executable(&platform().memory, address) {
            Some(address) => Some(address),
            None => return SbiRet::invalid_address(),
        },
        // Platform-specific types are legal but not there; the rest is reserved.
        0x1000_0000..=0x7fff_ffff | 0x9000_0000.. => return SbiRet::not_supported(),
        _ => return SbiRet::invalid_param(),
    };
    let hart = this_hart();
    if hart.hsm().suspend().is_err() {
        return SbiRet::failed();
    }
    arch::wait_for_interrupt();
    hart.hsm()
        .resume()
        .expect("only this hart leaves the state");
    let Some(address) = address else {
        return SbiRet::success(0);
    };
    let resume = Resume {
        address,
        argument: argument as u64,
    };
    // SAFETY: the address was checked, and this hart's call chain ends here.
    unsafe { arch::enter(resume, hart.stack_top()) }
}
