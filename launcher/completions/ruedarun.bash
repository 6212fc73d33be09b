# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Completes ruedarun's own options, and then the program and its arguments as if ruedarun were not there. It also
# completes the command rueda.
_ruedarun_values="-n -np --np -H --hosts --host --hostfile --machinefile --processes-per-host --ppn --mpi-args \
    --custom-mpi-options --network-interfaces --ssh-port --ssh-identity-file -x --env-file --config --output-dir --grace \
    --max-restarts --gpus-per-rank --min-np --min-num-proc --max-np --max-num-proc --host-discovery-script --slots-per-host \
    --elastic-timeout --reset-limit --blacklist-cooldown-range"
_ruedarun_switches="--no-mpi --share-gpu --no-torch-variables --no-thread-variables --dry-run --explain --verbose --doctor --version --help"

_ruedarun_complete_value() { # option word
    case "$1" in
        --output-dir) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        --hostfile | --machinefile | --env-file | --config | --ssh-identity-file | --host-discovery-script)
            mapfile -t COMPREPLY < <(compgen -f -- "$2")
            ;;
        -x) mapfile -t COMPREPLY < <(compgen -e -- "$2") ;;
        -H | --hosts | --host) mapfile -t COMPREPLY < <(compgen -A hostname -- "$2") ;;
        --network-interfaces)
            mapfile -t COMPREPLY < <(compgen -W "$(cd /sys/class/net && echo *)" -- "$2")
            ;;
    esac
}

_ruedarun() {
    local word i=1
    COMPREPLY=()
    while [ "$i" -lt "$COMP_CWORD" ]; do
        word="${COMP_WORDS[i]}"
        if [ "$word" = -- ]; then
            i=$((i + 1))
            break
        elif [[ " $_ruedarun_values " == *" $word "* ]]; then
            i=$((i + 2))
        elif [[ $word == -* ]]; then
            i=$((i + 1))
        else
            break
        fi
    done
    if [ "$i" -lt "$COMP_CWORD" ] || { [ "$i" -eq "$COMP_CWORD" ] && [[ ${COMP_WORDS[COMP_CWORD]} != -* ]]; }; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            compopt -o default
        fi
        return
    fi
    if [ "$i" -gt "$COMP_CWORD" ]; then
        _ruedarun_complete_value "${COMP_WORDS[COMP_CWORD - 1]}" "${COMP_WORDS[COMP_CWORD]}"
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$_ruedarun_values $_ruedarun_switches" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -F _ruedarun ruedarun

# The ids of the jobs on this host: the first column of `rueda ps`.
_rueda_jobs() { rueda ps 2>/dev/null | sed -n 's/^\(j[0-9]*\) .*/\1/p'; }

_rueda() {
    local word="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "doctor ps top stacks analyze timeline evaluate --version --help" -- "$word")
    elif [ "$command" = ps ]; then
        mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word")
    elif [ "$command" = top ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--once --json --interval --hosts --ssh-port --ssh-identity-file --help" -- "$word")
    elif [ "$command" = top ] && [[ ! ${COMP_WORDS[COMP_CWORD - 1]} =~ ^(--interval|--hosts|-H|--ssh-port|--ssh-identity-file)$ ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_rueda_jobs)" -- "$word")
    elif [ "$command" = stacks ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word")
    elif [ "$command" = stacks ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_rueda_jobs)" -- "$word")
    elif [ "$command" = analyze ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word")
    elif [ "$command" = analyze ]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    elif [ "$command" = timeline ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--output --help" -- "$word")
    elif [ "$command" = timeline ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif [ "$command" = evaluate ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = --follow ]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    elif [ "$command" = evaluate ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--follow --interval --timeout --until --newest --help" -- "$word")
    elif [ "$command" = evaluate ]; then
        compopt -o default
    elif [ "$command" = doctor ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "-np -H --hostfile --network-interfaces --ssh-port --ssh-identity-file \
            --mpi-args --help" -- "$word")
    elif [ "$command" = doctor ]; then
        _ruedarun_complete_value "${COMP_WORDS[COMP_CWORD - 1]}" "$word"
    fi
}
complete -F _rueda rueda
