// SPDX-License-Identifier: GPL-2.0

//! Settings and plans, against a model that works on names: the functions that are hooked after any
//! steps of users and modules.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::cases;
use crate::engine::catalog::{BadLine, Catalog};
use crate::engine::command::Action;
use crate::engine::errno::{ErrnoSet, ResultKind};
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::{FunctionList, KnownFunctions, ListError};
use crate::engine::options::TraceOption;
use crate::engine::plan::{
    Calls, CallsByResult, Entries, FrameKind, HookPlan, NeededMemory, ProfiledCalls, Roles,
    Surroundings,
};
use crate::engine::settings::{Settings, Tracer};
use crate::platform::{memory, AllocError};

type Names = BTreeSet<&'static str>;
type OwnSettings = Settings<Arc<u64>>;

/// The functions, by their addresses; `g` ones are of module `m`, `unwind` is one that unwinding
/// calls, and `own` one that must not be called.
const FUNCTIONS: [(&str, usize, Option<&str>); 9] = [
    ("f0", 0x100, None),
    ("f1", 0x110, None),
    ("f2", 0x120, None),
    ("unwind", 0x130, None),
    ("own", 0x140, None),
    ("h", 0x150, None),
    ("g0", 0x900, Some("m")),
    ("g1", 0x910, Some("m")),
    ("g2", 0x920, Some("m")),
];
const MODULE: std::ops::Range<usize> = 0x900..0x1000;
const OWN: std::ops::Range<usize> = 0x140..0x145;
const UNWINDER: &[&[u8]] = &[b"unwind"];

fn catalog(has_module: bool) -> Catalog {
    let mut catalog = Catalog::new();
    // Modules may come first.
    for (name, ip, module) in FUNCTIONS.iter().rev() {
        let line = match module {
            Some(module) => format!("{ip:016x} {name} [{module}]"),
            None => format!("{ip:016x} {name}"),
        };
        catalog.add(line.as_bytes()).expect("a good line");
    }
    catalog.finish(|ip| !has_module && MODULE.contains(&ip));
    catalog
}

fn all(has_module: bool) -> Names {
    let there = |(_, _, module): &&(&str, usize, Option<&str>)| has_module || module.is_none();
    FUNCTIONS.iter().filter(there).map(|it| it.0).collect()
}

fn names(set: &FunctionSet) -> Names {
    let name = |ip: &usize| FUNCTIONS.iter().find(|it| it.1 == *ip).expect("known").0;
    set.as_slice().iter().map(name).collect()
}

/// Commands as the model has them: function, action, and the count that was written last.
type Commands = BTreeSet<(&'static str, Action, u64)>;

/// The model's settings.
#[derive(Clone, Default)]
struct Model {
    tracer: Option<Tracer>,
    implicit: bool,
    lists: [Option<Names>; 4],
    /// The words `:mod:m` that wait, of filter and notrace.
    waits: [bool; 2],
    commands: Commands,
    options: BTreeSet<u8>,
    profile: bool,
    thresh: bool,
    errnos: bool,
    has_module: bool,
}

/// Returns the functions that a word means; `None` for one that is refused, or has to wait.
fn meant(word: &str, there: &Names) -> Names {
    let matches = |name: &&&'static str| match word {
        ":mod:m" => name.starts_with('g'),
        _ => match word.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => **name == word,
        },
    };
    there.iter().filter(matches).copied().collect()
}

impl Model {
    fn has(&self, option: TraceOption) -> bool {
        let is_default = crate::engine::options::Options::new().has(option);
        is_default != self.options.contains(&(option as u8))
    }

