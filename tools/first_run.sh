#!/usr/bin/env bash
# Run tests as on a machine where nobody has run them: without the system user under whom root's PostgreSQL servers run.
# In: arguments of pytest. The machine keeps its users: /etc is an overlay that only this run sees.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "tools/first_run.sh: skipped, $1"
    exit 0
}

if [[ $EUID -ne 0 ]]; then
    skip "only root's servers need a system user of their own"
fi
if [[ -z ${FIRST_RUN_INSIDE-} ]]; then
    unshare --mount true 2>/dev/null || skip "this machine refuses mount namespaces"
    FIRST_RUN_INSIDE=1 exec unshare --mount "$0" "$@"
fi

scratch=$(mktemp -d)
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/changed" "$scratch/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$scratch/changed,workdir=$scratch/work" /etc \
    || skip "this machine refuses to lay a directory over /etc"
sed -i '/^embedded_postgres:/d' /etc/passwd /etc/shadow /etc/group /etc/gshadow
status=0
.venv/bin/python -m pytest "$@" || status=$?
umount --lazy /etc "$scratch"
rmdir "$scratch"
exit "$status"
