# Leaves out what the kernel says of itself, whether we are there or not, where docs/upstream has told it:
# - of the unwinder, for an interrupt in the middle of return_to_handler() (orc-return-to-handler.md);
# - of RCU, for fprobe on a CPU that goes or comes (fprobe-offline-cpu.md). Printing such a report gives others in the midst of it, and
#   each has a stack: they are left out if each is of an offline CPU and in fprobe, and nothing of ours or of others in between.
# - of fprobe, that it could not be registered for want of memory (fprobe-dead-without-memory.md).
function told(is_left_out,   i) {
	if (!is_left_out) for (i = 0; i < held; i++) print line[i]
	held = depth = 0
}
/ WARNING: kernel\/trace\/fprobe\.c:[0-9]+ at register_fprobe_ips\+/ && !depth { told(0); in_memory = 1; has_none = 0 }
in_memory {
	line[held++] = $0
	# (-ENOMEM, which register_ftrace_graph() has returned)
	if (/ RAX: 00000000fffffff4 /) has_none = 1
	if (held > 1 && /BUG: |Oops:|panic|INFO: |KASAN|WARNING: /) has_none = -1
	if (/\]  <\/TASK>$/ || / ---\[ end trace / || held > 1000) {
		in_memory = 0
		told(has_none == 1)
	}
	next
}
/ WARNING: stack going in the wrong direction\? at return_to_handler\+0x[0-9a-f]+\/0x[0-9a-f]+$/ { next }
/ WARNING: suspicious RCU usage$/ {
	if (!depth) is_other = 0
	depth++
	is_offline[depth] = in_fprobe[depth] = 0
}
!depth { print; next }
{ line[held++] = $0 }
/ RCU used illegally from offline CPU!$/ { is_offline[depth] = 1 }
/\]  fprobe_(fgraph_entry|ftrace_entry|return)\+0x/ { in_fprobe[depth] = 1 }
/\]  [^? ]+ \[rust_ftrace\]/ { is_other = 1 }
# (of another CPU)
/BUG: |Oops:|panic|INFO: |KASAN|WARNING: / && !/ WARNING: suspicious RCU usage$/ { is_other = 1 }
/\]  <\/TASK>$/ {
	if (!is_offline[depth] || !in_fprobe[depth]) is_other = 1
	if (!--depth) told(!is_other)
}
# (no report is that long: its end was lost)
held > 1000 { told(0) }
END { told(0) }
