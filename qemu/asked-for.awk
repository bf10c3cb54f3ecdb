# Leaves out what a kernel says when it has killed tests/stress's eater of memory, which asks for it. Any other task
# that is killed is told of.
/ invoked oom-killer: / { for (i = 0; i < held; i++) print line[i]; held = 0; in_report = 1 }
in_report { line[held++] = $0 }
!in_report { print }
/ Out of memory: Killed process [0-9]+ \(/ {
	if ($0 !~ /\(stress-eater\)/) for (i = 0; i < held; i++) print line[i]
	held = in_report = 0
}
END { for (i = 0; i < held; i++) print line[i] }
