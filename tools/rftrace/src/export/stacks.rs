// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls by the paths that led to them, below the tasks that made them, or the interrupts that did.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Result;
use rftrace_engine::engine::context::Level;
use rftrace_engine::engine::slot::Task;
use rustc_hash::FxHashMap;

use super::About;
use crate::calls::{
    Assembler, BegunCall, CallCounts, Finished, Label, NodeId, Tree, TreeNode, Visitor,
};
use crate::stream::Events;
use crate::symbolizer::{FunctionId, Symbolizer};

/// Maximum number of nodes, of about 130 bytes each. Calls by more paths than that are put together
/// as `[other]`.
const MAX_NODES: usize = 2 << 20;
/// Maximum number of tasks that are told apart; all others are `[other tasks]`.
const MAX_TOPS: usize = 1 << 16;

/// The way in which tasks are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tops {
    /// Tasks are told apart by their names.
    Comms,
    /// Tasks are told apart by threads, and their names.
    Threads,
}

/// A weight of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The time of its innermost function itself, in ns.
    Time,
    /// Calls of its innermost function.
    Calls,
}

/// The frame at the top of all stacks of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Top {
    /// A task; its numbers are 0 where only names are told apart.
    Task {
        /// ID of the thread, with that of its process in the upper half.
        ids: u64,
        /// The name of the task.
        comm: [u64; 2],
    },
    /// Interrupts of a level.
    Interrupt(u8),
    /// Tasks that there was no room for.
    Others,
}

impl Top {
    /// Returns the name of the frame in a stack.
    pub fn name(&self) -> String {
        match *self {
            Self::Task { ids, comm } => {
                let task = Task { ids, comm };
                String::from_utf8_lossy(task.name(&mut [0; 16])).into_owned()
            }
            Self::Interrupt(level) if level == Level::Softirq as u8 => "[softirq]".into(),
            Self::Interrupt(level) if level == Level::Hardirq as u8 => "[hardirq]".into(),
            Self::Interrupt(_) => "[nmi]".into(),
            Self::Others => "[other tasks]".into(),
        }
    }
}

/// Calls by the paths that led to them.
#[derive(Debug)]
pub struct Stacks {
    tree: Tree,
    tops: Vec<Top>,
    counts: CallCounts,
}

impl Stacks {
    /// Builds the stacks of all of `events`.
    ///
    /// # Errors
    ///
    /// If the events cannot be had.
    pub fn of(
        events: &mut impl Events,
        tops: Tops,
        symbolizer: &Rc<RefCell<Symbolizer>>,
    ) -> Result<Self> {
        let builder = Builder {
            tree: Tree::new(MAX_NODES),
            kind: tops,
            tops: Vec::new(),
            numbers: FxHashMap::default(),
        };
        let mut assembler = Assembler::new(builder, symbolizer.clone());
        assembler.run(events, |_| ())?;
        let (builder, counts) = assembler.finish();
        Ok(Self {
            tree: builder.tree,
            tops: builder.tops,
            counts,
        })
    }

    /// Returns the counts of everything but calls.
    pub fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// Calls `visit` for each stack that has calls of its own, with its top, if it has one, its
    /// functions from the outermost on, its calls, and its time in ns.
    ///
    /// # Errors
    ///
    /// Errors of `visit`.
    pub fn visit<E>(
        &self,
        mut visit: impl FnMut(Option<&Top>, &[Label], u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut way = Vec::new();
        for id in self.tree.ids() {
            let node = self.tree.node(id);
            let (calls, time) = (calls(node), node.self_time.saturating_add(node.open_self));
            if calls == 0 && time == 0 {
                continue;
            }
            way.clear();
            way.extend(self.tree.way(id).map(|id| self.tree.node(id).label));
            way.reverse();
            let top = match way.first() {
                Some(Label::Comm(number)) => self.tops.get(*number as usize),
                _ => None,
            };
            visit(top, &way[usize::from(top.is_some())..], calls, time)?;
        }
        Ok(())
    }
}

/// Returns all calls of a node that were seen, at their beginning or at their end.
fn calls(node: &TreeNode) -> u64 {
    node.calls + node.open + node.missed
}

/// Returns the name of a function in a stack; a label that stands for others is in brackets.
pub fn name<'a>(label: &Label, symbolizer: &'a Symbolizer) -> &'a str {
    match label {
        Label::Function(function) => symbolizer.name(*function),
        Label::Unknown => "[not recorded]",
        Label::Root | Label::Comm(_) | Label::Other => "[other]",
    }
}

