package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// listeners has the flag of each listening address. phrase precedes that address in the errors of listening. form is what the flag takes.
var listeners = []struct{ phrase, flag, form string }{
	{"listen for kafka clients on ", "--kafka-listen", "host:port"},
	{"listen for kafka clients of a zone on ", "--zone-listeners", "host:port=zone,..."},
	{"listen for other agents on ", "--peer-listen", "host:port"},
	{"listen for agents on ", "--grpc-listen", "host:port"},
	{"listen for http on ", "--http-listen", "host:port"},
}

// nameListener rewrites an error of listening as one line with the setting, its value and the remedy. It returns other errors
// unchanged.
func nameListener(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	for _, l := range listeners {
		_, rest, found := strings.Cut(err.Error(), l.phrase)
		if !found {
			continue
		}
		remedy := "set " + l.flag + " to " + l.form + " with an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			remedy = "stop the process that listens there, or set " + l.flag + " to another address"
		}
		return fmt.Errorf("%s %s: %w: %s", l.flag, strings.TrimSuffix(rest, ": "+op.Error()), op.Err, remedy)
	}
	return err
}
