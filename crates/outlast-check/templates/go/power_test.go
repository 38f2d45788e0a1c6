package engine

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain runs the halves of the check in copies of this test: the program, which marks its
// transactions on standard output, and the check, which answers a line for each directory.
func TestMain(m *testing.M) {
	switch os.Getenv("ENGINE_HALF") {
	case "run":
		for number := 1; number <= 5; number++ {
			fmt.Println("I", number)
			if err := Put(os.Args[1], number); err != nil {
				panic(err)
			}
			fmt.Println("A", number)
		}
	case "check":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			dir := strings.Split(lines.Text(), "\t")[0]
			if number, err := Get(dir); err != nil {
				fmt.Println("bad", err)
			} else {
				fmt.Println("recovered", number)
			}
		}
	default:
		os.Exit(m.Run())
	}
}

// Losses of power at every moment. `outlast-check` is in PATH, or OUTLAST_CHECK names it.
func TestALossOfPowerLosesNothingAcknowledged(t *testing.T) {
	tool := os.Getenv("OUTLAST_CHECK")
	if tool == "" {
		tool = "outlast-check"
	}
	data := filepath.Join(t.TempDir(), "data")
	check := exec.Command(tool, "--dir", data, "--mutate", "fsync",
		"--server", "ENGINE_HALF=check exec "+os.Args[0],
		"--", "env", "ENGINE_HALF=run", os.Args[0], data)
	if told, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, told)
	}
}
