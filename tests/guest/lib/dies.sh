# SPDX-License-Identifier: GPL-2.0
# What the tests share in which the kernel dies, each in a guest of its own. They say what is to be on the console then, and
# qemu/judge-death looks whether it is: lines of
#
#	# says REGEX		the console has it
#	# dump NAME		the trace of that instance (- for the top one) is shown, next, with these lines and no others:
#	# = LINE		this one
#	# ~ REGEX		one like this
#	# ~~ REGEX		some like this
#	# allows REGEX		the kernel may complain so

needs_module
insmod "$MOD" || exit 1

# opens COUNT [CPU]: so many calls of F.
opens() {
	local count=$1
	while [ "$count" -gt 0 ]; do
		taskset "$((1 << ${2:-0}))" dd if=/dev/cpu/0/cpuid of=/dev/null bs=16 count=1 2>/dev/null
		count=$((count - 1))
	done
}

# expect NAME FILE [REGEX...]: the trace in that file is to be shown, and behind it lines like these.
expect() {
	local name=$1 file=$2 line
	shift 2
	echo "# dump $name"
	grep -v '^#' "$file" | sed '/^$/d; s/^/# = /'
	for line; do
		case $line in
		'~~ '*) echo "# $line" ;;
		*) echo "# ~ $line" ;;
		esac
	done
}

# dies WAY...: there is no way back.
dies() {
	# (setting it waits until all that was written is out)
	stty -F /dev/ttyS1 raw -echo clocal
	"$@"
	sleep 60
	echo "not ok 1 the kernel dies"
}

# by WAY CPU
by() {
	taskset "$((1 << $2))" sh -c "echo $1 $2 >/sys/module/dies_by/parameters/way"
}
