//! The job gate counts: there is room for more harts than a word has bits.

use poorwill_hart::{JobGate, Worker};

#[test]
fn it_has_room_for_hundreds_of_harts() {
    let gate = JobGate::new();
    let mut workers: Vec<_> = (0..500).map(|_| Worker::new()).collect();
    for _ in 0..2 {
        gate.open().unwrap();
        let inside: Vec<_> = (workers.iter_mut())
            .map(|worker| worker.enter(&gate).expect("a new round"))
            .collect();
        assert_eq!(gate.inside(), 500);
        gate.close();
        assert!(gate.open().is_err());
        drop(inside);
        assert_eq!(gate.inside(), 0);
        assert!(workers[0].enter(&gate).is_none(), "it is closed");
    }
}
