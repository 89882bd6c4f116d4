// Package catalog holds what bills and capacities are computed from: unit prices, instance types, and the CPU that was
// measured. All three are data files, embedded; prices can be overridden by a file of the same form.
package catalog

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
	"go.yaml.in/yaml/v3"
)

//go:embed prices.yaml
var pricesFile []byte

// maxPricesFile bounds what is read of a price file.
const maxPricesFile = 1 << 20

var (
	// ErrUnknownPrice is an override of, or a look-up for, a price that no bill uses.
	ErrUnknownPrice = errors.New("unknown price")
	// ErrUnknownInstance is an instance type that instances.yaml does not list.
	ErrUnknownInstance = errors.New("unknown instance type")
	// ErrUnknownShape is a shape of load that measured.yaml does not list.
	ErrUnknownShape = errors.New("unknown shape")
)

// Price is what one unit costs.
type Price struct {
	Name   string          `yaml:"name"`
	USD    decimal.Decimal `yaml:"-"`
	Unit   string          `yaml:"unit"` // as printed behind the price: h, GB-month, PUT
	Region string          `yaml:"region"`
	Date   string          `yaml:"date"` // year, or year and month
	Source string          `yaml:"source"`
	Note   string          `yaml:"note"`

	Amount string `yaml:"usd"` // USD as written in the file
}

// PriceSet is the prices of one bill. Region, date and source are those of prices that name none.
type PriceSet struct {
	Name   string  `yaml:"name"`
	Region string  `yaml:"region"`
	Date   string  `yaml:"date"`
	Source string  `yaml:"source"`
	Prices []Price `yaml:"prices"`
}

// Get gives the price called name. The error is ErrUnknownPrice.
func (s *PriceSet) Get(name string) (Price, error) {
	for _, p := range s.Prices {
		if p.Name == name {
			return p, nil
		}
	}
	return Price{}, fmt.Errorf("%w %q in set %s", ErrUnknownPrice, name, s.Name)
}

// Prices are all sets, by name.
type Prices struct {
	Sets []PriceSet `yaml:"sets"`
}

// Set gives the set called name. The error is ErrUnknownPrice.
func (p *Prices) Set(name string) (*PriceSet, error) {
	for i := range p.Sets {
		if p.Sets[i].Name == name {
			return &p.Sets[i], nil
		}
	}
	return nil, fmt.Errorf("%w: no set %q", ErrUnknownPrice, name)
}

// Own is the set of Freshet's own bill. Instance types are prices of it by their name, an hour.
const Own = "freshet"

// LoadPrices reads the embedded prices and, if path is not empty, lays those of a file of the same form over them: a
// price there replaces the one of that set and name, with unit, region, date and source of the file where it has them.
// All faults of the file are in the one error.
func LoadPrices(path string) (*Prices, error) {
	prices, err := builtIn()
	if err != nil || path == "" {
		return prices, err
	}
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	over, err := parsePrices(path, data)
	if err != nil {
		return nil, err
	}
	if err := prices.override(over, path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return prices, nil
}

// builtIn returns the embedded prices, including those of instance types.
func builtIn() (*Prices, error) {
	prices, err := parsePrices("prices.yaml", pricesFile)
	if err != nil {
		return nil, err
	}
	own, err := prices.Set(Own)
	if err != nil {
		return nil, err
	}
	types, err := LoadInstances()
	if err != nil {
		return nil, err
	}
	for _, i := range types.Instances {
		own.Prices = append(own.Prices, Price{
			Name: i.Name, USD: i.USDPerHour, Unit: "h", Region: own.Region, Date: own.Date, Source: types.Source, Amount: i.HourAmount,
		})
	}
	return prices, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPricesFile+1))
	if err == nil && len(data) > maxPricesFile {
		err = fmt.Errorf("%s: more than %d bytes", path, maxPricesFile)
	}
	return data, err
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

func parsePrices(name string, data []byte) (*Prices, error) {
	prices := &Prices{}
	if err := decodeStrict(name, data, prices); err != nil {
		return nil, err
	}
	var faults []error
	for i := range prices.Sets {
		set := &prices.Sets[i]
		for j := range set.Prices {
			p := &set.Prices[j]
			usd, err := decimal.NewFromString(p.Amount)
			if err != nil || usd.IsNegative() {
				faults = append(faults, fmt.Errorf("%s: set %s, price %s: usd %q: want a number of dollars, 0 or more", name, set.Name, p.Name, p.Amount))
			}
			p.USD = usd
			setEmpty(&p.Region, set.Region)
			setEmpty(&p.Date, set.Date)
			setEmpty(&p.Source, set.Source)
		}
	}
	return prices, errors.Join(faults...)
}

// override replaces prices by those of over, which is from path. Sets say what is not their own any more.
func (p *Prices) override(over *Prices, path string) error {
	var faults []error
	for _, set := range over.Sets {
		mine, err := p.Set(set.Name)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w; there are %s", err, strings.Join(p.names(), ", ")))
			continue
		}
		for _, price := range set.Prices {
			i := slices.IndexFunc(mine.Prices, func(have Price) bool { return have.Name == price.Name })
			if i < 0 {
				faults = append(faults, fmt.Errorf("%w %q in set %s", ErrUnknownPrice, price.Name, set.Name))
				continue
			}
			old := mine.Prices[i]
			setEmpty(&price.Unit, old.Unit)
			if price.Unit != old.Unit {
				faults = append(faults, fmt.Errorf("set %s, price %s: unit %q, want %q", set.Name, price.Name, price.Unit, old.Unit))
			}
			mine.Prices[i] = price
			mine.Source += fmt.Sprintf("; %s: %s", price.Name, cmp.Or(price.Source, path))
		}
	}
	return errors.Join(faults...)
}

func (p *Prices) names() []string {
	names := make([]string, len(p.Sets))
	for i, s := range p.Sets {
		names[i] = s.Name
	}
	return names
}

func setEmpty(p *string, v string) {
	if *p == "" {
		*p = v
	}
}
