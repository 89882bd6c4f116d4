package tco

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// Formats of the output.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatCSV   = "csv"
)

// Config of a computation.
type Config struct {
	Prices string    // a file whose prices replace the embedded ones; default none
	Tables []string  // ids of the tables wanted; default all
	Format string    // default FormatTable
	Custom *Workload // Freshet's bill and the least of Apache Kafka for it; nil means the published bills and Freshet's for the same workloads
	Out    io.Writer // default standard output
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	c.Format = cmp.Or(c.Format, FormatTable)
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Validate tells all that is wrong at once.
func (c *Config) Validate() error {
	var f faults
	f.oneOf("format", c.Format, FormatTable, FormatJSON, FormatCSV)
	for _, id := range c.Tables {
		f.oneOf("tables", id, IDs()...)
	}
	if c.Custom != nil {
		c.Custom.validate(&f)
	}
	return f.err()
}

// IDs are those of all tables of the plain command, in their order.
func IDs() []string {
	return []string{
		"warpstream", "kafka", "freshet-warpstream", "automq-kafka", "automq", "freshet-elastic", "automq-azure", "freshet-azure", "aku",
	}
}

// Run computes and writes the tables.
func Run(c Config) error {
	c.ApplyDefaults()
	if err := c.Validate(); err != nil {
		return err
	}
	prices, err := catalog.LoadPrices(c.Prices)
	if err != nil {
		return err
	}
	tables, err := c.compute(prices)
	if err != nil {
		return err
	}
	switch c.Format {
	case FormatJSON:
		return WriteJSON(c.Out, tables)
	case FormatCSV:
		return WriteCSV(c.Out, tables)
	default:
		for i, t := range tables {
			if i > 0 {
				fmt.Fprintln(c.Out)
			}
			t.Write(c.Out)
		}
		return nil
	}
}

func (c *Config) compute(prices *catalog.Prices) ([]Table, error) {
	if c.Custom != nil {
		bill, err := Bill("freshet", *c.Custom, prices)
		if err != nil {
			return nil, err
		}
		floor, err := KafkaFloor(*c.Custom, prices)
		return []Table{bill, floor}, err
	}
	all, err := Published(prices)
	faults := []error{err}
	for i, id := range []string{"freshet-warpstream", "freshet-elastic", "freshet-azure"} {
		t, err := Bill(id, SameWorkloads()[i], prices)
		faults = append(faults, err)
		all = append(all, t)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	ids := IDs()
	slices.SortFunc(all, func(a, b Table) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	if len(c.Tables) > 0 {
		all = slices.DeleteFunc(all, func(t Table) bool { return !slices.Contains(c.Tables, t.ID) })
	}
	return all, nil
}
