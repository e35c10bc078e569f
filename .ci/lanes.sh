# SPDX-License-Identifier: Apache-2.0
#
# Running lanes one after the other, none of which can keep the others from running, and
# several such rows of lanes at once.
#
# To be sourced by bash, with LOGS set to a directory.  LANE_LIMIT and TOTAL_LIMIT are the
# seconds that one lane may take and all of them together, LANE_GRACE those that what a lane
# has left behind gets to end by itself.

LANE_LIMIT=${LANE_LIMIT:-2400}
TOTAL_LIMIT=${TOTAL_LIMIT:-4800}
LANE_GRACE=${LANE_GRACE:-20}
LANES_BEGAN=$SECONDS
SUMMARY=()
FAILED=0
# The rows of lanes beside: what they write begins with this, by process id.
BESIDE=()

heading() {
    printf '\n===== %s =====\n' "$1"
}

# limited SECONDS COMMAND...: run it in a process group of its own, and no longer than that.
#
# Of SIGABRT, Python under pytest shows what all threads are at, and dies.  What takes no
# notice is killed soon after.
limited() {
    timeout --signal=ABRT --kill-after=10 "$@"
}

# left_behind MARK: the processes that a lane has started and that are still there.
left_behind() {
    local file
    for file in $(grep -lsz "^CI_LANE=$1\$" /proc/[0-9]*/environ); do
        file=${file#/proc/}
        echo "${file%/environ}"
    done
}

# end_all MARK: wait for what a lane has left behind, and kill what doesn't end.
#
# Tests start servers in sessions of their own, which a signal to the lane doesn't reach.
end_all() {
    local pid pids patience=$LANE_GRACE
    while pids=$(left_behind "$1") && [[ -n $pids ]] && ((patience-- > 0)); do
        sleep 1
    done
    for pid in $pids; do
        printf 'left behind, killed: %s\n' "$(tr '\0' ' ' <"/proc/$pid/cmdline" || true)"
        kill -KILL "$pid" || true
    done 2>/dev/null
}

# show FILE SECONDS: print what is written to it, from now on until show_the_end.
#
# A pipe would stay open, and keep us waiting, as long as a process left behind has it.
show() {
    : >"$1"
    sleep $(($2 + 60)) &
    SHOWN_UNTIL=$!
    tail -n +1 -f --pid="$SHOWN_UNTIL" "$1" &
    SHOWING=$!
}

# show_the_end: print the rest.
show_the_end() {
    kill "$SHOWN_UNTIL" || true
    wait "$SHOWN_UNTIL" "$SHOWING" || true
}

# timed FILE COMMAND...: run it, and write the seconds of processor time that it took to a file.
#
# Servers in sessions of their own, which nobody waits for, are not counted.
timed() {
    local file=$1 status=0 TIMEFORMAT='%U %S'
    shift
    { time "$@" 2>&3 || status=$?; } 3>&2 2>"$file"
    return "$status"
}

# lane NAME COMMAND...: run it, show its output, and keep its last word for the summary: what
# it took, on the wall and of the processors, and which tests were flaky.
lane() {
    local name=$1 began=$SECONDS limit=$LANE_LIMIT status=0 verdict=passed words cpu=0 test
    local left=$((TOTAL_LIMIT - (SECONDS - LANES_BEGAN))) mark="$1-$$"
    local log="$LOGS/$name.log"
    shift
    heading "$name"
    ((left >= limit)) || limit=$left
    if ((limit > 0)); then
        show "$log" "$limit"
        CI_LANE=$mark timed "$log.cpu" limited "$limit" "$@" >"$log" 2>&1 || status=$?
        cpu=$(awk '{ s += $1 + $2 } END { printf "%d", s }' "$log.cpu")
        end_all "$mark" >>"$log"
        show_the_end
        words=$(grep -E '^=+ .* in [0-9.]+s.* =+$' "$log" | tail -n 1 || true)
        case $status in
            0) ;;
            124 | 137) verdict=FAILED words="not done after $limit s; see where in $log" ;;
            *) verdict=FAILED ;;
        esac
    else
        verdict=FAILED words="not begun: the lanes before it have taken $TOTAL_LIMIT s"
    fi
    [[ $verdict == passed ]] || FAILED=1
    SUMMARY+=("$(printf '%-15s %-7s %5d s, cpu %5d s  %s' "$name" "$verdict" \
        $((SECONDS - began)) "$cpu" "$words")")
    while read -r _ test; do
        SUMMARY+=("    flaky: $test")
    done < <(grep -s '^flaky: ' "$log")
    printf -- '----- %s: %s after %d s\n' "$name" "$verdict" $((SECONDS - began))
}

# beside COMMAND: run the lanes that it runs from now on, while others run here.
#
# What they print comes when they are all done; as it comes it is in LOGS.
beside() {
    local row="$LOGS/$1"
    rm -f "$row.summary"
    (
        SUMMARY=() FAILED=0
        "$@"
        printf '%s\n' "${SUMMARY[@]}" >"$row.summary"
        exit "$FAILED"
    ) >"$row.row" 2>&1 &
    BESIDE[$!]=$row
}

# rejoin: wait for the lanes beside, show what they have printed, and take over their verdicts.
rejoin() {
    local pid row
    for pid in "${!BESIDE[@]}"; do
        row=${BESIDE[pid]}
        wait "$pid" || FAILED=1
        cat "$row.row"
        if [[ -e $row.summary ]]; then
            mapfile -t -O "${#SUMMARY[@]}" SUMMARY <"$row.summary"
        else
            FAILED=1
            SUMMARY+=("${row##*/}: the lanes beside broke off; see $row.row")
        fi
    done
    BESIDE=()
}

# summary: one line for each lane; fails if one of them has.
summary() {
    heading "summary"
    printf '%s\n' "${SUMMARY[@]}"
    printf 'total %d s\n' $((SECONDS - LANES_BEGAN))
    return "$FAILED"
}