    /// Edits a list as `Settings::edit_list` does; returns false if it is refused.
    fn edit(&mut self, list: FunctionList, words: &[&'static str], replace: bool) -> bool {
        let there = all(self.has_module);
        let place = list as usize;
        let had = self.lists[place].is_some();
        let mut new = self.lists[place]
            .clone()
            .filter(|_| !replace)
            .unwrap_or_default();
        let mut waits = place < 2 && self.waits[place] && !replace;
        let mut has_names = false;
        let mut commands = self.commands.clone();
        for word in words {
            let (remove, rest) = match word.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, *word),
            };
            if let (Some((name, act)), FunctionList::Filter) = (rest.split_once(':'), list) {
                let mut parts = act.split(':');
                let act = parts.next().expect("an act");
                if let Some(action) = Action::ALL.into_iter().find(|action| action.name() == act) {
                    let chosen = meant(name, &there);
                    if chosen.is_empty() {
                        return false;
                    }
                    commands.retain(|it| it.1 != action || !chosen.contains(it.0));
                    if !remove {
                        let count = parts
                            .next()
                            .map_or(u64::MAX, |n| n.parse().expect("a number"));
                        commands.extend(chosen.into_iter().map(|name| (name, action, count)));
                    }
                    continue;
                }
            }
            has_names = true;
            let chosen = meant(rest, &there);
            match (chosen.is_empty(), remove) {
                (false, true) => new = &new - &chosen,
                (false, false) => new = &new | &chosen,
                (true, _) if rest != ":mod:m" || place >= 2 => return false,
                (true, true) if !waits => return false,
                (true, remove) => waits = !remove,
            }
        }
        let keeps = (list == FunctionList::Filter && waits) || (!replace && !has_names && had);
        self.lists[place] = (!new.is_empty() || keeps).then_some(new);
        if place < 2 {
            self.waits[place] = waits;
        }
        self.commands = commands;
        if list == FunctionList::Filter {
            let is_asked = self.lists[0].is_some();
            if is_asked && self.tracer.is_none() {
                (self.tracer, self.implicit) = (Some(Tracer::Function), true);
            } else if !is_asked && self.tracer == Some(Tracer::Function) && self.implicit {
                (self.tracer, self.implicit) = (None, false);
            }
        }
        true
    }

    fn wanted(&self) -> Names {
        let filter = self.lists[0].clone().unwrap_or(all(self.has_module));
        &filter - &self.lists[1].clone().unwrap_or_default()
    }

    fn with_act(&self, is_stack: bool) -> Names {
        let is_meant = |it: &&(&'static str, Action, u64)| (it.1 == Action::Stacktrace) == is_stack;
        self.commands
            .iter()
            .filter(is_meant)
            .map(|it| it.0)
            .collect()
    }

    /// Returns the functions whose entries are hooked, and those of them that are only for their
    /// stack.
    fn entries(&self) -> (Names, Names) {
        let plain = match self.tracer {
            Some(Tracer::Function | Tracer::CallTrace) => self.wanted(),
            _ => Names::new(),
        };
        let alone = &self.with_act(true) - &plain;
        let mut entries = &plain | &alone;
        if self.has(TraceOption::FuncStackTrace) {
            entries.remove("unwind");
        }
        (entries, alone)
    }

    /// Returns the calls that are hooked: plain, roots, skipped.
    fn calls(&self) -> Option<[Names; 3]> {
        (self.tracer == Some(Tracer::FunctionGraph)).then(|| self.roles())
    }

    fn roles(&self) -> [Names; 3] {
        let notrace = self.lists[1].clone().unwrap_or_default();
        let mut roots = &self.lists[2].clone().unwrap_or_default() - &notrace;
        let mut plain = &self.wanted() - &roots;
        plain.remove("own");
        roots.remove("own");
        let unwanted = self.lists[3].clone().unwrap_or_default();
        let skip = &(&plain | &roots) & &unwanted;
        [&plain - &skip, &roots - &skip, skip]
    }

    fn counted(&self) -> Option<[Names; 3]> {
        self.profile.then(|| self.roles())
    }

    fn module_comes(&mut self) {
        self.has_module = true;
        for place in 0..2 {
            if std::mem::take(&mut self.waits[place]) {
                let set = self.lists[place].get_or_insert_default();
                set.extend(meant(":mod:m", &all(true)));
            }
        }
    }

    fn module_goes(&mut self) {
        self.has_module = false;
        for place in 0..4 {
            if let Some(set) = &mut self.lists[place] {
                set.retain(|name| !name.starts_with('g'));
                if set.is_empty() && (place == 1 || place == 3) {
                    self.lists[place] = None;
                }
            }
        }
        self.commands.retain(|it| !it.0.starts_with('g'));
    }
}

