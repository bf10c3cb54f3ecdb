# SPDX-License-Identifier: GPL-2.0
# What tests of cgroups share, behind ktap.sh; a kernel without cgroups ends them.

C=/tmp/cgroups
mkdir -p $C
if ! mount -t cgroup2 none $C 2>/dev/null; then
	echo '1..0 # SKIP the kernel has no cgroups'
	unload
	exit 0
fi

# groups NAME...: makes them.
groups() {
	local group
	for group; do mkdir $C/"$group"; done
}
# empty: removes all; what was in them is in the root.
empty() {
	local group task
	find $C -mindepth 1 -type d | sort -r | while read -r group; do
		while read -r task; do echo "$task" >$C/cgroup.procs 2>/dev/null || :; done <"$group"/cgroup.procs
		until_true 20 rmdir "$group"
	done
}
# anew NAME...: these, and no others.
anew() {
	empty
	groups "$@"
}
# id GROUP: its ID.
id() { stat -c %i $C/"$1"; }
