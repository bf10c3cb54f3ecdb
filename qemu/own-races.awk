# Makes no complaint of a data race that KCSAN reports where no function of ours has any part in either access: it
# is the kernel's own. What a stack has below an interrupt or an exception was only interrupted. A report without
# an end stays a complaint.
function told(is_ours,   i) {
	if (held && !is_ours) sub(/BUG: KCSAN: /, "the kernel's own ", line[0])
	for (i = 0; i < held; i++) print line[i]
	held = in_report = 0
}
/BUG: KCSAN: / { told(1); in_report = 1; ours = /\[rust_ftrace\]/ }
!in_report { print; next }
{ line[held++] = $0 }
# (a line for each access, then its stack, then locks that are held)
/ to 0x[0-9a-f]+ of [0-9]+ bytes by / { interrupted = 0 }
/\]  asm_[a-z0-9_]+\+0x/ { interrupted = 1 }
/\]  [^ ]+\+0x[0-9a-f]+\/0x[0-9a-f]+ \[rust_ftrace\]/ && !interrupted { ours = 1 }
/\] =+$/ { told(ours) }
END { told(1) }
