// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The reason why a function does not show up in a trace, by the kernel's symbols and text alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Serialize;

use crate::boot;
use crate::call_graph::Site;
use crate::functions::KernelFunctions;
use crate::inlined::{containers, Container};
use crate::kernel::{self, is_left_out, DebugInformation, Inlined};
use crate::reach::{EntryKind, Reach};
use crate::selection;

/// Returns a function's name as the source has it.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Functions that every other one calls, or that stand for another one: they say nothing of its
/// callers.
const COMMON: [&str; 6] = [
    "__fentry__",
    "__stack_chk_fail",
    "__x86_return_thunk",
    "__x86_indirect_",
    "__SCT__",
    "__sanitizer_cov_",
];

/// Number of callers, or of functions that another one may be a part of, that are named.
const NAMED: usize = 4;

/// A function that another one seems to be a part of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitPart {
    /// Name of the function.
    pub name: String,
    /// Share of the other's code that is here too, 0 to 1.
    pub share: f64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The kernel has no such function.
    Missing {
        /// Names that may have been meant.
        nearest: Vec<String>,
    },
    /// The function exists, but ftrace cannot trace it.
    NotTraceable {
        /// The obstacle.
        reason: &'static str,
    },
    /// Nothing can enter the function.
    NeverEntered {
        /// Callers of the function, which are never entered either.
        callers: Vec<String>,
        /// Functions that the compiler seems to have inlined it into.
        inlined_into: Vec<SplitPart>,
        /// A function to trace in its stead.
        instead: Option<String>,
        /// True if code that ran at boot may have called it: that is gone, and the kernel's file is
        /// not there.
        perhaps_at_boot: bool,
    },
    /// Only code that runs at boot enters the function.
    AtBoot {
        /// Functions that call it.
        callers: Vec<String>,
    },
    /// The function can be entered.
    Entered {
        /// Functions that call it, or jump to it.
        callers: Vec<String>,
        /// Number of such instructions.
        sites: usize,
        /// True if pointers may lead there, too; `None` where the kernel does not mark where they
        /// may lead.
        by_pointer: Option<bool>,
        /// True if ftrace can trace it from now on: it is not in code that runs at boot and is
        /// gone.
        is_certain: bool,
    },
}

/// An answer for one of the functions of a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Name that was asked for.
    pub name: String,
    /// Address of the function; 0 if there is none.
    pub address: u64,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Functions that it is a part of, by debug information; `None` without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Vec<PartOf>>,
}

/// A function that another one is a part of for certain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartOf {
    /// Name of the function.
    pub name: String,
    /// Number of calls of the other that were in its place.
    pub places: usize,
}

/// The file of the running kernel, and the distance by which the kernel was moved.
#[derive(Clone, Copy)]
struct KernelImage<'a> {
    functions: &'a KernelFunctions,
    moved: u64,
}

impl KernelImage<'_> {
    /// Returns the answer for a function that runs at boot only.
    fn at_boot(&self, address: u64) -> Option<Answer> {
        let address = address.wrapping_sub(self.moved);
        (self.functions.reachable.reach(address)? == Reach::AtBoot)
            .then(|| self.functions.answer(address))
    }
}

impl KernelFunctions {
    /// Returns an answer for each function of that name.
    pub fn why(&self, name: &str) -> Vec<Explanation> {
        let why = |address, answer| Explanation {
            name: name.into(),
            address,
            answer,
            part_of: None,
        };
        match self.kernel.symbols.places(name) {
            [] => vec![why(
                0,
                Answer::Missing {
                    nearest: selection::nearest(&self.kernel.symbols, name),
                },
            )],
            places => places
                .iter()
                .map(|place| why(*place, self.answer(*place)))
                .collect(),
        }
    }

    /// Adds, by debug information, the functions into which those that were asked for were inlined.
    pub fn add_parts(
        &self,
        debug: &DebugInformation,
        whys: &mut [Explanation],
    ) -> Result<(), kernel::Error> {
        let names: HashSet<&str> = whys.iter().map(|why| stem(&why.name)).collect();
        let moved = self
            .kernel
            .text_begin()
            .map_or(0, |begin| begin.wrapping_sub(debug.text()));
        let all = debug.inlined(&|name| names.contains(name))?;
        for why in whys.iter_mut() {
            let place = why.address.wrapping_sub(moved);
            let is_it = |inlined: &&Inlined| {
                let is_own = why.address == 0 || inlined.own.contains(&place);
                inlined.name == stem(&why.name) && is_own
            };
            let mut parts: BTreeMap<u64, usize> = BTreeMap::new();
            for inlined in all.iter().filter(is_it) {
                *parts.entry(inlined.into.wrapping_add(moved)).or_default() += 1;
            }
            // A function that calls itself may be a part of itself.
            parts.remove(&why.address);
            let part = |(address, places)| PartOf {
                name: self.kernel.symbols.name(address),
                places,
            };
            why.part_of = Some(parts.into_iter().map(part).collect());
        }
        Ok(())
    }

