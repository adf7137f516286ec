//! Flushes that wait for a fence.

use std::collections::HashMap;

use super::line::Line;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushKind {
    /// An instruction flushed the line by its address.
    Line,
    /// A store to a cache controller's register flushed the line by its address.
    Register,
    /// The hart flushed its whole cache.
    All,
    /// The cache needed the place for another line.
    Displaced,
}

/// A pending flush.
#[derive(Clone, Debug)]
pub(super) struct Flush {
    hart: usize,
    /// Position in the order of all flushes.
    order: u64,
    pub(super) kind: FlushKind,
    /// The line's contents at the time of the flush, without later stores.
    pub(super) contents: Line,
}

/// All pending flushes, of all harts.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    by_line: HashMap<u32, Vec<Flush>>,
    by_hart: Vec<Vec<u32>>,
    order: u64,
}

impl Pending {
    pub(super) fn new(harts: usize) -> Self {
        Pending {
            by_hart: vec![Vec::new(); harts],
            ..Pending::default()
        }
    }

    pub(super) fn add(&mut self, hart: usize, line: u32, kind: FlushKind, contents: Line) {
        self.order += 1;
        self.by_line.entry(line).or_default().push(Flush {
            hart,
            order: self.order,
            kind,
            contents,
        });
        self.by_hart[hart].push(line);
    }

    /// Drops the line's pending flushes, whose contents are older than memory's.
    pub(super) fn supersede(&mut self, line: u32) {
        self.by_line.remove(&line);
    }

    /// Takes the lines that a fence of `hart` completes, each with its latest flush. The line's
    /// earlier flushes, by any hart, are dropped.
    pub(super) fn complete(&mut self, hart: usize) -> Vec<(u32, Flush)> {
        let lines = std::mem::take(&mut self.by_hart[hart]);
        let done = lines.into_iter().filter_map(|line| {
            let flushes = self.by_line.get_mut(&line)?;
            let latest = flushes.iter().rposition(|flush| flush.hart == hart)?;
            let flush = flushes.drain(..=latest).next_back()?;
            if flushes.is_empty() {
                self.by_line.remove(&line);
            }
            Some((line, flush))
        });
        let mut done: Vec<_> = done.collect();
        done.sort_by_key(|(_, flush)| flush.order);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_flush_does_not_come_after_a_newer() {
        let mut pending = Pending::new(2);
        pending.add(0, 7, FlushKind::Line, [1; 64]);
        pending.add(1, 7, FlushKind::Line, [2; 64]);
        let done = pending.complete(1);
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].1.contents, [2; 64]);
        assert!(pending.complete(0).is_empty());
    }

    #[test]
    fn a_newer_flush_stays_under_way() {
        let mut pending = Pending::new(2);
        pending.add(0, 7, FlushKind::Line, [1; 64]);
        pending.add(1, 7, FlushKind::All, [2; 64]);
        assert_eq!(pending.complete(0)[0].1.contents, [1; 64]);
        assert_eq!(pending.complete(1)[0].1.contents, [2; 64]);
    }

    #[test]
    fn what_was_written_back_otherwise_is_done() {
        let mut pending = Pending::new(1);
        pending.add(0, 7, FlushKind::Line, [1; 64]);
        pending.supersede(7);
        assert!(pending.complete(0).is_empty());
    }
}
