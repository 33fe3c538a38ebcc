#!/usr/bin/env bash
# Audit, then write what the code host reads, whatever the verdict; exit as the audit does.
set -euo pipefail

command=(farfield audit "$MODEL" --data "$DATA" --out "$OUT" --quiet)
if [ -n "${LABEL:-}" ]; then command+=(--label "$LABEL"); fi
if [ -f "${CONFIG:-}" ]; then command+=(--config "$CONFIG"); fi
read -r -a more <<< "${OPTIONS:-}"

verdict=0
"${command[@]}" "${more[@]}" || verdict=$?
if [ ! -f "$OUT/audit.json" ] || [ "$verdict" -gt 1 ]; then exit "$verdict"; fi

farfield report "$OUT/audit.json" --format github
farfield report "$OUT/audit.json" --format sarif -o "$OUT/farfield.sarif"
farfield report "$OUT/audit.json" --format junit -o "$OUT/farfield.xml"
if [ -n "${AGAINST:-}" ]; then
  farfield diff "$AGAINST" "$OUT/audit.json" --gate || verdict=$?
fi
exit "$verdict"
