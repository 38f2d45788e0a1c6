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
loader eval {SELECT load_extension($env(OUTLAST_EXTENSION), 'sqlite3_outlastdefault_init')}
loader close
# Journals lie in memory, and one process at a time has a pool: what examines journals' files, or starts other
# processes, is skipped, as the suite does in these permutations of its own.
set ::G(perm:name) inmemory_journal
set ::G(valgrind) 1
# The pool has batch-atomic writes; this build of SQLite does not use them.
proc atomic_batch_write {file} { return 0 }
reset_db

# A command that fails at the top level, since a journal that it looks for is no file, does not end the script.
set file [open $script]
set command ""
while {[gets $file line] >= 0} {
  append command $line "\n"
  if {![info complete $command]} continue
  set code [catch {uplevel #0 $command} message]
  if {$code == 2} break
  if {$code == 1} {
    puts "! failed at the top level: $message"
    catch {fail_test "[file tail $script]: $message"}
  }
  set command ""
}
