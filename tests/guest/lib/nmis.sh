# SPDX-License-Identifier: GPL-2.0
# What tests of NMIs share: CPU 0 interrupts CPU 1 by NMIs, for stacks that are printed. (They are no complaint of the
# kernel's: the console is to show nothing until it is done with them, which may be later.)
#
#	complaints '^$'		before the test
#	console_off		in it
#	nmi_on_cpu_1		one NMI, in which $NMI_FUNCTION is called
#	console_again		after it

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
	taskset 1 sh -c 'echo l >/proc/sysrq-trigger'
}