/// A step of a user, or of the module.
#[derive(Clone, Debug)]
enum Step {
    Edit(usize, Vec<&'static str>, bool),
    Tracer(usize),
    Option(TraceOption),
    Profile(bool),
    Thresh(bool),
    Errnos(bool),
    ModuleComes,
    ModuleGoes,
    EndRecording,
}

const WORDS: &[&str] = &[
    "f0",
    "f1",
    "unwind",
    "own",
    "h",
    "g1",
    "f*",
    "g*",
    "*",
    "!f0",
    "!f*",
    "!g0",
    "!*",
    ":mod:m",
    "!:mod:m",
    "nope",
    "f1:stacktrace",
    "h:stacktrace:3",
    "g1:traceoff",
    "!f1:stacktrace",
    "f*:stacktrace",
    "!*:traceoff",
    "f2:snapshot",
    "!f2:snapshot",
    "nope:dump",
];

fn step() -> impl Strategy<Value = Step> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 0..4);
    let options = [
        TraceOption::FuncStackTrace,
        TraceOption::SleepTime,
        TraceOption::GraphWait,
        TraceOption::GraphTime,
        TraceOption::ProfileContexts,
        TraceOption::ProfileWait,
    ];
    prop_oneof![
        8 => (0..4usize, words, any::<bool>()).prop_map(|(list, words, replace)| Step::Edit(list, words, replace)),
        3 => (0..4usize).prop_map(Step::Tracer),
        2 => prop::sample::select(options.to_vec()).prop_map(Step::Option),
        1 => any::<bool>().prop_map(Step::Profile),
        1 => any::<bool>().prop_map(Step::Thresh),
        1 => any::<bool>().prop_map(Step::Errnos),
        1 => Just(Step::ModuleComes),
        1 => Just(Step::ModuleGoes),
        1 => Just(Step::EndRecording),
    ]
}

fn count(count: Option<u64>) -> Result<Arc<u64>, AllocError> {
    Ok(Arc::new(count.unwrap_or(u64::MAX)))
}

/// Does a step on a copy of the settings.
fn do_step(
    settings: &OwnSettings,
    step: &Step,
    catalog: &Catalog,
) -> Result<OwnSettings, ListError> {
    let mut new = settings.duplicate()?;
    match step {
        Step::Edit(list, words, replace) => {
            let text = words.join(" ");
            let known = KnownFunctions {
                catalog,
                address_of: &|_| None,
            };
            new.edit_list(
                FunctionList::ALL[*list],
                text.as_bytes(),
                *replace,
                known,
                &count,
            )?;
        }
        Step::Tracer(tracer) => {
            new.tracer = Tracer::ALL[*tracer];
            new.implicit = false;
        }
        Step::Option(option) => {
            new.options = new.options.with(*option, !new.options.has(*option));
        }
        Step::Profile(on) => new.profile = *on,
        Step::Thresh(on) => new.thresh = u64::from(*on),
        Step::Errnos(all) => {
            new.errnos = ErrnoSet {
                all: *all,
                ..ErrnoSet::NONE
            }
        }
        Step::ModuleComes => new.lists.resolve(b"m", catalog)?,
        Step::ModuleGoes => {
            new.forget(&MODULE);
        }
        Step::EndRecording => new.end_recording(),
    }
    Ok(new)
}

fn model_step(model: &mut Model, step: &Step) -> bool {
    match step {
        Step::Edit(list, words, replace) => {
            let mut new = model.clone();
            if !new.edit(FunctionList::ALL[*list], words, *replace) {
                return false;
            }
            *model = new;
        }
        Step::Tracer(tracer) => {
            let tracer = Tracer::ALL[*tracer];
            model.tracer = (tracer != Tracer::Nop).then_some(tracer);
            model.implicit = false;
        }
        Step::Option(option) => {
            if !model.options.remove(&(*option as u8)) {
                model.options.insert(*option as u8);
            }
        }
        Step::Profile(on) => model.profile = *on,
        Step::Thresh(on) => model.thresh = *on,
        Step::Errnos(on) => model.errnos = *on,
        Step::ModuleComes => model.module_comes(),
        Step::ModuleGoes => model.module_goes(),
        Step::EndRecording => {
            model.tracer = None;
            model.implicit = false;
            model.profile = false;
            model.commands.clear();
        }
    }
    true
}

/// Returns the plan, with a catalog only if the settings say that they need it.
fn plan(settings: &OwnSettings, catalog: &Catalog) -> Result<HookPlan, AllocError> {
    HookPlan::of(
        settings,
        &Surroundings {
            catalog: settings.need_catalog().then_some(catalog),
            never_called: [OWN, 0..0],
            unwinder: UNWINDER,
        },
    )
}

