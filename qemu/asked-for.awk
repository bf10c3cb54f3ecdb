# Leaves out what a kernel says when it does what tests/stress asks for:
# - it has killed the stress's eater of memory (any other task that is killed is told of);
# - it cannot go to sleep, as some tasks are busy for longer than the 20 s that it waits for them, as hooking all
#   functions is on a busy host. Whether such tasks ever end, the stress sees at its end;
# - an allocation fails that is to fail, and this is who asked for it.
/ FAULT_INJECTION: forcing a failure/ { in_fault = 1 }
in_fault && !/BUG: |WARNING: |Oops:|INFO: |panic/ {
	if (/ <\/TASK>/) in_fault = 0
	next
}
/ Freezing user space processes failed after / { is_awake = 1 }
# (the end of a stack may be lost)
/ Restarting tasks/ { is_awake = in_stack = 0 }
is_awake && /\] task:.* state:/ { in_stack = 1 }
in_stack && !/BUG: |WARNING: |Oops:|INFO: |panic/ {
	if (/ <\/TASK>/) in_stack = 0
	next
}
/ invoked oom-killer: / { for (i = 0; i < held; i++) print line[i]; held = 0; in_report = 1 }
in_report { line[held++] = $0 }
# (the beginning of a report may be lost)
!in_report && !/ Out of memory: Killed process [0-9]+ \(stress-eater\)/ { print }
/ Out of memory: Killed process [0-9]+ \(/ {
	if ($0 !~ /\(stress-eater\)/) for (i = 0; i < held; i++) print line[i]
	held = in_report = 0
}
END { for (i = 0; i < held; i++) print line[i] }