/// Returns sentences that tell of what is missing.
pub fn caveats(about: &About<'_>, counts: &CallCounts) -> Vec<String> {
    let mut said = Vec::new();
    let lost = about
        .end
        .map_or(counts.lost, |end| end.lost().max(counts.lost));
    if lost != 0 {
        said.push(format!("{lost} events were lost"));
    }
    if counts.self_unknown != 0 {
        let count = counts.self_unknown;
        said.push(format!(
            "of {count} calls the own time is not known, and left out"
        ));
    }
    if about.end.is_none() {
        said.push("the recording was broken off".into());
    }
    said
}

/// Fills the tree.
struct Builder {
    tree: Tree,
    kind: Tops,
    tops: Vec<Top>,
    numbers: FxHashMap<Top, u32>,
}

impl Builder {
    fn top(&mut self, top: Top) -> NodeId {
        let number = match self.numbers.get(&top) {
            Some(number) => *number,
            None if self.tops.len() > MAX_TOPS && top != Top::Others => {
                return self.top(Top::Others);
            }
            None => {
                let number = self.tops.len() as u32;
                self.tops.push(top);
                self.numbers.insert(top, number);
                number
            }
        };
        self.tree.child(NodeId::ROOT, Label::Comm(number))
    }

    fn of_task(&mut self, task: &Task) -> NodeId {
        let ids = match self.kind {
            Tops::Comms => 0,
            Tops::Threads => task.ids,
        };
        let comm = task.comm;
        self.top(Top::Task { ids, comm })
    }
}

impl Visitor for Builder {
    type Frame = NodeId;

    fn enter(&mut self, call: &BegunCall<'_>, around: Option<NodeId>) -> NodeId {
        let above = match around {
            Some(around) => around,
            None if call.is_interrupt => self.top(Top::Interrupt(call.level as u8)),
            None => self.of_task(call.task),
        };
        let label = call.function.map_or(Label::Unknown, Label::Function);
        self.tree.child(above, label)
    }

    fn leave(&mut self, node: NodeId, call: &Finished) {
        self.tree.add(node, call);
    }

