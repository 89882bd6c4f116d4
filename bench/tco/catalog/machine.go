package catalog

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

var (
	//go:embed instances.yaml
	instancesFile []byte
	//go:embed measured.yaml
	measuredFile []byte
)

// Instance is a type of virtual machine.
type Instance struct {
	Name       string  `yaml:"name"`
	VCPU       int     `yaml:"vcpu"`
	MemoryGiB  int     `yaml:"memory_gib"`
	Gbps       float64 `yaml:"gbps"` // network baseline in each direction, 10^9 bits a second
	HourAmount string  `yaml:"usd_per_hour"`

	USDPerHour decimal.Decimal `yaml:"-"`
}

// NetworkMiB is the network's baseline in MiB a second, in each direction.
func (i Instance) NetworkMiB() float64 { return i.Gbps * 1e9 / 8 / (1 << 20) }

// Instances are the types known, with where they are from.
type Instances struct {
	Source    string     `yaml:"source"`
	Instances []Instance `yaml:"instances"`
}

// LoadInstances reads the embedded instance types.
func LoadInstances() (*Instances, error) {
	all := &Instances{}
	if err := decodeStrict("instances.yaml", instancesFile, all); err != nil {
		return nil, err
	}
	var faults []error
	for n := range all.Instances {
		i := &all.Instances[n]
		usd, err := decimal.NewFromString(i.HourAmount)
		if err != nil || !usd.IsPositive() || i.VCPU <= 0 || i.MemoryGiB <= 0 || i.Gbps <= 0 {
			faults = append(faults, fmt.Errorf("instances.yaml: %s: want vcpu, memory_gib, gbps and usd_per_hour above 0", i.Name))
		}
		i.USDPerHour = usd
	}
	return all, errors.Join(faults...)
}

// Get gives the type called name. The error is ErrUnknownInstance and names those there are.
func (a *Instances) Get(name string) (Instance, error) {
	names := make([]string, len(a.Instances))
	for n, i := range a.Instances {
		if i.Name == name {
			return i, nil
		}
		names[n] = i.Name
	}
	return Instance{}, fmt.Errorf("%w %q, want one of %s", ErrUnknownInstance, name, strings.Join(names, ", "))
}

// CPU is CPU seconds for each GiB of an agent's data path.
type CPU struct {
	Name    string          `yaml:"name"`
	What    string          `yaml:"what"`
	Produce decimal.Decimal `yaml:"-"` // of bytes produced, as they crossed TCP
	Fetch   decimal.Decimal `yaml:"-"` // of bytes fetched from memory
	Get     decimal.Decimal `yaml:"-"` // of bytes read from the object store
	Source  string          `yaml:"-"` // of the measurement

	ProduceAmount string `yaml:"produce"`
	FetchAmount   string `yaml:"fetch"`
}

// Measured is the CPU that was measured.
type Measured struct {
	Source    string `yaml:"source"`
	Date      string `yaml:"date"`
	Shapes    []CPU  `yaml:"shapes"`
	GetAmount string `yaml:"get"`
}

// LoadMeasured reads the embedded measurements.
func LoadMeasured() (*Measured, error) {
	m := &Measured{}
	if err := decodeStrict("measured.yaml", measuredFile, m); err != nil {
		return nil, err
	}
	get, err := decimal.NewFromString(m.GetAmount)
	faults := []error{err}
	for n := range m.Shapes {
		s := &m.Shapes[n]
		var errs [2]error
		s.Produce, errs[0] = decimal.NewFromString(s.ProduceAmount)
		s.Fetch, errs[1] = decimal.NewFromString(s.FetchAmount)
		s.Get, s.Source = get, m.Source
		faults = append(faults, errs[:]...)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("measured.yaml: %w", err)
	}
	return m, nil
}

// Shape gives the measurement called name. The error is ErrUnknownShape.
func (m *Measured) Shape(name string) (CPU, error) {
	names := make([]string, len(m.Shapes))
	for n, s := range m.Shapes {
		if s.Name == name {
			return s, nil
		}
		names[n] = s.Name
	}
	return CPU{}, fmt.Errorf("%w %q, want one of %s", ErrUnknownShape, name, strings.Join(names, ", "))
}
