# Runs one of SQLite's own test scripts with every database in a pool: `testfixture over-outlast.tcl SCRIPT`.
# OUTLAST_EXTENSION names the extension. The harness is started first: it shuts SQLite down and registers its VFS anew.
set script [lindex $argv 0]
set argv [lrange $argv 1 end]
set argv0 $script
set testdir [file dirname $script]
source $testdir/tester.tcl

catch {db close}
sqlite3 loader :memory:
sqlite3_enable_load_extension loader 1
loader eval {SELECT load_extension($env(OUTLAST_EXTENSION))}
loader close
set ::G(perm:sqlite3_args) [list -vfs outlast]
reset_db
source $script
