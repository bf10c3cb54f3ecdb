// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Raw pages, the formats: the texts in `events/` that describe the records of
//! [`kernel_page`](super::kernel_page) to programs (`f_show()` of kernel/trace/trace_events.c,
//! kernel/trace/trace_entries.h, `ring_buffer_print_page_header()`).

use core::fmt::{Result, Write};

use super::kernel_page::{Layout, RecordType, PAGE_HEADER_BYTES};

/// A field of a record: its declaration in C, its offset behind the record's length, its size in
/// bytes, and whether it is signed.
struct Field(&'static str, usize, usize, bool);

/// The fields that all records begin with.
const COMMON: &[Field] = &[
    Field("unsigned short common_type", 0, 2, false),
    Field("unsigned char common_flags", 2, 1, false),
    Field("unsigned char common_preempt_count", 3, 1, false),
    Field("int common_pid", 4, 4, true),
];

const FUNCTION: &[Field] = &[
    Field("unsigned long ip", 8, 8, false),
    Field("unsigned long parent_ip", 16, 8, false),
    Field("unsigned long args[]", 24, 0, false),
];

const KERNEL_STACK: &[Field] = &[
    Field("int size", 8, 4, true),
    Field("unsigned long caller[8]", 16, 64, false),
];

const PRINT: &[Field] = &[
    Field("unsigned long ip", 8, 8, false),
    Field("char buf[]", 16, 0, false),
];

const RAW_DATA: &[Field] = &[
    Field("unsigned int id", 8, 4, false),
    Field("char buf[]", 12, 0, false),
];

const GRAPH_ENTRY: &[Field] = &[
    Field("unsigned long func", 8, 8, false),
    Field("unsigned long depth", 16, 8, false),
    Field("unsigned long args[]", 24, 0, false),
];

const GRAPH_EXIT: &[Field] = &[
    Field("unsigned long func", 8, 8, false),
    Field("unsigned int depth", 16, 4, false),
    Field("unsigned int overrun", 20, 4, false),
    Field("unsigned long long calltime", 24, 8, false),
    Field("unsigned long long rettime", 32, 8, false),
];

const GRAPH_EXIT_RETVAL: &[Field] = &[
    Field("unsigned long func", 8, 8, false),
    Field("unsigned long retval", 16, 8, false),
    Field("unsigned int depth", 24, 4, false),
    Field("unsigned int overrun", 28, 4, false),
    Field("unsigned long long calltime", 32, 8, false),
    Field("unsigned long long rettime", 40, 8, false),
];

const KERNEL_STACK_PRINT: &str = concat!(
    r#""\t=> %ps\n\t=> %ps\n\t=> %ps\n" "\t=> %ps\n\t=> %ps\n\t=> %ps\n" "\t=> %ps\n\t=> %ps\n", "#,
    "(void *)REC->caller[0], (void *)REC->caller[1], (void *)REC->caller[2], (void *)REC->caller[3], ",
    "(void *)REC->caller[4], (void *)REC->caller[5], (void *)REC->caller[6], (void *)REC->caller[7]",
);

impl RecordType {
    /// Returns the event's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::KernelStack => "kernel_stack",
            Self::GraphExit => "funcgraph_exit",
            Self::GraphEntry => "funcgraph_entry",
            Self::Print => "print",
            Self::RawData => "raw_data",
        }
    }

    const fn fields(self, layout: Layout) -> &'static [Field] {
        match self {
            Self::Function => FUNCTION,
            Self::KernelStack => KERNEL_STACK,
            Self::GraphExit if layout.retval => GRAPH_EXIT_RETVAL,
            Self::GraphExit => GRAPH_EXIT,
            Self::GraphEntry => GRAPH_ENTRY,
            Self::Print => PRINT,
            Self::RawData => RAW_DATA,
        }
    }

    /// Returns the format to print the event with, as C.
    const fn print(self, layout: Layout) -> &'static str {
        match self {
            Self::Function => r#"" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip"#,
            Self::KernelStack => KERNEL_STACK_PRINT,
            Self::GraphExit if layout.retval => concat!(
                r#""<-- %ps (%u) (start: %llx  end: %llx) over: %u retval: %lx", (void *)REC->func, "#,
                "REC->depth, REC->calltime, REC->rettime, REC->depth, REC->retval",
            ),
            Self::GraphExit => concat!(
                r#""<-- %ps (%u) (start: %llx  end: %llx) over: %u", (void *)REC->func, "#,
                "REC->depth, REC->calltime, REC->rettime, REC->depth",
            ),
            Self::GraphEntry => r#""--> %ps (%lu)", (void *)REC->func, REC->depth"#,
            Self::Print => r#""%ps: %s", (void *)REC->ip, REC->buf"#,
            Self::RawData => r#""id:%04x %08x", REC->id, (int)REC->buf[0]"#,
        }
    }
}

fn write_fields(out: &mut dyn Write, space: &str, fields: &[Field]) -> Result {
    for Field(declaration, offset, size, signed) in fields {
        let signed = u8::from(*signed);
        writeln!(
            out,
            "\tfield:{space}{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        )?;
    }
    Ok(())
}

/// Writes the `format` of an event.
pub fn write_format(out: &mut dyn Write, kind: RecordType, layout: Layout) -> Result {
    write!(out, "name: {}\nID: {}\nformat:\n", kind.name(), kind as u16)?;
    write_fields(out, "", COMMON)?;
    out.write_str("\n")?;
    write_fields(out, "", kind.fields(layout))?;
    writeln!(out, "\nprint fmt: {}", kind.print(layout))
}

/// Writes `header_page`, which describes the begin of a page.
pub fn write_page_header(out: &mut dyn Write, layout: Layout) -> Result {
    let fields = [
        Field("u64 timestamp", 0, 8, false),
        Field("local_t commit", 8, 8, true),
        Field("char overwrite", 8, 1, false),
        Field(
            "char data",
            PAGE_HEADER_BYTES,
            layout.page_bytes.saturating_sub(PAGE_HEADER_BYTES),
            false,
        ),
    ];
    write_fields(out, " ", &fields)
}

/// Writes `header_event`, which describes the begin of a record.
pub fn write_event_header(out: &mut dyn Write) -> Result {
    out.write_str(concat!(
        "# compressed entry header\n",
        "\ttype_len    :    5 bits\n",
        "\ttime_delta  :   27 bits\n",
        "\tarray       :   32 bits\n",
        "\n",
        "\tpadding     : type == 29\n",
        "\ttime_extend : type == 30\n",
        "\ttime_stamp : type == 31\n",
        "\tdata max type_len  == 28\n",
    ))
}
