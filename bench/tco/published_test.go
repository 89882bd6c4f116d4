package tco

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// documented are all published figures that do not come out, with what does instead. Anything else must come out to the
// last digit printed.
var documented = map[string]struct {
	published, computed string
	verdict             Verdict
}{
	"kafka/replication to two zones":             {"20376", "20736", Slip},
	"kafka/network":                              {"27288", "27648", Carried},
	"kafka/total, 3 days of retention":           {"54591", "54951", Carried},
	"kafka/total, 7 days of retention":           {"94134", "94494", Carried},
	"automq-azure/total":                         {"22509", "22444", Slip},
	"automq-azure/brokers, an hour":              {"4.87", "4.88", Rounding},
	"automq-azure/blob storage, 7 days, an hour": {"16.7", "16.71", Rounding},
	"automq-azure/total, an hour":                {"31.16", "31.18", Carried},
	"aku/catch-up, backlog":                      {"30", "29", Rounding},
}

// figures are the published ones, in the order of the tables; given ones are marked.
var figures = map[string][]string{
	"warpstream":   {"3031", "508", "1788", "5327", "given 7541", "12868"},
	"kafka":        {"6912", "20376", "27288", "54591", "94134"},
	"automq-kafka": {"127.26", "2927", "6890.625", "2067.19", "28.52", "5149.97"},
	"automq":       {"127.26", "given 74.2", "given 0.43", "6890.625", "158.48", "given 98.47", "458.84", "11.2"},
	"automq-azure": {
		"3510", "given 1101", "given 12029", "0", "given 5804", "22509",
		"4.87", "1.53", "16.7", "0", "8.06", "31.16",
	},
	"aku": {"80", "50", "30", "40", "50"},
}

func TestPublished_EveryFigureComesOutOrItsSlipIsDocumented(t *testing.T) {
	tables := published(t)
	left := map[string]bool{}
	for name := range documented {
		left[name] = true
	}
	for _, table := range tables {
		var printed []string
		for _, l := range table.Lines {
			if !l.Published.Valid {
				continue
			}
			figure := l.Published.Decimal.String()
			if l.Verdict() == Given {
				figure = "given " + figure
			}
			printed = append(printed, figure)
			name := table.ID + "/" + l.Name
			want, differs := documented[name]
			delete(left, name)
			if !differs {
				require.True(t, l.Difference().IsZero(), "%s: published %s, computed %s = %s", name, l.Published.Decimal, l.Formula, l.Computed)
				continue
			}
			require.Equal(t, want.verdict, l.Verdict(), name)
			require.Equal(t, [2]string{want.published, want.computed}, [2]string{l.Published.Decimal.String(), l.Shown().String()}, name)
			require.NotEmpty(t, l.Note, "%s: a difference is explained", name)
		}
		require.Equal(t, figures[table.ID], printed, table.ID)
	}
	require.Empty(t, left, "documented, but there is no such line")
	require.Len(t, tables, len(figures))
}

func TestPublished_EveryLineShowsItsFormula(t *testing.T) {
	for _, table := range published(t) {
		require.NotEmpty(t, table.Source, table.ID)
		require.Regexp(t, `20\d\d(-\d\d)?: `, table.Prices, table.ID)
		for _, l := range table.Lines {
			require.NotEmpty(t, l.Formula, "%s/%s", table.ID, l.Name)
			require.NotEmpty(t, l.Unit, "%s/%s", table.ID, l.Name)
			if l.Verdict() == Given {
				require.NotEmpty(t, l.Note, "%s/%s: what is given says why", table.ID, l.Name)
			}
		}
	}
}

func TestPublished_MissingPriceIsAnError(t *testing.T) {
	_, err := Published(&catalog.Prices{})
	require.ErrorIs(t, err, catalog.ErrUnknownPrice)
	require.ErrorContains(t, err, "automq-azure")
}

func published(t *testing.T) []Table {
	t.Helper()
	prices, err := catalog.LoadPrices("")
	require.NoError(t, err)
	tables, err := Published(prices)
	require.NoError(t, err)
	return tables
}
