// The workload and the dump of a store in Go: the transactions of suite.py.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A key and its value.
type pair struct{ key, value string }

// What each row's store.go has, with a function open and a constant several.
type store interface {
	put(pairs []pair) error
	items(each func(key, value string)) error
	close() error
}

func value(i int) string {
	return fmt.Sprintf("%d:%s", i, strings.Repeat(string(rune('a'+i%26)), 50+900*(i%6)))
}

func pairs(i int) []pair {
	pairs := []pair{{fmt.Sprintf("k%d", i%5), value(i)}}
	if several {
		pairs = append(pairs, pair{fmt.Sprintf("m%d", i%3), value(i + 1000)}, pair{"n", strconv.Itoa(i)})
	}
	return pairs
}

func need(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	task, dir, arguments := os.Args[1], os.Args[2], os.Args[3:]
	s, err := open(dir, arguments)
	need(err)
	if task == "dump" {
		need(s.items(func(key, value string) { fmt.Println(key, value) }))
		need(s.close())
		return
	}
	transactions, err := strconv.Atoi(os.Getenv("SUITE_TRANSACTIONS"))
	if err != nil {
		transactions = 8
	}
	for i := 1; i <= transactions; i++ {
		fmt.Println("I", i)
		need(s.put(pairs(i)))
		fmt.Println("A", i)
		if i == transactions/2 {
			need(s.close())
			s, err = open(dir, arguments)
			need(err)
		}
	}
	need(s.close())
}