    fn hit(&mut self, task: &Task, function: FunctionId, caller: Option<FunctionId>) {
        let mut node = self.of_task(task);
        if let Some(caller) = caller {
            node = self.tree.child(node, Label::Function(caller));
        }
        let node = self.tree.child(node, Label::Function(function));
        self.tree.hit(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{folded, pprof};
    use crate::kernel::KernelSymbols;
    use crate::recording::{RecordingEnd, RecordingSettings};
    use crate::stream::{Error, Item, OwnedExtras};
    use flate2::read::GzDecoder;
    use rftrace_engine::engine::context::{ContextWord, HARDIRQ};
    use rftrace_engine::engine::decode::{Event, EventKind};
    use std::io::Read;

    /// Events without extras.
    struct Given(std::vec::IntoIter<Item>, OwnedExtras);

    impl Events for Given {
        fn next(&mut self) -> Result<Option<Item>, Error> {
            Ok(self.0.next())
        }

        fn owned_extras(&self) -> &OwnedExtras {
            &self.1
        }
    }

    fn item(what: EventKind, depth: u8, ip: u64, time: u64, duration: u64, level: u32) -> Item {
        let event = Event {
            what,
            depth,
            ip,
            time,
            duration,
            context: ContextWord(level),
            task: Task {
                ids: 7 | (5 << 32),
                comm: [u64::from_le_bytes(*b"a;b\nc\0\0\0"), 0],
            },
            ..Event::default()
        };
        Item { cpu: 0, event }
    }

    fn symbolizer() -> Rc<RefCell<Symbolizer>> {
        let symbols =
            KernelSymbols::of_text("f100 T outer\nf200 t inner\t[ext4]\nf300 T irq\n").unwrap();
        Rc::new(RefCell::new(Symbolizer::new(symbols)))
    }

    fn stacks(symbolizer: &Rc<RefCell<Symbolizer>>, tops: Tops) -> Stacks {
        let items = vec![
            item(EventKind::Entry, 0, 0xf100, 100, 0, 0),
            item(EventKind::Call, 1, 0xf200, 110, 20, 0),
            item(EventKind::Call, 1, 0xf300, 140, 5, HARDIRQ),
            item(EventKind::Return, 0, 0xf100, 200, 100, 0),
            item(EventKind::Call, 0, 0xf200, 300, 7, 0),
        ];
        Stacks::of(
            &mut Given(items.into_iter(), OwnedExtras::default()),
            tops,
            symbolizer,
        )
        .unwrap()
    }

    fn folded_lines(weight: Weight, end: Option<&RecordingEnd>) -> Vec<String> {
        let symbolizer = symbolizer();
        let about = About {
            settings: &RecordingSettings::default(),
            end,
            symbolizer: &symbolizer,
            btf: None,
        };
        let mut text = Vec::new();
        folded::write(&mut text, &about, &stacks(&symbolizer, Tops::Comms), weight).unwrap();
        let mut lines: Vec<String> = String::from_utf8(text)
            .unwrap()
            .lines()
            .map(Into::into)
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn interrupts_are_roots_and_have_their_time_for_themselves() {
        let end = RecordingEnd::default();
        let expected = [
            "[hardirq];irq 5",
            "a:b?c;inner [ext4] 7",
            "a:b?c;outer 75",
            "a:b?c;outer;inner [ext4] 20",
        ];
        assert_eq!(folded_lines(Weight::Time, Some(&end)), expected);
        let expected = [
            "[hardirq];irq 1",
            "a:b?c;inner [ext4] 1",
            "a:b?c;outer 1",
            "a:b?c;outer;inner [ext4] 1",
        ];
        assert_eq!(folded_lines(Weight::Calls, Some(&end)), expected);
    }

    #[test]
    fn what_is_missing_is_said() {
        let end = RecordingEnd {
            lost: vec![("missed returns".into(), 3)],
            ..RecordingEnd::default()
        };
        assert_eq!(
            folded_lines(Weight::Time, Some(&end))[0],
            "[3 events were lost] 0"
        );
        assert_eq!(
            folded_lines(Weight::Time, None)[1],
            "[the recording was broken off] 0"
        );
    }

    /// Returns the fields of a message: their numbers, with a number or the place of bytes.
    fn fields(bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
        let mut at = 0;
        let varint = |at: &mut usize| {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let byte = bytes[*at];
                *at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        };
        let mut found = Vec::new();
        while at < bytes.len() {
            let tag = varint(&mut at);
            let value = varint(&mut at);
            let mut rest = &bytes[..0];
            if tag & 7 == 2 {
                rest = &bytes[at..at + value as usize];
                at += value as usize;
            }
            found.push((tag >> 3, value, rest));
        }
        found
    }

    #[test]
    fn a_profile_has_the_same_stacks_with_tasks_as_labels() {
        let symbolizer = symbolizer();
        let end = RecordingEnd::default();
        let about = About {
            settings: &RecordingSettings::default(),
            end: Some(&end),
            symbolizer: &symbolizer,
            btf: None,
        };
        let mut packed = Vec::new();
        pprof::write(&mut packed, &about, &stacks(&symbolizer, Tops::Threads)).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
        let all = fields(&bytes);
        let of = |number| all.iter().filter(move |field| field.0 == number);
        let strings: Vec<&str> = of(6)
            .map(|field| std::str::from_utf8(field.2).unwrap())
            .collect();
        assert_eq!(strings[0], "");
        // The ID of a function is that of its location.
        let names: Vec<&str> = of(5)
            .map(|field| strings[fields(field.2)[1].1 as usize])
            .collect();
        let mut samples = Vec::new();
        for sample in of(2) {
            let parts = fields(sample.2);
            let way: Vec<&str> = parts[0]
                .2
                .iter()
                .map(|id| names[*id as usize - 1])
                .collect();
            let labels = parts[2..].iter().map(|label| {
                let label = fields(label.2);
                let key = strings[label[0].1 as usize];
                match label[1].0 {
                    2 => format!("{key}={}", strings[label[1].1 as usize]),
                    _ => format!("{key}={}", label[1].1),
                }
            });
            let labels: Vec<String> = labels.collect();
            samples.push(format!(
                "{} {:?} {}",
                way.join("<"),
                parts[1].2,
                labels.join(" ")
            ));
        }
        samples.sort();
        let task = "comm=a;b\nc thread=7 process=5";
        let expected = [
            format!("inner [1, 7] {task}"),
            format!("inner<outer [1, 20] {task}"),
            "irq<[hardirq] [1, 5] ".into(),
            format!("outer [1, 75] {task}"),
        ];
        assert_eq!(samples, expected);
    }
}
