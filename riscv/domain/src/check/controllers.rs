//! Interrupt controllers: a domain's messages must reach its own harts alone.

use arrayvec::ArrayVec;
use poorwill_devicetree::{
    Aplic, DomainNode, Hart, ImsicLayout, MAX_DOMAINS, MAX_PARTITION_HARTS, Machine,
};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::scene::{Scene, ordered_pairs, pairs};
use super::unfenced::Unfenced;

/// Domains that take external interrupts.
type Takers<'a> = ArrayVec<&'a DomainNode, MAX_DOMAINS>;

/// Names each interrupt controller that lets a domain interrupt another one's harts. A domain that
/// takes no external interrupts cannot be interrupted.
pub(super) fn look(scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    let machine = scene.facts.machine;
    let takes = |domain: &&DomainNode| scene.kept.takes_interrupts(domain, machine);
    let takers: Takers<'_> = scene.partition.domains.iter().filter(takes).collect();
    if takers.len() < 2 {
        return;
    }
    for plic in &machine.interrupts.plics {
        tell(Unfenced::Plic { base: plic.base });
    }
    for domain in &takers {
        for hart in &domain.harts {
            if file_of(machine, *hart).is_none() {
                tell(Unfenced::NoImsic {
                    domain: domain.name,
                    hart: *hart,
                });
            }
        }
    }
    for node in &machine.interrupts.os_imsics {
        look_at_node(&takers, machine, node, tell);
    }
    for aplic in &machine.interrupts.os_aplics {
        look_at_aplic(&takers, scene, aplic, tell);
    }
    for (domain, other) in ordered_pairs(&takers) {
        foreign_files(domain, other, scene, tell);
    }
    for (domain, other) in pairs(&takers) {
        near_files(domain, other, machine, tell);
    }
}

fn look_at_node(
    takers: &Takers<'_>,
    machine: &Machine,
    node: &ImsicLayout,
    tell: &mut dyn FnMut(Unfenced),
) {
    if node.group_bits > 0 {
        tell(Unfenced::JointImsic { base: node.base });
        return;
    }
    for (domain, other) in pairs(takers) {
        if [domain, other].map(|one| reaches(node, one, machine)) == [true; 2] {
            tell(Unfenced::SharedImsic {
                base: node.base,
                domain: domain.name,
                other: other.name,
            });
        }
    }
}

fn look_at_aplic(
    takers: &Takers<'_>,
    scene: &Scene<'_>,
    aplic: &Aplic,
    tell: &mut dyn FnMut(Unfenced),
) {
    let machine = scene.facts.machine;
    let Some(node) = machine.interrupts.os_imsic_of(aplic) else {
        tell(Unfenced::DirectAplic { base: aplic.base });
        return;
    };
    for (domain, other) in ordered_pairs(takers) {
        let is_its = scene.kept.first_access(domain, aplic.registers()).is_some();
        if is_its && reaches(node, other, machine) {
            tell(Unfenced::ForeignAplic {
                base: aplic.base,
                domain: domain.name,
                other: other.name,
            });
        }
    }
}

/// Names the harts of `other` whose interrupt files `domain` may access.
fn foreign_files(
    domain: &DomainNode,
    other: &DomainNode,
    scene: &Scene<'_>,
    tell: &mut dyn FnMut(Unfenced),
) {
    let machine = scene.facts.machine;
    for hart in &other.harts {
        let Some(file) = file_of(machine, *hart) else {
            continue;
        };
        let Some(guest_bits) = hart_of(machine, *hart)
            .and_then(|hart| hart.os_imsic)
            .map(|file| file.guest_bits)
        else {
            continue;
        };
        let files = PhysRange::new(file, PAGE_BYTES << guest_bits.min(7));
        if let Some(start) = scene.kept.first_access(domain, files) {
            tell(Unfenced::ForeignFile {
                domain: domain.name,
                hart: *hart,
                start,
            });
        }
    }
}

/// Bytes of the files that a guest index of an APLIC's target can name (AIA, 4.5.16). The index is
/// part of the hart's address if the hardware adds it and the tree has no guest files.
const GUEST_INDEX_BYTES: u64 = 64 * PAGE_BYTES;

/// Names the first two files of two domains that a guest index may confuse.
fn near_files(
    domain: &DomainNode,
    other: &DomainNode,
    machine: &Machine,
    tell: &mut dyn FnMut(Unfenced),
) {
    let files = |domain: &DomainNode| {
        let files = domain.harts.iter().map(|hart| file_of(machine, *hart));
        files
            .flatten()
            .collect::<ArrayVec<u64, MAX_PARTITION_HARTS>>()
    };
    let theirs = files(other);
    for file in files(domain) {
        let mut near = theirs
            .iter()
            .filter(|their| file.abs_diff(**their) < GUEST_INDEX_BYTES);
        if let Some(other_file) = near.next() {
            return tell(Unfenced::NearImsic {
                domain: domain.name,
                other: other.name,
                file,
                other_file: *other_file,
            });
        }
    }
}

/// Returns whether messages of the node can reach a hart of the domain.
fn reaches(node: &ImsicLayout, domain: &DomainNode, machine: &Machine) -> bool {
    let mut harts = domain.harts.iter();
    harts.any(|hart| file_of(machine, *hart).is_some_and(|file| node.reaches(file)))
}

/// Address of a hart's S-level interrupt files.
fn file_of(machine: &Machine, hart: u64) -> Option<u64> {
    Some(hart_of(machine, hart)?.os_imsic?.address)
}

fn hart_of(machine: &Machine, id: u64) -> Option<&Hart> {
    machine.harts.iter().find(|hart| hart.id == id)
}
