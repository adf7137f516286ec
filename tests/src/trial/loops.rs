//! Two domains on the machine of a trial.

use std::fs;
use std::path::Path;

use poorwill_machine::Machine;

/// Source of the domains, of 32 MiB each: the first one on hart 0 at the start of memory, the other
/// one on hart 1 behind it. Their second arguments point to zeros, so they have no device tree.
pub(super) const SOURCE: &str = "
/ { chosen { opensbi-domains { compatible = \"opensbi,domain,config\";
    ram0: ram0 { compatible = \"opensbi,domain,memregion\"; base = <0 0x80000000>; order = <25>; };
    ram1: ram1 { compatible = \"opensbi,domain,memregion\"; base = <0 0x82000000>; order = <25>; };
    side0: side0 { compatible = \"opensbi,domain,instance\"; possible-harts = <&{/cpus/cpu@0}>;
        regions = <&ram0 0x3f>; boot-hart = <&{/cpus/cpu@0}>; next-addr = <0 0x80200000>;
        next-arg1 = <0 0x80300000>; };
    side1: side1 { compatible = \"opensbi,domain,instance\"; possible-harts = <&{/cpus/cpu@1}>;
        regions = <&ram1 0x3f>; boot-hart = <&{/cpus/cpu@1}>; next-addr = <0 0x82200000>;
        next-arg1 = <0 0x82300000>; }; }; };
  cpus { cpu@0 { opensbi-domain = <&side0>; }; cpu@1 { opensbi-domain = <&side1>; }; }; };
";

/// The places of their programs.
const PROGRAMS: [u64; 2] = [0x8020_0000, 0x8220_0000];

/// An endless loop: `j 0`.
const LOOP: u32 = 0x0000_006f;

/// Loads the domains' programs.
pub(super) fn load(machine: &mut Machine, folder: &Path) -> std::io::Result<()> {
    let file = folder.join("loop");
    fs::write(&file, LOOP.to_le_bytes())?;
    for address in PROGRAMS {
        machine.load(&file, address);
    }
    Ok(())
}
