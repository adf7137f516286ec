//! The example's device tree, and trees that lack something.

use poorwill_critical::{Board, BoardError, Function};

#[path = "../../../riscv/devicetree/tests/dtc/mod.rs"]
mod dtc;

/// Compiles the example with `more` source after it.
fn tree(more: &str) -> Vec<u8> {
    let source = include_str!("../critical.dts").to_owned() + more;
    dtc::compile(&source)
}

#[test]
fn the_example_is_read() {
    let board = Board {
        timebase: 10_000_000,
        has_sstc: true,
        hart_index: 0,
        aplic: 0xd00_8000,
        can: Function {
            bars: [0x300_1000, 0x300_1080],
            source: 32,
        },
        serial: Function {
            bars: [0x300_1108, 0],
            source: 33,
        },
        wake_after_ms: Some(500),
        load_us: 0,
    };
    assert_eq!(Board::read(&tree(""), 2), Ok(board));
    let older = "&hart2 { }; &{/cpus/cpu@2} { riscv,isa-extensions = \"i\", \"sstcx\"; };
        /delete-node/ &{/chosen};";
    let bare = Board {
        has_sstc: false,
        wake_after_ms: None,
        ..board
    };
    assert_eq!(Board::read(&tree(older), 2), Ok(bare));
}

#[test]
fn a_harts_index_is_its_place_among_s_mode_interrupts() {
    let second = "&{/cpus} { cpu@3 { reg = <3>; riscv,isa-extensions = \"i\", \"sstc\";
        hart3: interrupt-controller { #interrupt-cells = <1>; interrupt-controller; }; }; };
        &imsic { interrupts-extended = <&hart2 9>, <&hart3 9>; };";
    let board = Board::read(&tree(second), 3).expect("a second hart");
    assert_eq!((board.hart_index, board.has_sstc), (1, true));
}

#[test]
fn each_lack_is_named() {
    let lacks = [
        (
            "&imsic { interrupts-extended = <&hart2 11>; };",
            BoardError::NoImsic(2),
        ),
        (
            "&imsic { riscv,group-index-bits = <1>; };",
            BoardError::SharedImsic,
        ),
        (
            "&aplic { /delete-property/ msi-parent; };",
            BoardError::NoAplic,
        ),
        (
            "&{/cpus} { timebase-frequency = <999>; };",
            BoardError::NoTimebase,
        ),
        (
            "&{/soc/can@3001000} { interrupts = <0 4>; };",
            BoardError::NoFunction("pci10e8,8406", 2),
        ),
        (
            "/delete-node/ &{/soc/serial@3001108};",
            BoardError::NoFunction("pci1b36,2", 1),
        ),
    ];
    for (more, error) in lacks {
        assert_eq!(Board::read(&tree(more), 2), Err(error), "{more}");
    }
    assert_eq!(Board::read(&tree(""), 0), Err(BoardError::NoHart(0)));
    let mut damaged = tree("");
    damaged.truncate(100);
    assert_eq!(Board::read(&damaged, 2), Err(BoardError::Damaged));
}
