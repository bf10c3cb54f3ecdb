# What some host tests share: verdict NAME GOT WANTED, which counts.
# shellcheck shell=bash
passed=0 failed=0

verdict() {
	if [[ $2 == "$3" ]]; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		printf '%s\n' "not ok: $1: '${2:0:300}', not '$3'"
		failed=$((failed + 1))
	fi
}