/// Returns sets that are nearly `set`: longer, shorter, and with another function.
fn near(set: &FunctionSet) -> Vec<FunctionSet> {
    let ips = set.as_slice();
    let make = |ips: &[usize]| FunctionSet::from_sorted(ips.iter().copied()).expect("memory");
    let mut sets = vec![make(&[ips, &[0xf000]].concat())];
    if let Some((last, rest)) = ips.split_last() {
        sets.push(make(rest));
        sets.push(make(&[rest, &[last + 1]].concat()));
    }
    sets
}

/// Returns roles that are nearly these.
fn near_roles(roles: &Roles) -> Vec<Roles> {
    let copy = || roles.duplicate().expect("memory");
    let Roles {
        plain,
        roots,
        skip,
        is_rooted,
    } = roles;
    let mut all = vec![Roles {
        is_rooted: !is_rooted,
        ..copy()
    }];
    all.extend(
        near(plain)
            .into_iter()
            .map(|plain| Roles { plain, ..copy() }),
    );
    all.extend(
        near(roots)
            .into_iter()
            .map(|roots| Roles { roots, ..copy() }),
    );
    all.extend(near(skip).into_iter().map(|skip| Roles { skip, ..copy() }));
    all
}

/// Calls are these, and no others, which differ in one field.
fn only_itself_is(calls: &Calls) {
    let copy = || calls.duplicate().expect("memory");
    let Calls {
        frames,
        roles,
        takes_sleep,
    } = calls;
    let kinds = [
        FrameKind::Plain,
        FrameKind::Tagged,
        FrameKind::Long,
        FrameKind::Waits,
        FrameKind::Errno,
    ];
    let mut others = vec![Calls {
        takes_sleep: !takes_sleep,
        ..copy()
    }];
    others.extend(
        (kinds.into_iter().filter(|kind| kind != frames)).map(|frames| Calls { frames, ..copy() }),
    );
    others.extend(
        near_roles(roles)
            .into_iter()
            .map(|roles| Calls { roles, ..copy() }),
    );
    assert!(copy().is(calls));
    assert!(!others
        .iter()
        .any(|other| other.is(calls) || calls.is(other)));
}

/// As `only_itself_is`, of calls that are counted.
fn only_itself_is_counted(counted: &ProfiledCalls) {
    let copy = || counted.duplicate().expect("memory");
    let ProfiledCalls {
        roles,
        without_calls,
        without_sleep,
        contexts,
        waits,
    } = counted;
    let mut others = vec![
        ProfiledCalls {
            without_calls: !without_calls,
            ..copy()
        },
        ProfiledCalls {
            without_sleep: !without_sleep,
            ..copy()
        },
        ProfiledCalls {
            contexts: !contexts,
            ..copy()
        },
        ProfiledCalls {
            waits: !waits,
            ..copy()
        },
    ];
    others.extend(
        near_roles(roles)
            .into_iter()
            .map(|roles| ProfiledCalls { roles, ..copy() }),
    );
    assert!(copy().is(counted));
    assert!(!others
        .iter()
        .any(|other| other.is(counted) || counted.is(other)));
}

/// As `only_itself_is`, of entries.
fn only_themselves_are(entries: &Entries) {
    let others: Vec<Entries> = match entries {
        Entries::All => vec![Entries::none()],
        Entries::Only(set) => near(set)
            .into_iter()
            .map(Entries::Only)
            .chain([Entries::All])
            .collect(),
    };
    assert!(entries.is(entries));
    assert!(!others
        .iter()
        .any(|other| other.is(entries) || entries.is(other)));
}

