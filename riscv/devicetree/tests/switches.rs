//! What resets machines, and switches them off.

use poorwill_devicetree::{Drive, GpioSwitch, Machine, Switch, Switches};

mod dtc;

/// The switches of `sifive_u` with more of its tree in the source form.
fn switches(more: &str) -> Switches {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/machines/sifive-u.dts"].join("/");
    let source = std::fs::read_to_string(path).unwrap() + more;
    Machine::read(&dtc::compile(&source)).unwrap().switches
}

/// The pin of the machine's `gpio-restart`.
const RESET: GpioSwitch = GpioSwitch {
    controller: 0x1006_0000,
    pin: 10,
    is_active_low: true,
    drive: Drive::Both,
    active_ms: 100,
    inactive_ms: 100,
    wait_ms: 3000,
};

fn off(properties: &str) -> String {
    format!("/ {{ power-off {{ compatible = \"gpio-poweroff\"; {properties} }}; }};")
}

#[test]
fn a_pin_resets_the_machine() {
    let found = switches("");
    assert_eq!(found.reset, Some(Switch::Gpio(RESET)));
    assert_eq!((found.power_off, found.errors.len()), (None, 0));
    let delays =
        "/ { gpio-restart { active-delay = <1>; inactive-delay = <2>; wait-delay = <3>; }; };";
    let delayed = GpioSwitch {
        active_ms: 1,
        inactive_ms: 2,
        wait_ms: 3,
        ..RESET
    };
    assert_eq!(switches(delays).reset, Some(Switch::Gpio(delayed)));
}

#[test]
fn a_pin_switches_the_power_off() {
    for (properties, expected) in [
        (
            "gpios = <8 15 0>;",
            GpioSwitch {
                pin: 15,
                is_active_low: false,
                ..RESET
            },
        ),
        (
            "gpios = <8 15 7>;",
            GpioSwitch {
                pin: 15,
                drive: Drive::Low,
                ..RESET
            },
        ),
        (
            "gpios = <8 15 3>;",
            GpioSwitch {
                pin: 15,
                drive: Drive::High,
                ..RESET
            },
        ),
        (
            "gpios = <8 15 1>; open-source;",
            GpioSwitch {
                pin: 15,
                drive: Drive::High,
                ..RESET
            },
        ),
        (
            "gpios = <8 15 1>; active-delay-ms = <4>; inactive-delay-ms = <5>; timeout-ms = <6>;",
            GpioSwitch {
                pin: 15,
                active_ms: 4,
                inactive_ms: 5,
                wait_ms: 6,
                ..RESET
            },
        ),
    ] {
        let found = switches(&off(properties));
        assert_eq!(
            found.power_off,
            Some(Switch::Gpio(expected)),
            "{properties}"
        );
        assert_eq!(found.errors.len(), 0);
    }
}

#[test]
fn a_register_comes_before_a_pin() {
    let syscon =
        "/ { soc { test: test@100000 { reg = <0 0x100000 0 0x1000>; phandle = <0x99>; }; };
        REBOOT { compatible = \"syscon-reboot\"; regmap = <0x99>; offset = <0>; value = <7>; }; };";
    // In both orders.
    for name in ["a-reboot", "z-reboot"] {
        let found = switches(&syscon.replace("REBOOT", name));
        assert!(matches!(found.reset, Some(Switch::Syscon(one)) if one.value == 7));
    }
    let first = "/ { gpio-restart { gpios = <8 10 1>; }; b-restart { compatible = \"gpio-restart\"; gpios = <8 3 0>; }; };";
    assert_eq!(switches(first).reset, Some(Switch::Gpio(RESET)));
}

#[test]
fn a_pin_that_cannot_be_used_is_named_and_absent() {
    for (more, message) in [
        (
            off("gpios = <8 15>;"),
            "power-off: `gpios` is not a phandle, a pin and flags; the node is ignored",
        ),
        (off(""), "power-off: `gpios` is not a phandle"),
        (
            off("gpios = <0x77 15 0>;"),
            "power-off: no node has the phandle 0x77 of `gpios`",
        ),
        (
            off("gpios = <7 15 0>;"),
            "interrupt-controller@c000000, which `gpios` names, is no enabled `sifive,gpio0`",
        ),
        (
            off("gpios = <8 16 0>;"),
            "gpio@10060000 has 16 pins, and no pin 16",
        ),
        (
            off("gpios = <8 9 0>;") + "/ { soc { gpio@10060000 { ngpios = <8>; }; }; };",
            "gpio@10060000 has 8 pins, and no pin 9",
        ),
        (
            off("gpios = <8 40 0>;") + "/ { soc { gpio@10060000 { ngpios = <64>; }; }; };",
            "gpio@10060000 has 32 pins, and no pin 40",
        ),
        (
            off("gpios = <8 9 0>;") + "/ { soc { gpio@10060000 { status = \"disabled\"; }; }; };",
            "is no enabled `sifive,gpio0`",
        ),
    ] {
        let found = switches(&more);
        assert_eq!(found.power_off, None, "{more}");
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        assert!(
            errors.iter().any(|error| error.contains(message)),
            "{errors:?}"
        );
    }
}
