use thiserror::Error;

/// What identifies a machine across power cycles: one hash ([`crate::PageHasher`]) for each
/// aspect, computed by the firmware from its device tree. An image wakes only on a machine
/// with the same four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    /// The ranges of OS memory.
    pub memory: u64,
    /// The harts and their ids.
    pub harts: u64,
    /// The instruction set of each hart.
    pub isa: u64,
    /// The device tree that the OS was given.
    pub device_tree: u64,
}

/// How an image's machine differs from this one: the first difference found, in the order
/// of how much they explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// Other ranges of OS memory.
    #[error("another memory map")]
    MemoryMap,
    /// More, fewer or other harts.
    #[error("other harts")]
    Harts,
    /// Another instruction set.
    #[error("another instruction set")]
    Isa,
    /// Other devices, or the same ones elsewhere.
    #[error("another device tree")]
    DeviceTree,
}

impl MachineIdentity {
    /// Whether an image of machine `self` may wake on machine `here`.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn compare(&self, here: &MachineIdentity) -> Result<(), Difference> {
        let aspects = [
            // First, as the firmware's memory, and thus the OS's, depends on them.
            (self.harts, here.harts, Difference::Harts),
            (self.memory, here.memory, Difference::MemoryMap),
            (self.isa, here.isa, Difference::Isa),
            (self.device_tree, here.device_tree, Difference::DeviceTree),
        ];
        match aspects.iter().find(|(image, machine, _)| image != machine) {
            Some(&(_, _, difference)) => Err(difference),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: MachineIdentity = MachineIdentity {
        memory: 1,
        harts: 2,
        isa: 3,
        device_tree: 4,
    };

    #[test]
    fn names_the_first_difference() {
        assert_eq!(HERE.compare(&HERE), Ok(()));
        let harts = MachineIdentity {
            memory: 9,
            harts: 9,
            ..HERE
        };
        assert_eq!(harts.compare(&HERE), Err(Difference::Harts));
        let memory = MachineIdentity {
            memory: 9,
            isa: 9,
            ..HERE
        };
        assert_eq!(memory.compare(&HERE), Err(Difference::MemoryMap));
        let isa = MachineIdentity {
            isa: 9,
            device_tree: 9,
            ..HERE
        };
        assert_eq!(isa.compare(&HERE), Err(Difference::Isa));
        let tree = MachineIdentity {
            device_tree: 9,
            ..HERE
        };
        assert_eq!(tree.compare(&HERE), Err(Difference::DeviceTree));
    }
}
