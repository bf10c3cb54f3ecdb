// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `trace.dat`, as `trace-cmd` and KernelShark read it: version 7, not compressed (trace-cmd's
//! Documentation/trace-cmd/ trace-cmd.dat.v7.5.txt). Events are pages of the kernel's ring buffer,
//! with the formats of their records beside them.
//!
//! A header of 36 bytes says where the options are, which come last and say where all else is:
//!
//! | bytes | of the header                            |
//! |-------|------------------------------------------|
//! | 0-9   | 17 08 44 `tracing`                       |
//! | 10-11 | version: `7`, 0                          |
//! | 12    | 0: little-endian                         |
//! | 13    | 8: bytes of a `long`                     |
//! | 14-17 | bytes of a page                          |
//! | 18-24 | compression: `none`, 0, `1`, 0           |
//! | 25-32 | where the section of options begins      |

use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{bail, Result};
use rftrace_engine::engine::decode::{Event, EventKind};
use rftrace_engine::engine::event_format::{write_event_header, write_format, write_page_header};
use rftrace_engine::engine::graph::time_of;
use rftrace_engine::engine::kernel_page::{
    KernelPage, Layout, RecordType, PAGE_BYTES, PAGE_HEADER_BYTES,
};
use rftrace_engine::engine::slot::Task;

use super::About;
use crate::kernel::KernelSymbols;
use crate::stream::{Events, Item, OwnedExtras};

const MAGIC: &[u8] = b"\x17\x08\x44tracing7\0\0\x08";
const COMPRESSION: &[u8] = b"none\x001\0";
/// Offset in the header of the place of the options.
const OPTIONS_PLACE: u64 = 25;

/// Numbers of sections, which are also those of the options that give their places.
mod section {
    pub(super) const OPTIONS: u16 = 0;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const HEADERS: u16 = 16;
    pub(super) const FTRACE_FORMATS: u16 = 17;
    pub(super) const FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
    pub(super) const PRINTK: u16 = 20;
    pub(super) const CMDLINES: u16 = 21;
}

/// Numbers of options that have no section.
mod option {
    pub(super) const STATS: u16 = 2;
    pub(super) const CLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPUS: u16 = 8;
    pub(super) const VERSION: u16 = 9;
}

/// Bytes of a page that leave room for the number of losses behind its records, whatever they are.
const ROOM: usize = PAGE_BYTES - 8;
/// Bits 0-19 of a page's second word: bytes of its records.
const COMMIT: u64 = 0xf_ffff;

/// Names of the clocks in trace-cmd.
const CLOCKS: [&str; 9] = [
    "local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai",
];

/// The pages of a CPU.
struct CpuPages {
    page: KernelPage<Vec<u8>>,
    pages: BufWriter<File>,
    count: u64,
    /// Events that were lost before those in the page.
    lost: u64,
    /// The task that was seen last.
    task: Option<Task>,
}

impl CpuPages {
    fn new(folder: &Path, layout: Layout) -> io::Result<Self> {
        Ok(Self {
            page: KernelPage::new(vec![0; ROOM], layout),
            // The file has no name, so nothing is left of it.
            pages: BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(folder)?),
            count: 0,
            lost: 0,
            task: None,
        })
    }

    fn push(&mut self, event: &Event, owned_extras: &OwnedExtras, layout: Layout) -> Result<()> {
        if event.lost != 0 {
            // The count of losses stands at the start of a page, so a loss ends the page before.
            self.finish()?;
            self.lost = event.lost;
        }
        if add(&mut self.page, event, owned_extras) {
            return Ok(());
        }
        self.finish()?;
        if add(&mut self.page, event, owned_extras) {
            return Ok(());
        }
        // The longest mark takes a whole page.
        let room = std::mem::replace(&mut self.page, KernelPage::new(vec![0; PAGE_BYTES], layout));
        let is_added = add(&mut self.page, event, owned_extras);
        self.finish()?;
        self.page = room;
        match is_added {
            true => Ok(()),
            false => bail!("an event at {} ns is larger than a page", event.time),
        }
    }

    /// Ends the page, if there is one.
    fn finish(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let lost = std::mem::take(&mut self.lost);
        self.page.finish(lost);
        let mut bytes = [0; PAGE_BYTES];
        let page = self.page.bytes();
        bytes[..page.len()].copy_from_slice(page);
        if page.len() == ROOM && lost != 0 {
            let commit = bytes[8..16]
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word));
            let end = PAGE_HEADER_BYTES + (commit & COMMIT) as usize;
            bytes[end..end + 8].copy_from_slice(&lost.to_le_bytes());
        }
        self.pages.write_all(&bytes)?;
        self.count += 1;
        self.page.clear();
        Ok(())
    }
}

