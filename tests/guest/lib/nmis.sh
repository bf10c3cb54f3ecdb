# SPDX-License-Identifier: GPL-2.0
# What tests of NMIs share: CPU 0 interrupts CPU 1 by NMIs, for stacks that are printed. (They are no complaint of the
# kernel's: the console is to show nothing until it is done with them, which may be later.)
#
#	complaints '^$'		before the test
#	console_off		in it
#	nmi_on_cpu_1		one NMI, in which $NMI_FUNCTION is called
#	console_again		after it
#
# Others see that NMIs come at all:
#
#	nmis_of_cpus >FILE	how many each CPU has had
#	nmis_since FILE 5	each has had so many more

NMI_FUNCTION=$(pick nmi_cpu_backtrace_handler nmi_cpu_backtrace)
LEVEL=$(awk '{ print $1 }' /proc/sys/kernel/printk)

console_idle() {
	local comm
	for comm in $(grep -l '^pr/' /proc/[0-9]*/comm); do
		grep -q '^State:.*[SI] (' "${comm%comm}status" || return 1
	done
}
# complaints BUT: takes what the kernel logged, and logs again what of it were complaints, but for these.
complaints() {
	local line
	dmesg -c | grep -E -f /etc/splats | grep -vE "$1" | while read -r line; do
		echo "${line#*]}" >/dev/kmsg
	done
}
console_off() {
	echo 1 >/proc/sys/kernel/printk
}
console_again() {
	until_true 20 console_idle
	complaints 'Call Trace:|NMI backtrace for cpu|INFO: NMI handler'
	echo "$LEVEL" >/proc/sys/kernel/printk
}
nmi_on_cpu_1() {
	nmis_of_cpus >/tmp/nmis
	taskset 1 sh -c 'echo l >/proc/sysrq-trigger'
	[ "$(nmis_of_cpus | sed -n 2p)" -gt "$(sed -n 2p /tmp/nmis)" ]
}
nmis_of_cpus() {
	awk '$1 == "NMI:" { for (i = 2; $i ~ /^[0-9]+$/; i++) print $i }' /proc/interrupts
}
nmis_since() {
	nmis_of_cpus | awk -v least="$2" '
		NR == FNR { before[FNR] = $1; next }
		{ seen++; if ($1 - before[FNR] < least) missing = 1 }
		END { exit !seen || missing }' "$1" -
}