fn check(model: &Model, settings: &OwnSettings, plan: &HookPlan) {
    let (entries, alone) = model.entries();
    let hooked = plan.entries.set().map_or(all(model.has_module), names);
    assert_eq!(hooked, entries, "entries");
    assert_eq!(names(&plan.stack_only), alone, "only for their stacks");
    assert_eq!(names(&plan.commanded), model.with_act(false), "commanded");
    let calls = plan
        .calls
        .as_ref()
        .map(|calls| calls.roles.sets().map(names));
    assert_eq!(calls, model.calls(), "calls");
    only_themselves_are(&plan.entries);
    if let Some(calls) = &plan.calls {
        only_itself_is(calls);
        let waits = model.has(TraceOption::GraphWait) && !model.errnos;
        let takes_sleep = waits || !model.has(TraceOption::SleepTime);
        assert_eq!(calls.takes_sleep, takes_sleep);
    }
    if let (Some(calls), Some([_, _, skip])) = (&plan.calls, model.calls()) {
        let is_rooted = model.lists[2].is_some();
        let frames = match (
            model.thresh || !model.has(TraceOption::SleepTime),
            is_rooted,
        ) {
            _ if model.errnos => FrameKind::Errno,
            _ if model.has(TraceOption::GraphWait) => FrameKind::Waits,
            (true, _) => FrameKind::Long,
            (false, true) => FrameKind::Tagged,
            (false, false) if !skip.is_empty() => FrameKind::Tagged,
            (false, false) => FrameKind::Plain,
        };
        assert_eq!(calls.frames, frames);
        // Each function is in the set of its result.
        let kind_of = |ip: usize| ResultKind::ALL[ip / 0x100 % ResultKind::ALL.len()];
        let results = CallsByResult::of(calls, kind_of).expect("memory");
        for (whole, divided) in [
            (&calls.roles.plain, &results.plain),
            (&calls.roles.roots, &results.roots),
        ] {
            let all = whole.as_slice().iter();
            for (kind, set) in ResultKind::ALL.into_iter().zip(divided) {
                let wanted = all.clone().filter(|ip| kind_of(**ip) == kind);
                assert!(wanted.eq(set.as_slice()), "{kind:?}");
            }
        }
        // Those of a module go without memory.
        let mut left = results;
        memory::with_allocations(0, || left.forget(&MODULE));
        for (whole, divided) in [
            (&calls.roles.plain, &left.plain),
            (&calls.roles.roots, &left.roots),
        ] {
            let wanted = whole.as_slice().iter().filter(|ip| !MODULE.contains(*ip));
            let found: usize = divided.iter().map(|set| set.len()).sum();
            assert_eq!(found, wanted.count());
        }
    }
    let counted = plan.counted.as_ref();
    let sets = counted.map(|counted| counted.roles.sets().map(names));
    assert_eq!(sets, model.counted(), "counted");
    if let Some(counted) = counted {
        let [_, roots, skip] = model.roles();
        let taken = names(&counted.roles.taken().expect("memory"));
        assert!(taken.is_superset(&roots) && taken.is_disjoint(&skip));
        let hooked = names(&counted.roles.hooked().expect("memory"));
        assert_eq!(hooked, &taken | &skip);
        only_itself_is_counted(counted);
        let waits = model.has(TraceOption::ProfileWait);
        assert_eq!(counted.contexts, model.has(TraceOption::ProfileContexts));
        assert_eq!(counted.waits, waits);
        assert_eq!(counted.without_calls, !model.has(TraceOption::GraphTime));
        assert_eq!(counted.without_sleep, !model.has(TraceOption::SleepTime));
        let takes_sleep = waits || counted.without_sleep;
        assert_eq!(counted.takes_sleep(), takes_sleep);
        let is_rooted = model.lists[2].is_some();
        assert_eq!(counted.roles.is_rooted, is_rooted);
        let is_nested = takes_sleep || counted.without_calls || is_rooted || !skip.is_empty();
        assert_eq!(counted.is_nested(false), is_nested);
        assert!(counted.is_nested(true));
    }
    let stacks = !model.with_act(true).is_empty();
    let snapshots = model.commands.iter().any(|it| it.1 == Action::Snapshot);
    let memory = NeededMemory {
        buffers: model.tracer.is_some() || stacks || snapshots,
        snapshots,
        stacks: stacks || model.has(TraceOption::FuncStackTrace),
        links: model.errnos && model.calls().is_some(),
        wakers: model.has(TraceOption::GraphWait) && !model.errnos && model.calls().is_some(),
        sleeps: model.has(TraceOption::ProfileWait) && model.counted().is_some(),
    };
    assert_eq!(plan.memory, memory);
    // All functions that are hooked at all.
    let calls = model.calls().into_iter().flatten().flatten();
    let mut whole: Names = calls.chain(entries).chain(model.with_act(false)).collect();
    whole.extend(model.counted().into_iter().flatten().flatten());
    let hooked = plan.hooked().expect("memory");
    assert_eq!(hooked.as_ref().map_or(all(model.has_module), names), whole);
    let least = hooked.map_or(0, |set| set.len()) * size_of::<usize>();
    assert!(plan.bytes() >= least, "{} of {least} bytes", plan.bytes());
    // Counts are those that were written last, whatever was edited since.
    let commands: Commands = (settings.commands.as_slice().iter())
        .map(|it| {
            let found = FUNCTIONS.iter().find(|function| function.1 == it.ip);
            (found.expect("known").0, it.action, *it.left)
        })
        .collect();
    let model_commands: Commands = (model.commands.iter())
        .map(|it| match (it.1, it.2) {
            (Action::Dump | Action::Cpudump, u64::MAX) => (it.0, it.1, 1),
            _ => *it,
        })
        .collect();
    assert_eq!(commands, model_commands);
    // The way in which a function is recorded, looked up by its symbol.
    for (name, ip, _) in FUNCTIONS {
        let wants = settings.lists.wants(ip);
        let is_there = all(model.has_module).contains(name);
        if is_there {
            assert_eq!(
                wants.unwrap_or(true),
                model.wanted().contains(name),
                "{name}"
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(if cfg!(miri) { 8 } else { 2000 }))]

    #[test]
    fn as_the_model_does(steps in prop::collection::vec(step(), 1..20)) {
        let mut model = Model::default();
        let mut settings = OwnSettings::new();
        let mut before = HookPlan::none();
        for step in &steps {
            let has_module = match step {
                Step::ModuleComes => true,
                Step::ModuleGoes => false,
                _ => model.has_module,
            };
            let catalog = catalog(has_module);
            // Functions go without memory, from settings and plan alike.
            if let Step::ModuleGoes = step {
                let any = memory::with_allocations(0, || {
                    before.forget(&MODULE);
                    settings.forget(&MODULE)
                });
                let _ = any;
            }
            let is_rooted = |model: &Model| model.profile.then(|| model.lists[2].is_some());
            let was_rooted = is_rooted(&model);
            let accepted = model_step(&mut model, step);
            match do_step(&settings, step, &catalog) {
                Ok(new) => {
                    prop_assert!(accepted, "{step:?} is to be refused");
                    settings = new;
                }
                Err(ListError::Word(at, _)) => {
                    prop_assert!(!accepted, "{step:?} is refused at {at}");
                }
                Err(ListError::NoMemory) => unreachable!("there is memory"),
            }
            let new = plan(&settings, &catalog).expect("memory");
            check(&model, &settings, &new);
            let is_newly_rooted = (was_rooted, is_rooted(&model)) == (Some(false), Some(true));
            prop_assert_eq!(new.is_newly_rooted(&before), is_newly_rooted);
            // Nothing of a module that has gone is left, and settings that are not narrowed need no
            // news.
            if !model.has_module && !settings.needs_news() {
                let hooked = before.hooked().expect("memory");
                let gone = |name: &str| name.starts_with('g');
                prop_assert!(hooked.is_none_or(|set| !names(&set).iter().any(|name| gone(name))));
            }
            before = new;
        }
    }

    #[test]
    fn memory_runs_out_anywhere(steps in prop::collection::vec(step(), 1..8)) {
        let catalog = catalog(true);
        let mut settings = OwnSettings::new();
        for step in &steps {
            let mut left = 0;
            loop {
                let done = memory::with_allocations(left, || {
                    let new = do_step(&settings, step, &catalog)?;
                    plan(&new, &catalog)?;
                    Ok(new)
                });
                match done {
                    Err(ListError::NoMemory) => left += 1,
                    Err(ListError::Word(..)) => break,
                    Ok(new) => {
                        settings = new;
                        break;
                    }
                }
                prop_assert!(left < 1000);
            }
            // Its end needs none.
            let mut ended = settings.duplicate().expect("memory");
            memory::with_allocations(0, || ended.end_recording());
            let plan = plan(&ended, &catalog).expect("memory");
            prop_assert!(plan.hooked().expect("memory").is_some_and(|set| set.is_empty()));
        }
    }
}

#[test]
fn modules_that_are_there_by_now() {
    let mut settings = OwnSettings::new();
    let without = catalog(false);
    let waiting = Step::Edit(0, vec![":mod:m"], true);
    settings = do_step(&settings, &waiting, &without).unwrap_or_else(|_| panic!("it waits"));
    assert!(settings.lists.wait_for(b"m") && !settings.lists.wait_for(b"n"));
    settings.lists.resolve_loaded(&without).expect("memory");
    assert!(settings.lists.wait_for(b"m"));
    settings
        .lists
        .resolve_loaded(&catalog(true))
        .expect("memory");
    assert!(!settings.lists.wait_for(b"m"));
    let filter = settings.lists.get(FunctionList::Filter).expect("a filter");
    assert_eq!(names(filter), Names::from(["g0", "g1", "g2"]));
}

#[test]
fn news_of_modules() {
    // Cases in which new functions must be hooked by hand, or need not: (tracer, filter, notrace,
    // stacks, profile).
    for (tracer, words, options, profile, wanted) in [
        (Tracer::Nop, "", None, false, false),
        (Tracer::Function, "", None, false, false),
        (Tracer::Function, "f0", None, false, true),
        (
            Tracer::Function,
            "",
            Some(TraceOption::FuncStackTrace),
            false,
            true,
        ),
        (Tracer::FunctionGraph, "", None, false, true),
        (Tracer::Nop, "", None, true, true),
        (Tracer::Function, "", None, true, true),
    ] {
        let mut settings = OwnSettings::new();
        settings.tracer = tracer;
        settings.profile = profile;
        if let Some(option) = options {
            settings.options = settings.options.with(option, true);
        }
        let catalog = catalog(false);
        let known = KnownFunctions {
            catalog: &catalog,
            address_of: &|_| None,
        };
        let edited =
            settings.edit_list(FunctionList::Notrace, words.as_bytes(), true, known, &count);
        edited.expect("good words");
        assert_eq!(settings.needs_news(), wanted, "{} {words}", tracer.name());
        let edited = settings.edit_list(FunctionList::Filter, b"f1", true, known, &count);
        edited.expect("good words");
        assert!(!settings.needs_news());
    }
}

#[test]
fn lines_of_the_catalog() {
    let mut catalog = Catalog::new();
    for (line, wanted) in [
        ("ffffffff81000000 name", Ok(())),
        ("ffffffffc0000000 name [module]", Ok(())),
        ("ffffffff81000010 __ftrace_invalid_address___16", Ok(())),
        ("ffffffff81000020 setup_ghcb", Ok(())),
        ("ffffffff81000030 load_current_idt", Ok(())),
        ("ffffffffc0000010 setup_ghcb [module]", Ok(())),
        ("ffffffff81000010", Err(BadLine::Form)),
        ("fffffffg81000010 name", Err(BadLine::Form)),
        ("", Err(BadLine::Form)),
    ] {
        assert_eq!(catalog.add(line.as_bytes()), wanted, "{line}");
    }
    catalog.finish(|_| false);
    assert_eq!(catalog.len(), 3);
    let function = catalog.at(0xffff_ffff_c000_0000).expect("there");
    assert_eq!(
        (function.name, function.module),
        (&b"name"[..], Some(&b"module"[..]))
    );
    // The symbol lies up to four bytes before the location.
    let at = |address| catalog.at_symbol(address).map(|function| function.ip);
    assert_eq!(at(0xffff_ffff_80ff_fffc), Some(0xffff_ffff_8100_0000));
    assert_eq!(at(0xffff_ffff_80ff_fffb), None);
    assert_eq!(at(0xffff_ffff_8100_0001), None);
    assert!(catalog.bytes() > 0);
    assert_eq!(
        memory::with_allocations(0, || Catalog::new().add(b"1 a")),
        Err(BadLine::NoMemory)
    );
}

#[test]
fn names_that_share_an_address() {
    let catalog = catalog(false);
    let known = KnownFunctions {
        catalog: &catalog,
        address_of: &|name| match name {
            b"alias" => Some(0x100),
            b"inlined" => Some(0x108),
            _ => None,
        },
    };
    let mut settings = OwnSettings::new();
    let mut edit =
        |text: &[u8]| settings.edit_list(FunctionList::Filter, text, true, known, &count);
    edit(b"alias").expect("another name of f0");
    use crate::engine::filter::SelectorError;
    assert_eq!(
        edit(b"f1 inlined"),
        Err(ListError::Word(3, SelectorError::NotTraceable))
    );
    assert_eq!(
        edit(b"nothing"),
        Err(ListError::Word(0, SelectorError::NoSuchFunction))
    );
    assert_eq!(
        edit(b"f1:mod:x:y nothing*"),
        Err(ListError::Word(11, SelectorError::NoSuchFunction))
    );
}
