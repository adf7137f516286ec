use thiserror::Error;

/// The identity of a machine across power cycles: one hash ([`crate::PageHasher`]) for
/// each aspect, computed by the firmware from its device tree. An image only wakes on a
/// machine with the same four hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    /// The ranges of OS memory.
    pub memory: u64,
    /// The harts and their ids.
    pub harts: u64,
    /// The instruction set of each hart.
    pub isa: u64,
    /// The device tree for the OS.
    pub device_tree: u64,
}

/// A difference between an image's machine and this one. If there are several, the one
/// that explains most is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// The ranges of OS memory differ.
    #[error("another memory map")]
    MemoryMap,
    /// The harts differ.
    #[error("other harts")]
    Harts,
    /// The instruction sets differ.
    #[error("another instruction set")]
    Isa,
    /// The devices or their addresses differ.
    #[error("another device tree")]
    DeviceTree,
}

impl MachineIdentity {
    /// Checks that an image of machine `self` may wake on machine `here`.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn compare(&self, here: &MachineIdentity) -> Result<(), Difference> {
        let aspects = [
            // Harts come first: the layout of memory depends on them.
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
