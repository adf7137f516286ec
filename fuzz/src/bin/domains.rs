//! Partitions: any blob has one, has none, or is refused. One that is read keeps its promises, and
//! can be checked.
#![cfg_attr(fuzzing, no_main)]

use poorwill_devicetree::{DomainNode, Machine, Partition, PciWiring, open};
use poorwill_domain::KeptRanges;
use poorwill_domain::check::{Facts, check, findings, unseen};
use poorwill_domain::pmp::Pmp;
use poorwill_memory::PhysRange;
use poorwill_pci::Function;

poorwill_fuzz::target!(max_len = 16384, run);

const PMP: Pmp = Pmp {
    entries: 16,
    granularity_bits: 12,
};

const FIRMWARE: PhysRange = PhysRange {
    start: 0x8000_0000,
    end: 0x801c_0000,
};

const DISK: Function = Function {
    bus: 0,
    device: 3,
    function: 0,
};

fn run(blob: &[u8]) {
    let Ok(Some(partition)) = Partition::read(blob) else {
        return;
    };
    assert_eq!(Partition::read(blob), Ok(Some(partition.clone())));
    assert_eq!(partition.digest(), partition.clone().digest());
    compare_domains(&partition);
    partition.domains.iter().for_each(look_at_spans);
    // Machine mode's functions are on the first bus.
    let mut own = partition.functions.iter();
    assert!(own.all(|one| one.function.bus == 0 && one.buses.is_none()));
    let Ok(machine) = Machine::read(blob) else {
        return;
    };
    let facts = Facts {
        machine: &machine,
        wiring: open(blob).and_then(|tree| PciWiring::first(&tree)),
        tree: open(blob),
        firmware: &[FIRMWARE],
        pmp: Some(PMP),
        sleep_disks: Some(&[DISK]),
    };
    if let Ok(kept) = KeptRanges::new(&partition, &machine, &[FIRMWARE]) {
        (partition.domains.iter()).for_each(|domain| look_at_kept(domain, &kept));
    }
    let mut count = 0;
    findings(&partition, &facts, &mut |finding| {
        assert!(!finding.to_string().is_empty());
        count += 1;
    });
    assert_eq!(check(&partition, &facts).is_ok(), count == 0);
    assert!(unseen(&partition, &facts).count() < 8);
}

/// No two domains share a hart, a name or a wake order, and at most one is the master.
fn compare_domains(partition: &Partition) {
    let domains = &partition.domains;
    assert!(domains.iter().filter(|domain| domain.may_suspend).count() <= 1);
    for (place, domain) in domains.iter().enumerate() {
        assert!(domain.harts.is_sorted() && domain.harts.contains(&domain.boot_hart));
        for other in &domains[place + 1..] {
            assert!(domain.wake_order < other.wake_order && domain.name != other.name);
            assert!(!other.harts.iter().any(|hart| domain.harts.contains(hart)));
        }
        for hart in &domain.harts {
            assert_eq!(partition.domain_of(*hart), Some(domain));
        }
    }
}

/// No kept range is open.
fn look_at_kept(domain: &DomainNode, kept: &KeptRanges) {
    let mut end = 0;
    for span in kept.spans(domain) {
        assert!(end <= span.range.start && span.range.start < span.range.end);
        end = span.range.end;
        assert!(
            !kept
                .ranges()
                .iter()
                .any(|range| range.overlaps(&span.range))
        );
        assert!(!span.range.overlaps(&FIRMWARE));
    }
}

/// Spans ascend, and have the permissions of the regions there.
fn look_at_spans(domain: &DomainNode) {
    let spans = domain.spans();
    let mut end = 0;
    for span in &spans {
        assert!(end <= span.range.start && span.range.start < span.range.end);
        end = span.range.end;
        for address in [span.range.start, span.range.end - 1] {
            assert_eq!(domain.permissions_at(address), span.permissions);
        }
    }
    for region in &domain.regions {
        let is_in_span = spans.iter().any(|span| span.range.contains(region.base));
        assert_eq!(domain.permissions_at(region.base).opens(), is_in_span);
    }
}