/// Adds an event to a page; returns false if there is no room.
fn add(page: &mut KernelPage<Vec<u8>>, event: &Event, owned_extras: &OwnedExtras) -> bool {
    if !event.has_extras {
        return page.push_plain(event, event.time, event.duration);
    }
    let extras = &owned_extras.extras;
    let (callers, text) = (
        &mut owned_extras.stack.iter().copied(),
        &mut owned_extras.text.iter().copied(),
    );
    let time = time_of(event, extras);
    page.push(event, extras, callers, text, time, event.duration)
}

/// The pages of all CPUs.
struct Pages<'a> {
    folder: &'a Path,
    cpus: BTreeMap<u32, CpuPages>,
    layout: Layout,
    /// True once a call has ended: it is known then whether return values were recorded.
    is_settled: bool,
    /// The last name of each task.
    comms: BTreeMap<i32, [u64; 2]>,
}

impl Pages<'_> {
    fn push(&mut self, item: &Item, owned_extras: &OwnedExtras) -> Result<()> {
        let event = &item.event;
        if !self.is_settled && matches!(event.what, EventKind::Call | EventKind::Return) {
            self.settle(owned_extras.extras.retval.is_some())?;
        }
        let cpu = match self.cpus.entry(item.cpu) {
            Entry::Occupied(cpu) => cpu.into_mut(),
            Entry::Vacant(cpu) => cpu.insert(CpuPages::new(self.folder, self.layout)?),
        };
        cpu.push(event, owned_extras, self.layout)?;
        if cpu.task.replace(event.task) != Some(event.task) {
            self.comms.insert(event.task.pid(), event.task.comm);
        }
        Ok(())
    }

    /// Takes the layout that the first return asks for. No page has a return so far, so all are the
    /// same in both layouts.
    fn settle(&mut self, retval: bool) -> io::Result<()> {
        self.is_settled = true;
        self.layout.retval = retval;
        for cpu in self.cpus.values_mut() {
            cpu.finish()?;
            cpu.page = KernelPage::new(vec![0; ROOM], self.layout);
        }
        Ok(())
    }
}

/// A `trace.dat` in the making.
struct Dat<'a> {
    file: BufWriter<&'a mut File>,
    at: u64,
    /// Places of the sections.
    places: Vec<(u16, u64)>,
}

impl Dat<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Begins a section here, with its header.
    fn begin(&mut self, number: u16, bytes: u64) -> io::Result<()> {
        self.places.push((number, self.at));
        // Not compressed (2 bytes), no name (4 bytes).
        self.put(&number.to_le_bytes())?;
        self.put(&[0; 6])?;
        self.put(&bytes.to_le_bytes())
    }

    fn section(&mut self, number: u16, contents: &[u8]) -> io::Result<()> {
        self.begin(number, contents.len() as u64)?;
        self.put(contents)
    }

    /// Begins the section of the events: pages follow, from the next whole one on.
    fn buffer(&mut self, about: &About<'_>, pages: Pages<'_>) -> io::Result<Vec<u8>> {
        let mut cpus = pages.cpus;
        let mut bytes = 0;
        for cpu in cpus.values_mut() {
            cpu.finish()?;
            bytes += cpu.count * PAGE_BYTES as u64;
        }
        let place = self.at;
        let start = (place + 16).next_multiple_of(PAGE_BYTES as u64);
        let padding = start - place - 16;
        self.begin(section::BUFFER, padding + bytes)?;
        self.put(&vec![0; padding as usize])?;
        let mut numbers: Vec<u32> = about.settings.cpus.clone();
        numbers.extend(cpus.keys());
        numbers.sort_unstable();
        numbers.dedup();
        let mut option = Vec::new();
        option.extend(place.to_le_bytes());
        option.push(0);
        option.extend(clock(about).bytes());
        option.push(0);
        option.extend((PAGE_BYTES as u32).to_le_bytes());
        option.extend((numbers.len() as u32).to_le_bytes());
        for number in numbers {
            option.extend(number.to_le_bytes());
            option.extend(self.at.to_le_bytes());
            let mut bytes = 0;
            if let Some(cpu) = cpus.remove(&number) {
                let mut pages = cpu.pages.into_inner().map_err(|error| error.into_error())?;
                pages.seek(SeekFrom::Start(0))?;
                self.file.flush()?;
                bytes = io::copy(&mut pages, *self.file.get_mut())?;
                self.at += bytes;
            }
            option.extend(bytes.to_le_bytes());
        }
        Ok(option)
    }
}

