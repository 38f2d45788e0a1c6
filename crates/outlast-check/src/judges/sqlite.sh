# Looks at each database of $OUTLAST_DIR. Arguments: whether transactions are counted, databases.
counted=$1; shift
found=0
cd "$OUTLAST_DIR" || exit 1
for name; do
  if [ ! -e "$name" ]; then
    [ "$counted" = counted ] || [ "$OUTLAST_ACKED" = 0 ] || { echo "$name is missing"; exit 1; }
    continue
  fi
  told=$(sqlite3 -batch "$name" 'PRAGMA integrity_check(3)' 2>&1) && [ "$told" = ok ] || { echo "$name: $told"; exit 1; }
  if [ "$counted" = counted ]; then
    n=$(sqlite3 -batch "$name" 'SELECT ifnull(max(n), 0) FROM outlast_marks' 2>/dev/null) || n=0
    [ "${n:-0}" -le "$found" ] || found=$n
  fi
  told=$(sqlite3 -batch "$name" 'BEGIN IMMEDIATE; CREATE TABLE outlast_probe (n); ROLLBACK' 2>&1) || { echo "$name: $told"; exit 1; }
done
[ "$counted" != counted ] || echo "recovered $found"
