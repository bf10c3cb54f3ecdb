# Leaves out what a kernel says when it has killed tests/stress's eater of memory, which asks for it. Anybody else that is
# killed is told of.
# And what the unwinder says of an interrupt in the middle of return_to_handler(), which is the kernel's own
# (docs/upstream/orc-return-to-handler.md).
/ WARNING: stack going in the wrong direction\? at return_to_handler\+0x[0-9a-f]+\/0x[0-9a-f]+$/ { next }
/ invoked oom-killer: / { for (i = 0; i < held; i++) print line[i]; held = 0; in_report = 1 }
in_report { line[held++] = $0 }
!in_report { print }
/ Out of memory: Killed process [0-9]+ \(/ {
	if ($0 !~ /\(stress-eater\)/) for (i = 0; i < held; i++) print line[i]
	held = in_report = 0
}
END { for (i = 0; i < held; i++) print line[i] }