    fn answer(&self, address: u64) -> Answer {
        if !self.traceable.contains(&address) {
            return Answer::NotTraceable {
                reason: self.obstacle(address),
            };
        }
        let sites = self
            .graph
            .node(address)
            .map_or(&[][..], |node| &node.callers);
        let callers = self.names(sites);
        match self.reachable.reach(address) {
            Some(Reach::Never) => {
                let file = self.file();
                if let Some(answer) = file.and_then(|file| file.at_boot(address)) {
                    return answer;
                }
                let part = |container: &Container| SplitPart {
                    name: self.kernel.symbols.name(container.function),
                    share: container.share,
                };
                let containers = containers(self, address);
                let inlined_into: Vec<SplitPart> =
                    containers.iter().take(NAMED).map(part).collect();
                let instead = match inlined_into.is_empty() {
                    true => None,
                    false => self.instead(address),
                };
                Answer::NeverEntered {
                    callers,
                    inlined_into,
                    instead,
                    perhaps_at_boot: self.kernel.is_running() && file.is_none(),
                }
            }
            Some(Reach::AtBoot) => Answer::AtBoot { callers },
            reach => Answer::Entered {
                callers,
                sites: sites.len(),
                by_pointer: reach
                    .and(self.reachable.entry(address))
                    .map(|entry| entry == EntryKind::Open),
                is_certain: reach.is_some(),
            },
        }
    }

    /// Returns the running kernel's file, with the distance to the kernel's place.
    fn file(&self) -> Option<KernelImage<'_>> {
        let find = || boot::functions(&self.kernel).map(Box::new);
        if !self.kernel.is_running() {
            return None;
        }
        let functions = self.file.get_or_init(find).as_deref()?;
        let moved = self
            .kernel
            .text_begin()?
            .wrapping_sub(functions.kernel.text_begin()?);
        Some(KernelImage { functions, moved })
    }

    /// Returns the obstacle that keeps ftrace from a function.
    fn obstacle(&self, address: u64) -> &'static str {
        let symbols = &self.kernel.symbols;
        if symbols.at(address).iter().all(|symbol| !symbol.is_code) {
            return "it is data, not a function";
        }
        if is_left_out(symbols, address) {
            return "it is left out: a starting CPU calls it before it can take the breakpoint by which ftrace changes it";
        }
        let is_in = |from, until| {
            let (from, until) = (symbols.place(from), symbols.place(until));
            from.is_some_and(|from| from <= address) && until.is_some_and(|until| address < until)
        };
        if is_in("__noinstr_text_start", "__noinstr_text_end") {
            return "it is noinstr: it runs where nothing may be traced";
        }
        if is_in("__entry_text_start", "__entry_text_end") {
            return "it is code of the kernel's entry";
        }
        if self.kernel.is_running() && is_in("_sinittext", "_einittext") {
            return "it ran at boot, and is gone";
        }
        "it was built without a call of ftrace: it is notrace, in a file that is not traced, or assembler"
    }

    /// Returns the names of the functions that `sites` are in, each once.
    fn names(&self, sites: &[Site]) -> Vec<String> {
        let functions: BTreeSet<u64> = sites.iter().map(|site| site.function).collect();
        functions
            .into_iter()
            .map(|function| self.kernel.symbols.name(function))
            .collect()
    }

    /// Returns the function to trace instead of the one at `address`: that of its callees that has
    /// the fewest callers.
    fn instead(&self, address: u64) -> Option<String> {
        let symbols = &self.kernel.symbols;
        let says_something = |callee: &&u64| {
            let name = symbols.name(**callee);
            **callee != address && !COMMON.iter().any(|common| name.starts_with(common))
        };
        let can_be_traced = |callee: &&u64| {
            self.traceable.contains(*callee)
                && self.reachable.reach(**callee) == Some(Reach::Always)
        };
        let rarest = (self.graph.node(address)?.callees.iter())
            .filter(says_something)
            .filter(can_be_traced)
            .min_by_key(|callee| {
                self.graph
                    .node(**callee)
                    .map_or(1, |node| node.callers.len())
            })?;
        Some(symbols.name(*rarest))
    }
}
