package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// Tables and formats of the output.
const (
	TableBoth     = "both"
	TableClients  = "clients"
	TableCapacity = "capacity"

	FormatTable = "table"
	FormatJSON  = "json"
	FormatCSV   = "csv"
)

// ErrInvalid is a configuration that cannot be computed; the error names every setting that is out of bounds.
var ErrInvalid = errors.New("invalid model")

// Config of a computation.
type Config struct {
	Table   string   // default TableBoth
	Format  string   // default FormatTable; CSV is of one table
	Clients []string // kinds of producers; default all
	Brokers []string // default all

	Load      Load // defaults: 12 partitions, 1 agent, records of 1 KiB, 100 MiB/s wanted
	Machine   Machine
	Shape     string   // of the CPU measured; default B
	Instances []string // default all
	Out       io.Writer
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	c.Table = cmp.Or(c.Table, TableBoth)
	c.Format = cmp.Or(c.Format, FormatTable)
	c.Load.Partitions = cmp.Or(c.Load.Partitions, 12)
	c.Load.Agents = cmp.Or(c.Load.Agents, 1)
	c.Load.RecordBytes = cmp.Or(c.Load.RecordBytes, 1024)
	c.Load.Rate = cmp.Or(c.Load.Rate, 100*mib)
	c.Machine.Zones = cmp.Or(c.Machine.Zones, 3)
	c.Machine.Fanout = cmp.Or(c.Machine.Fanout, 1)
	c.Machine.CPUHeadroom = cmp.Or(c.Machine.CPUHeadroom, 0.5)
	c.Machine.NetworkHeadroom = cmp.Or(c.Machine.NetworkHeadroom, 0.3)
	c.Shape = cmp.Or(c.Shape, "B")
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Validate tells all that is wrong at once.
func (c *Config) Validate() error {
	var faults []error
	between := func(name string, v, least, most float64) {
		if !(v >= least && v <= most) { // NaN is neither
			faults = append(faults, fmt.Errorf("%s: %v is not between %v and %v", name, v, least, most))
		}
	}
	oneOf := func(name, v string, allowed ...string) {
		if !slices.Contains(allowed, v) {
			faults = append(faults, fmt.Errorf("%s: %q is not one of %v", name, v, allowed))
		}
	}
	oneOf("table", c.Table, TableBoth, TableClients, TableCapacity)
	oneOf("format", c.Format, FormatTable, FormatJSON, FormatCSV)
	if c.Format == FormatCSV && c.Table == TableBoth {
		faults = append(faults, fmt.Errorf("CSV is of one table: %s or %s", TableClients, TableCapacity))
	}
	between("partitions", float64(c.Load.Partitions), 1, 1e6)
	between("agents", float64(c.Load.Agents), 1, 1e5)
	between("ports", float64(c.Load.Ports), 0, maxPorts)
	between("record-bytes", float64(c.Load.RecordBytes), 1, 1<<30)
	between("rate", float64(c.Load.Rate), 1, 1<<50)
	between("zones", float64(c.Machine.Zones), 1, 16)
	between("fanout", c.Machine.Fanout, 0, 1000)
	between("cpu-headroom", c.Machine.CPUHeadroom, 0, 0.95)
	between("network-headroom", c.Machine.NetworkHeadroom, 0, 0.95)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalid, errors.Join(faults...))
}

// Result is what was computed.
type Result struct {
	Bounds     []Bound    `json:"clients,omitempty"`
	Capacities []Capacity `json:"capacity,omitempty"`

	clients  []Client
	brokers  []Broker
	measured *catalog.Measured
	source   string // of instance types
}

// Run computes and writes the tables.
func Run(c Config) error {
	r, err := c.compute()
	if err != nil {
		return err
	}
	switch c.Format {
	case FormatJSON:
		e := json.NewEncoder(c.Out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	case FormatCSV:
		return r.writeCSV(c.Out)
	default:
		r.write(c.Out, &c)
		return nil
	}
}

// compute gives both tables, or the one that is wanted. All faults of the configuration come together.
func (c *Config) compute() (*Result, error) {
	clients, err := Clients()
	if err != nil {
		return nil, err
	}
	brokers, err := Brokers()
	if err != nil {
		return nil, err
	}
	types, err := catalog.LoadInstances()
	if err != nil {
		return nil, err
	}
	measured, err := catalog.LoadMeasured()
	if err != nil {
		return nil, err
	}
	r := &Result{source: types.Source, measured: measured}
	var errs [5]error
	errs[0] = c.Validate()
	r.clients, errs[1] = named("clients", clients, func(c Client) string { return c.Name }, c.Clients)
	r.brokers, errs[2] = named("brokers", brokers, func(b Broker) string { return b.Name }, c.Brokers)
	types.Instances, errs[3] = named("instances", types.Instances, func(i catalog.Instance) string { return i.Name }, c.Instances)
	m := c.Machine
	if m.CPU, err = measured.Shape(c.Shape); err != nil {
		errs[4] = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	r.fill(c, m, types.Instances)
	return r, nil
}

// fill computes the tables that are wanted.
func (r *Result) fill(c *Config, m Machine, instances []catalog.Instance) {
	if c.Table != TableCapacity {
		for _, client := range r.clients {
			for _, broker := range r.brokers {
				r.Bounds = append(r.Bounds, c.Load.Of(client, broker))
			}
		}
	}
	if c.Table != TableClients {
		for _, i := range instances {
			r.Capacities = append(r.Capacities, m.Of(i))
		}
	}
}
