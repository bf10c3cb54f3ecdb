# Leaves out what the kernel says of itself, whether we are there or not, where docs/upstream has told it:
# - of the unwinder, for an interrupt in the middle of return_to_handler() (orc-return-to-handler.md);
# - of RCU, for fprobe on a CPU that goes or comes (fprobe-offline-cpu.md). Printing such a report gives others in the midst of it, and
#   each has a stack: they are left out if all were of an offline CPU in fprobe, and nothing of ours in between.
function told(is_left_out,   i) {
	if (!is_left_out) for (i = 0; i < held; i++) print line[i]
	held = depth = 0
}
/ WARNING: stack going in the wrong direction\? at return_to_handler\+0x[0-9a-f]+\/0x[0-9a-f]+$/ { next }
/ WARNING: suspicious RCU usage$/ {
	if (!depth) offline = stacks = of_fprobe = reports = is_ours = 0
	depth++; reports++
}
!depth { print; next }
{ line[held++] = $0 }
/ RCU used illegally from offline CPU!$/ { offline++ }
/\]  fprobe_(fgraph_entry|return)\+0x/ { of_fprobe++ }
/\]  [^? ]+ \[rust_ftrace\]/ { is_ours = 1 }
/\]  <\/TASK>$/ {
	stacks++
	if (!--depth) told(offline == reports && of_fprobe >= stacks && !is_ours)
}
# (no report is that long: its end was lost)
held > 1000 { told(0) }
END { told(0) }
