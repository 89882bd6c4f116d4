package model

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	//go:embed clients.yaml
	clientsFile []byte
	//go:embed brokers.yaml
	brokersFile []byte
)

// Client is a kind of producer.
type Client struct {
	Name          string   `yaml:"name"`
	What          string   `yaml:"what"`
	Version       string   `yaml:"version"`
	Source        string   `yaml:"source"`
	InFlight      int64    `yaml:"in_flight"`      // requests of one connection
	BatchBytes    int64    `yaml:"batch_bytes"`    // most of one batch
	RequestBytes  int64    `yaml:"request_bytes"`  // most of one request
	OnePartition  bool     `yaml:"one_partition"`  // a request holds one partition's batch
	OneBatch      bool     `yaml:"one_batch"`      // a partition has one batch in flight
	BufferBytes   int64    `yaml:"buffer_bytes"`   // of what is not yet acknowledged; 0 is unbounded
	BufferRecords int64    `yaml:"buffer_records"` // the same in records
	LingerMs      int64    `yaml:"linger_ms"`
	Settings      Settings `yaml:"settings"`
}

// Settings are what a client calls its bounds; empty where it has none.
type Settings struct {
	Batch   string `yaml:"batch"`
	Request string `yaml:"request"`
	Buffer  string `yaml:"buffer"`
	Records string `yaml:"records"`
}

// Broker is a kind of broker, in one set-up.
type Broker struct {
	Name      string  `yaml:"name"`
	What      string  `yaml:"what"`
	TypicalMs float64 `yaml:"typical_ms"` // p50 or mean to a produce's answer
	P99Ms     float64 `yaml:"p99_ms"`     // 0 if not known
	Serves    int64   `yaml:"serves"`     // requests of a connection at a time; 0 is all
	Ports     int     `yaml:"ports"`      // node ids of one agent
	How       string  `yaml:"how"`        // published, measured, modelled
	Source    string  `yaml:"source"`
}

// Clients reads the embedded clients.
func Clients() ([]Client, error) {
	var file struct {
		Clients []Client `yaml:"clients"`
	}
	if err := decodeStrict("clients.yaml", clientsFile, &file); err != nil {
		return nil, err
	}
	var faults []error
	for _, c := range file.Clients {
		if c.InFlight <= 0 || c.BatchBytes <= 0 || c.RequestBytes <= 0 || c.Source == "" || c.Version == "" {
			faults = append(faults, fmt.Errorf("clients.yaml: %s: want in_flight, batch_bytes, request_bytes above 0, version and source", c.Name))
		}
	}
	return file.Clients, errors.Join(faults...)
}

// Brokers reads the embedded brokers.
func Brokers() ([]Broker, error) {
	var file struct {
		Brokers []Broker `yaml:"brokers"`
	}
	if err := decodeStrict("brokers.yaml", brokersFile, &file); err != nil {
		return nil, err
	}
	var faults []error
	for _, b := range file.Brokers {
		if b.TypicalMs <= 0 || b.Ports <= 0 || b.Source == "" || b.How == "" {
			faults = append(faults, fmt.Errorf("brokers.yaml: %s: want typical_ms and ports above 0, how and source", b.Name))
		}
	}
	return file.Brokers, errors.Join(faults...)
}

// decodeStrict reads YAML, in which an unknown key is an error; name is the file's, for errors.
func decodeStrict(name string, data []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// named gives the items that are called names, in their own order; all if there are no names. Unknown ones are ErrInvalid.
func named[T any](kind string, all []T, name func(T) string, names []string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, item := range all {
		known[i] = name(item)
	}
	var faults []error
	for _, n := range names {
		if !slices.Contains(known, n) {
			faults = append(faults, fmt.Errorf("%w: %s: %q is not one of %s", ErrInvalid, kind, n, strings.Join(known, ", ")))
		}
	}
	var chosen []T
	for i, item := range all {
		if slices.Contains(names, known[i]) {
			chosen = append(chosen, item)
		}
	}
	return chosen, errors.Join(faults...)
}
