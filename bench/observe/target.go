package observe

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Target is a program to watch, by process id, by the URL of its metrics, or both: then CPU and memory are the kernel's.
type Target struct {
	Name    string
	PID     int    // 0: not known
	Metrics string // URL such as http://localhost:8080/metrics; empty: none
	Apart   bool   // not counted into the sums
}

// ParseTargets reads targets as users write them, NAME=PID or NAME=URL; the two of the same name are one target.
func ParseTargets(list []string) ([]Target, error) {
	var targets []Target
	var faults []error
	for _, entry := range list {
		name, where, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			faults = append(faults, fmt.Errorf("%q: want NAME=PID or NAME=URL", entry))
			continue
		}
		t := named(&targets, name)
		if pid, err := strconv.Atoi(where); err == nil && pid > 0 {
			t.PID = pid
		} else if u, err := url.Parse(where); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			t.Metrics = where
		} else {
			faults = append(faults, fmt.Errorf("%q: want a process id or an http(s) URL after %s=", entry, name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return targets, nil
}

func named(targets *[]Target, name string) *Target {
	for i := range *targets {
		if (*targets)[i].Name == name {
			return &(*targets)[i]
		}
	}
	*targets = append(*targets, Target{Name: name})
	return &(*targets)[len(*targets)-1]
}
