package tco

import (
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// book hands out the prices of one set after the other and remembers what it did not find.
type book struct {
	prices *catalog.Prices
	set    *catalog.PriceSet
	faults []error
}

// use turns to a set and describes it.
func (b *book) use(set string) string {
	s, err := b.prices.Set(set)
	if err != nil {
		b.faults = append(b.faults, err)
		s = &catalog.PriceSet{Name: set}
	}
	b.set = s
	return fmt.Sprintf("%s, %s: %s", s.Region, s.Date, s.Source)
}

func (b *book) price(name string) Expr {
	p, err := b.set.Get(name)
	if err != nil {
		b.faults = append(b.faults, err)
	}
	return usd(p)
}

// Published computes every published bill from prices.
func Published(prices *catalog.Prices) ([]Table, error) {
	b := &book{prices: prices}
	tables := []Table{b.warpStream(), b.selfHosted(), b.elasticKafka(), b.elasticAutoMQ(), b.azure(), b.aku()}
	return tables, errors.Join(b.faults...)
}
