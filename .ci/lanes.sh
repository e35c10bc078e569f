# SPDX-License-Identifier: Apache-2.0
#
# Runs lanes one after the other, and several such rows at the same time.  A lane that fails or
# hangs does not keep the others from running.
#
# Source this from bash, with LOGS set to a directory.  LANE_LIMIT and TOTAL_LIMIT are the
# seconds that one lane and all lanes together may take; processes that a lane left behind get
# LANE_GRACE seconds to end by themselves.

LANE_LIMIT=${LANE_LIMIT:-2400}
TOTAL_LIMIT=${TOTAL_LIMIT:-4800}
LANE_GRACE=${LANE_GRACE:-20}
LANES_BEGAN=$SECONDS
SUMMARY=()
FAILED=0
# The rows in the background, by process id: the beginning of the names of their files.
BACKGROUND=()

heading() {
    printf '\n===== %s =====\n' "$1"
}

# limited SECONDS COMMAND...: run it in its own process group, and end it after that time.
#
# On SIGABRT, Python under pytest prints the stack of each thread, and dies.  A process that
# ignores it is killed soon after.
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
# Tests start servers in their own sessions, which a signal to the lane doesn't reach.
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
# A pipe would stay open, and keep us waiting, as long as a process left behind holds it.
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
# Servers in their own sessions are not counted: nobody waits for them.
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

# in_background COMMAND: run the lanes that COMMAND runs in the background.
#
# rejoin prints their output once all are done; until then it is in LOGS.
in_background() {
    local row="$LOGS/$1"
    rm -f "$row.summary"
    (
        SUMMARY=() FAILED=0
        "$@"
        printf '%s\n' "${SUMMARY[@]}" >"$row.summary"
        exit "$FAILED"
    ) >"$row.row" 2>&1 &
    BACKGROUND[$!]=$row
}

# rejoin: wait for the lanes in the background, print their output, and add their verdicts.
rejoin() {
    local pid row
    for pid in "${!BACKGROUND[@]}"; do
        row=${BACKGROUND[pid]}
        wait "$pid" || FAILED=1
        cat "$row.row"
        if [[ -e $row.summary ]]; then
            mapfile -t -O "${#SUMMARY[@]}" SUMMARY <"$row.summary"
        else
            FAILED=1
            SUMMARY+=("${row##*/}: the lanes in the background broke off; see $row.row")
        fi
    done
    BACKGROUND=()
}

# summary: one line for each lane; fails if one of them has.
summary() {
    heading "summary"
    printf '%s\n' "${SUMMARY[@]}"
    printf 'total %d s\n' $((SECONDS - LANES_BEGAN))
    return "$FAILED"
}
