use super::*;

#[test]
fn the_base_point_is_within_its_ranges() {
    for parameter in TABLE {
        let text = parameter.base_text();
        assert_eq!(
            parameter.values.parse(&text),
            Some(parameter.base),
            "{}={text}",
            parameter.name
        );
        assert!(!parameter.source.is_empty(), "{}", parameter.name);
    }
}

#[test]
fn values_are_read_as_they_are_written() {
    let mut parameters = Parameters::default();
    parameters.set("write=8.8").expect("a value");
    parameters.set("parity=free").expect("a value");
    assert_eq!(parameters.write(), Time(528_000));
    assert_eq!(parameters.read(), Time(66_000));
    assert_eq!(parameters.cycle(), Time(2500));
    let changed: Vec<_> = (parameters.changed())
        .map(|one| (one.name, parameters.text(one)))
        .collect();
    assert_eq!(
        changed,
        [("write", "8.8".to_owned()), ("parity", "free".to_owned())]
    );
}

#[test]
fn what_cannot_be_set_is_named() {
    let refused = |text: &str| Parameters::default().set(text).unwrap_err().to_string();
    assert!(refused("write").contains("NAME=VALUE"));
    let unknown = refused("wirte=1");
    assert!(unknown.contains("`wirte`") && unknown.contains("read, write, link"));
    for bad in [
        "write=",
        "write=x",
        "write=-1",
        "write=4.111",
        "write=.5",
        "write=5.",
        "write=0",
        "write=99999999999999999999",
        "clock=0",
    ] {
        assert!(refused(bad).contains("must be"), "{bad}");
    }
    assert!(refused("parity=mirror").contains("free, striped, halves"));
}

#[test]
fn dead_devices_are_different_ones_of_the_machine() {
    let mut parameters = Parameters::default();
    parameters.set("dead=47,0").expect("devices");
    assert_eq!(parameters.dead().collect::<Vec<_>>(), [47, 0]);
    assert_eq!(parameters.text(&TABLE[Name::Dead as usize]), "47,0");
    // Six DIMMs of four groups have 48.
    for bad in ["dead=48", "dimms=5", "groups=3"] {
        let error = parameters.set(bad).unwrap_err().to_string();
        assert!(error.contains("set dimms and groups before"), "{error}");
    }
    for bad in [
        "dead=",
        "dead=0,0",
        "dead=0,",
        "dead=0.5",
        "dead=65535",
        "dead=0,1,2,3,4",
    ] {
        let error = parameters.set(bad).unwrap_err().to_string();
        assert!(error.contains("must be none, or at most 4"), "{error}");
    }
    assert_eq!(
        parameters.dead().count(),
        2,
        "a refused value changes nothing"
    );
    parameters.set("dead=none").expect("no device");
    parameters.set("dimms=5").expect("a value");
    assert_eq!(parameters, {
        let mut other = Parameters::default();
        other.set("dimms=5").expect("a value");
        other
    });
}
