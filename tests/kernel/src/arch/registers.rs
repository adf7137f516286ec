//! SBI calls with a different value in every register, and the registers after the call.

use super::guard;
use core::arch::naked_asm;

/// x0 to x31. The entry of x2, the stack pointer, is not used: the kernel could not continue
/// after a call that changed it.
pub(crate) type Registers = [usize; 32];

/// How a call came back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// The registers.
    pub(crate) x: Registers,
    /// `sepc`: zero unless there was a trap.
    sepc: usize,
    /// `scause`
    pub(crate) scause: usize,
    /// `stval`
    pub(crate) stval: usize,
    /// Where the call is.
    place: usize,
}

impl Returned {
    /// Whether the call ended in a trap of the caller's, at the call itself.
    pub(crate) fn has_faulted(&self) -> bool {
        self.sepc == self.place
    }

    /// Whether it ended in one elsewhere.
    pub(crate) fn has_gone_astray(&self) -> bool {
        ![0, self.place].contains(&self.sepc)
    }

    /// The registers that do not hold what they did in `before`, but for `may_change`.
    pub(crate) fn changed<'a>(
        &'a self,
        before: &'a Registers,
        may_change: &'a [usize],
    ) -> impl Iterator<Item = usize> + 'a {
        const STACK_POINTER: usize = 2;
        let same = move |x: &usize| self.x[*x] == before[*x] || may_change.contains(x);
        (1..32).filter(move |x| *x != STACK_POINTER && !same(x))
    }
}

/// Makes the call that `x` says, in a7 and so on. Who calls leaves out what would write to
/// memory that is ours, or end this hart.
pub(crate) fn call(x: &Registers) -> Returned {
    guard::ensure_quiet();
    let mut returned = Returned {
        x: [0; 32],
        sepc: 0,
        scause: 0,
        stval: 0,
        place: 0,
    };
    // SAFETY: as the caller says; every register is restored, and a trap continues after the call.
    unsafe { make(x, &mut returned) };
    returned
}

#[unsafe(naked)]
unsafe extern "C" fn make(x: &Registers, returned: &mut Returned) {
    naked_asm!(
        // The caller's registers, by number. The slots of t0 and t1 hold a1 and stvec.
        "addi   sp, sp, -256",
        ".irp n, 1,3,4,8,9,18,19,20,21,22,23,24,25,26,27",
        "sd     x\\n, 8*\\n(sp)",
        ".endr",
        "sd     a1, 8*5(sp)",
        "la     t0, 3f",
        "csrrw  t0, stvec, t0",
        "sd     t0, 8*6(sp)",
        "csrw   sepc, zero",
        ".irp n, 1,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,10",
        "ld     x\\n, 8*\\n(a0)",
        ".endr",
        ".balign 4",
        "2:",
        "ecall",
        ".balign 4",
        "3:",
        "addi   sp, sp, -256",
        ".irp n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "sd     x\\n, 8*\\n(sp)",
        ".endr",
        "ld     a1, 256+8*5(sp)",
        ".irp n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "ld     t0, 8*\\n(sp)",
        "sd     t0, 8*\\n(a1)",
        ".endr",
        "addi   sp, sp, 256",
        "csrr   t0, sepc",
        "sd     t0, 8*32(a1)",
        "csrr   t0, scause",
        "sd     t0, 8*33(a1)",
        "csrr   t0, stval",
        "sd     t0, 8*34(a1)",
        "la     t0, 2b",
        "sd     t0, 8*35(a1)",
        "ld     t0, 8*6(sp)",
        "csrw   stvec, t0",
        ".irp n, 1,3,4,8,9,18,19,20,21,22,23,24,25,26,27",
        "ld     x\\n, 8*\\n(sp)",
        ".endr",
        "addi   sp, sp, 256",
        "ret",
    )
}