/// Writes all of `events` to an empty file. Pages go to files without names in `folder` until their
/// place is known.
///
/// # Errors
///
/// If the events cannot be had, or the file cannot be written.
pub fn write(
    file: &mut File,
    folder: &Path,
    about: &About<'_>,
    events: &mut impl Events,
) -> Result<()> {
    let mut pages = Pages {
        folder,
        cpus: BTreeMap::new(),
        layout: Layout::default(),
        is_settled: false,
        comms: BTreeMap::new(),
    };
    let none = OwnedExtras::default();
    while let Some(item) = events.next()? {
        let owned_extras = match item.event.has_extras {
            true => events.owned_extras(),
            false => &none,
        };
        pages.push(&item, owned_extras)?;
    }
    let mut dat = Dat {
        file: BufWriter::with_capacity(1 << 18, file),
        at: 0,
        places: Vec::new(),
    };
    dat.put(MAGIC)?;
    dat.put(&(PAGE_BYTES as u32).to_le_bytes())?;
    dat.put(COMPRESSION)?;
    dat.put(&[0; 8])?;
    dat.section(section::HEADERS, &headers(pages.layout)?)?;
    dat.section(section::FTRACE_FORMATS, &formats(pages.layout)?)?;
    dat.section(section::FORMATS, &0_u32.to_le_bytes())?;
    let symbols = kallsyms(about.symbolizer.borrow().symbols());
    let mut contents = (symbols.len() as u32).to_le_bytes().to_vec();
    contents.extend(symbols.bytes());
    dat.section(section::KALLSYMS, &contents)?;
    dat.section(section::PRINTK, &0_u32.to_le_bytes())?;
    dat.section(section::CMDLINES, &counted(&cmdlines(&pages.comms)))?;
    let last_cpu = pages
        .cpus
        .keys()
        .max()
        .max(about.settings.cpus.iter().max());
    let cpus = last_cpu.map_or(1, |last| last + 1);
    let buffer = dat.buffer(about, pages)?;
    let options_place = dat.at;
    let options = options(about, &dat.places, &buffer, cpus);
    dat.section(section::OPTIONS, &options)?;
    dat.file.seek(SeekFrom::Start(OPTIONS_PLACE))?;
    dat.file.write_all(&options_place.to_le_bytes())?;
    Ok(dat.file.flush()?)
}

