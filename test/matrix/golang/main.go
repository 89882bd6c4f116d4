// Command golang runs the checks of one of Go's Kafka libraries against one cluster and prints a line of JSON for each:
//
//	golang franz-go|sarama|kafka-go BOOTSTRAP PREFIX
//
// "golang drain franz-go|sarama BOOTSTRAP TOPIC GROUP CLIENT [AGE [RACK]]" reads a topic until it is killed.
//
// "golang produce franz-go|sarama BOOTSTRAP TOPIC NAME BYTES PAUSE AGE RACK" writes a topic until its standard input ends.
//
// BOOTSTRAP is a list with commas. PAUSE and AGE are in milliseconds.
//
// It is a module of its own, so that the libraries' versions are pinned apart from the product's.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wait bounds each step of a check.
const wait = time.Minute

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// errNone is the outcome of a check of something that the library does not have.
var errNone = errors.New("the library does not have it")

// cluster is the cluster under test and the names of the topics that are there.
type cluster struct {
	bootstrap, prefix             string
	records, shared, transactions string
	regex                         []string
}

// library is one client library.
type library interface {
	list() error
	regex() error
	codec(name string, partition int32) error
	group() error
	admin() error
	transactions() error
}

func main() {
	switch os.Args[1] {
	case "drain":
		args := append(os.Args[2:], "", "")
		fmt.Fprintln(os.Stderr, drain(args[0], args[1], args[2], args[3], args[4], args[6], milliseconds(args[5])))
		os.Exit(1)
	case "produce":
		if err := produce(newTraffic(os.Args[2:])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	c := cluster{bootstrap: os.Args[2], prefix: os.Args[3]}
	c.records, c.shared, c.transactions = c.prefix+"-records", c.prefix+"-shared", c.prefix+"-transactions"
	c.regex = []string{c.prefix + "-regex-a", c.prefix + "-regex-b"}
	l, ok := map[string]library{"franz-go": franz{c}, "sarama": sarama{c}, "kafka-go": kafkago{c}}[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such library:", os.Args[1])
		os.Exit(2)
	}
	report("list", l.list)
	report("regex", l.regex)
	for p, name := range codecs {
		report(name, func() error { return l.codec(name, int32(p)) })
	}
	report("group", l.group)
	report("admin", l.admin)
	report("transactions", l.transactions)
}

// milliseconds reads a duration in milliseconds. "" is none.
func milliseconds(s string) time.Duration {
	if s == "" {
		return 0
	}
	ms, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// report runs one check and prints its outcome.
func report(check string, run func() error) {
	began := time.Now()
	err := run()
	out := map[string]any{"check": check, "ok": err == nil || errors.Is(err, errNone), "none": errors.Is(err, errNone)}
	if err != nil {
		out["detail"] = err.Error()
	}
	out["seconds"] = time.Since(began).Seconds()
	line, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// values returns n values of growing length.
func values(word string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s %d %s", word, i, strings.Repeat("x", i))
	}
	return all
}

// same compares two lists.
func same(want, got []string) error {
	if !slices.Equal(want, got) {
		return fmt.Errorf("want %d values %.200q, got %d values %.200q", len(want), want, len(got), got)
	}
	return nil
}

// sorted returns a sorted copy.
func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }

// until calls step until done reports true or the time is up.
func until(what string, done func() bool, step func() error) error {
	for limit := time.Now().Add(wait); !done(); {
		if time.Now().After(limit) {
			return fmt.Errorf("not in %s: %s", wait, what)
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// pause is a step that waits for others.
func pause() error {
	time.Sleep(20 * time.Millisecond) // sleeps: the brokers do not tell when others have done their part
	return nil
}
