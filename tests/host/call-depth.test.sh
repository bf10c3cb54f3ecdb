#!/bin/bash
# Does README.md say how deep calls are seen, as tests/guest/tracers/call-depth.sh measures it?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0

# depths DOCS: the figures of the page, in their order, one a line
depths() {
	sed -n '/^  | what watches | depth |$/,/^$/s/^  |.*| \([0-9]*\) |$/\1/p' "$1"
}
# measured GUEST-TEST: likewise, those that are measured
measured() {
	sed -n "/^DEPTHS='\$/,/^'\$/s/^[a-z_]* \([0-9]*\)\$/\1/p" "$1"
}
# compare NAME WHETHER-THEY-ARE-ALIKE SED-SCRIPT
compare() {
	local are=no
	[[ $(depths <(sed "$3" "$top/README.md")) != "$(measured "$top/tests/guest/tracers/call-depth.sh")" ]] || are=yes
	if [[ $are == "$2" ]]; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1"
		failed=$((failed + 1))
	fi
}
compare 'README.md has the depths that are measured' yes ''
compare 'another depth is found' no 's/| 54 |/| 55 |/'
compare 'one that is missing is found' no '/| 37 |/d'
(($(measured "$top/tests/guest/tracers/call-depth.sh" | wc -l) == 12)) || { echo 'not ok: depths are found' && failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
((failed == 0))