/// Returns text with its length (8 bytes) before it.
fn counted(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// Returns descriptions of the headers of pages and records.
fn headers(layout: Layout) -> Result<Vec<u8>> {
    let (mut page, mut event) = (String::new(), String::new());
    write_page_header(&mut page, layout)?;
    write_event_header(&mut event)?;
    let mut bytes = b"header_page\0".to_vec();
    bytes.extend(counted(page.as_bytes()));
    bytes.extend(b"header_event\0");
    bytes.extend(counted(event.as_bytes()));
    Ok(bytes)
}

/// Returns descriptions of the records.
fn formats(layout: Layout) -> Result<Vec<u8>> {
    let records = [
        RecordType::Function,
        RecordType::GraphEntry,
        RecordType::GraphExit,
        RecordType::KernelStack,
        RecordType::Print,
        RecordType::RawData,
    ];
    let mut bytes = (records.len() as u32).to_le_bytes().to_vec();
    for record in records {
        let mut text = String::new();
        write_format(&mut text, record, layout)?;
        bytes.extend(counted(text.as_bytes()));
    }
    Ok(bytes)
}

/// Returns functions as lines of `/proc/kallsyms`, with the one name that each has here.
fn kallsyms(symbols: &KernelSymbols) -> String {
    let mut text = String::new();
    for address in symbols.functions() {
        let name = symbols.name(address);
        let mut at = symbols.at(address).iter();
        let module = at
            .find(|symbol| *symbol.name == name)
            .and_then(|symbol| symbol.module.as_ref());
        // Writing to a String does not fail.
        let _ = match module {
            Some(module) => writeln!(text, "{address:016x} t {name}\t[{module}]"),
            None => writeln!(text, "{address:016x} t {name}"),
        };
    }
    text
}

/// Returns names of tasks as lines, as `saved_cmdlines` has them.
fn cmdlines(comms: &BTreeMap<i32, [u64; 2]>) -> Vec<u8> {
    let mut text = Vec::new();
    for (pid, comm) in comms.iter().filter(|(pid, _)| **pid != 0) {
        let task = Task {
            ids: 0,
            comm: *comm,
        };
        let mut bytes = [0; 16];
        text.extend(format!("{pid} ").bytes());
        let name = task.name(&mut bytes).iter();
        text.extend(name.map(|byte| if *byte == b'\n' { b'?' } else { *byte }));
        text.push(b'\n');
    }
    text
}

fn clock<'a>(about: &'a About<'_>) -> &'a str {
    match about.settings.clock.as_str() {
        "" => "local",
        clock => clock,
    }
}

/// Returns the contents of the section that gives the places of all others.
fn options(about: &About<'_>, places: &[(u16, u64)], buffer: &[u8], cpus: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |number: u16, data: &[u8]| {
        bytes.extend(number.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
    };
    for (number, place) in places {
        match *number {
            section::BUFFER => put(section::BUFFER, buffer),
            number => put(number, &place.to_le_bytes()),
        }
    }
    let settings = about.settings;
    let clock = clock(about);
    let mut clocks: Vec<String> = CLOCKS.iter().map(|name| (*name).to_owned()).collect();
    match CLOCKS.iter().position(|name| *name == clock) {
        Some(index) => clocks[index] = format!("[{clock}]"),
        None => clocks.push(format!("[{clock}]")),
    }
    put(option::CLOCK, format!("{}\0", clocks.join(" ")).as_bytes());
    put(option::CPUS, &cpus.to_le_bytes());
    let uname = format!(
        "Linux {} {} {} {}\0",
        settings.host, settings.release, settings.version, settings.machine
    );
    put(option::UNAME, uname.as_bytes());
    put(
        option::VERSION,
        format!("rftrace {}\0", settings.rftrace).as_bytes(),
    );
    for cpu in about.end.map_or(&[][..], |end| &end.cpus) {
        let stats = format!(
            "CPU: {}\nentries: 0\noverrun: {}\ncommit overrun: {}\nbytes: 0\ndropped events: {}\nread events: {}\n\0",
            cpu.cpu, cpu.overwritten, cpu.commit_overrun, cpu.dropped, cpu.read
        );
        put(option::STATS, stats.as_bytes());
    }
    put(section::OPTIONS, &0_u64.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rftrace_engine::engine::marker::MAX_MARKER;

    use super::*;

    /// Returns the pages of a CPU on which these marks were written, each after so many losses.
    fn pages(marks: &[(usize, u64)]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let mut cpu = CpuPages::new(folder.path(), Layout::default()).unwrap();
        for (length, lost) in marks {
            let event = Event {
                time: 1_000,
                what: EventKind::Marker,
                lost: *lost,
                has_extras: true,
                ..Event::default()
            };
            let owned_extras = OwnedExtras {
                text: vec![b'x'; *length],
                ..OwnedExtras::default()
            };
            cpu.push(&event, &owned_extras, Layout::default()).unwrap();
        }
        cpu.finish().unwrap();
        let mut file = cpu.pages.into_inner().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_page_says_how_many_were_lost_however_full_it_is() {
        let mut fullest = 0;
        for length in 3900..=MAX_MARKER {
            let bytes = pages(&[(4, 7), (length, 0)]);
            let used = (word(&bytes, 8) & COMMIT) as usize;
            assert_eq!(word(&bytes, 8) >> 30, 3, "{length}");
            assert_eq!(word(&bytes, PAGE_HEADER_BYTES + used), 7, "{length}");
            fullest = fullest.max(used);
        }
        assert!(fullest > ROOM - PAGE_HEADER_BYTES - 8, "{fullest}");
    }

    #[test]
    fn a_loss_is_at_the_beginning_of_a_page() {
        let bytes = pages(&[(4, 0), (4, 3), (4, 0), (4, 9)]);
        assert_eq!(bytes.len(), 3 * PAGE_BYTES);
        let flags = bytes.chunks(PAGE_BYTES).map(|page| word(page, 8) >> 30);
        assert_eq!(Vec::from_iter(flags), [0, 3, 3]);
    }

    #[test]
    fn the_longest_mark_fits() {
        assert_eq!(
            pages(&[(4, 0), (MAX_MARKER, 0), (4, 0)]).len(),
            3 * PAGE_BYTES
        );
    }
}
