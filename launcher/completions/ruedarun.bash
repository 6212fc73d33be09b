# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Completion of ruedarun's own options, then of the program and its arguments as if they stood alone.
_ruedarun() {
    local options="-np --no-mpi --mpi-args -x --output-dir --grace --dry-run --verbose --version --help"
    local word i=1
    COMPREPLY=()
    while [ "$i" -lt "$COMP_CWORD" ]; do
        word="${COMP_WORDS[i]}"
        case "$word" in
            -n | -np | --np | --mpi-args | -x | --output-dir | --grace) i=$((i + 2)) ;;
            --)
                i=$((i + 1))
                break
                ;;
            -*) i=$((i + 1)) ;;
            *) break ;;
        esac
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
        case "${COMP_WORDS[COMP_CWORD - 1]}" in
            --output-dir) mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]}") ;;
            -x) mapfile -t COMPREPLY < <(compgen -e -- "${COMP_WORDS[COMP_CWORD]}") ;;
        esac
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -F _ruedarun ruedarun
