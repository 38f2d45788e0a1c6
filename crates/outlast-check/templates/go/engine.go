// Package engine is a counter that survives a loss of power: the program to replace by yours.
package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Put writes the counter. Once it returns, the number is there after any crash.
func Put(dir string, number int) error {
	file, err := os.Create(filepath.Join(dir, "count.new"))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprint(file, number); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(dir, "count")); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// Get reads the counter: 0 where there is none.
func Get(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "count"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}
