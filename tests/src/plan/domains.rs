//! The domains of a row's machine.

use serde::Deserialize;

/// A domain of a machine with sockets, by its guest. The first domain has the console's UART, and
/// the last one puts the machine to sleep.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// The hostile guest (`tests/hostile`).
    Hostile(Role),
    /// The critical guest (`guest/critical`), on the last socket. It wakes first.
    Critical(Critical),
    /// The tiny Linux.
    Linux(Linux),
}

/// What the hostile guest does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Tries to reach what is not its own.
    Attack,
    /// Watches its memory and its interrupts.
    Watch,
    /// Watches a device, too.
    WatchDevice,
    /// Parks, with a timer that is due after these units of 100 ns.
    Park(u64),
    /// Puts the machine to sleep, as above.
    Master(u64),
    /// Asks for a reset without the right to it.
    Reset,
    /// The same, while another hart asks for a sleep.
    ResetAmidSleep,
    /// Says which accesses fault.
    Probe,
    /// Waits.
    Idle,
    /// Floods the console with lines of its own, and of the firmware.
    Flood,
    /// Reads the clock, and tries to set its alarm.
    Clock,
    /// Ends while its device writes to its memory.
    ResetAmidDma,
    /// Tries by a disk to reach what is not its own.
    AttackByDisk,
    /// Is refused more often than the IOMMU's queue holds.
    Overflow,
    /// Stops the only hart that runs.
    Stop,
    /// Begins a line on the console, and does not end it.
    BeginLine,
    /// Two further harts start each other, and the first one parks as above: each time no other hart
    /// may run on.
    Race(u64),
    /// Parks and wakes without a pause.
    Storm,
    /// Parks as above, and after each sleep starts another hart, which must run soon.
    Start(u64),
    /// Puts the machine to sleep as above, and has 16 MiB in use.
    LargeMaster(u64),
    /// Parks as above, and has 16 MiB in use.
    LargePark(u64),
    /// Asks for the machine's sleep until it was refused this number of times, and says how long the
    /// longest refusal took.
    Ask(u64),
    /// Sleeps with the machine, again and again: for [`Step::Cuts`](super::Step::Cuts). Asks for that
    /// this time after its line, in which another domain's progress bar may hold the line back.
    Endure(u64),
}

impl Role {
    /// Whether it has the devices below the bridge.
    pub(crate) fn is_attacker(self) -> bool {
        matches!(
            self,
            Role::Attack | Role::ResetAmidDma | Role::AttackByDisk | Role::Overflow
        )
    }
}

/// The critical guest's settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critical {
    /// Time after which its timer ends a sleep. Unset: a byte on its serial line does.
    pub wake_after_ms: Option<u32>,
    /// Microseconds that each heartbeat works.
    #[serde(default)]
    pub load_us: u32,
    /// The part of its socket's memory that it has beside a Linux. Unset: all.
    pub uses: Option<String>,
}

/// A Linux's settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linux {
    /// Its command line.
    pub words: String,
    /// Bytes of its disk. Unset: it has none.
    pub disk: Option<String>,
    /// Or the length of a sleep area on its disk.
    pub area: Option<String>,
    /// Its socket's number of harts, if it differs from the row's.
    pub harts: Option<u32>,
    /// Its socket's memory, if it differs from the row's.
    pub memory: Option<String>,
    /// The part of that which it has. Unset: all.
    pub uses: Option<String>,
}

/// The PCI devices of a machine with hostile domains. A bridge has the attacker's device below it,
/// and the other domain has a device on the first bus.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bus {
    /// QEMU's argument for the bridge, whose ID is `bridge`.
    pub bridge: String,
    /// QEMU's arguments for the devices below it.
    pub below: Vec<String>,
    /// The attacker's register of addresses, as an entry of `poorwill,functions`.
    pub function: String,
}

impl Default for Bus {
    fn default() -> Self {
        Bus {
            bridge: "pci-bridge,id=bridge,chassis_nr=1,addr=1".into(),
            below: vec!["edu,addr=1,dma_mask=0xffffffffff".into()],
            function: "0x02010810 0 0x50000000 0 0x100000".into(),
        }
    }
}

/// Contents of memory at each power-on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Their address.
    pub at: u64,
    /// The hostile guest's program.
    #[serde(default)]
    pub hostile: bool,
    /// Or these words.
    #[serde(default)]
    pub words: Vec<u64>,
    /// Or these instructions.
    #[serde(default)]
    pub code: Vec<u32>,
    /// Or this text.
    #[serde(default)]
    pub text: String,
}

impl Load {
    /// All contents but the program.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = self.words.iter().flat_map(|word| word.to_le_bytes());
        let code = self.code.iter().flat_map(|code| code.to_le_bytes());
        words.chain(code).chain(self.text.bytes()).collect()
    }
}
