package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrices_EveryPriceSaysWhereAndWhen(t *testing.T) {
	prices, err := LoadPrices("")
	require.NoError(t, err)
	for _, set := range prices.Sets {
		for _, p := range set.Prices {
			require.NotEmpty(t, p.Unit, "%s/%s", set.Name, p.Name)
			require.NotEmpty(t, p.Region, "%s/%s", set.Name, p.Name)
			require.Regexp(t, `^20\d\d(-\d\d)?$`, p.Date, "%s/%s", set.Name, p.Name)
			require.NotEmpty(t, p.Source, "%s/%s", set.Name, p.Name)
		}
	}
}

func TestPrices_FileReplacesPricesByName(t *testing.T) {
	path := write(t, `
sets:
  - name: freshet
    region: eu-central-1
    date: 2026-01
    source: own contract
    prices:
      - {name: s3-put, usd: "0.0000054"}
`)
	prices, err := LoadPrices(path)
	require.NoError(t, err)
	set, err := prices.Set("freshet")
	require.NoError(t, err)
	put, err := set.Get("s3-put")
	require.NoError(t, err)
	require.Equal(t, "0.0000054", put.USD.String())
	require.Equal(t, [4]string{"PUT", "eu-central-1", "2026-01", "own contract"}, [4]string{put.Unit, put.Region, put.Date, put.Source})
	get, err := set.Get("s3-get")
	require.NoError(t, err)
	require.Equal(t, "us-east-1", get.Region, "what the file does not name stays")
}

func TestPrices_FaultsOfAFileComeTogether(t *testing.T) {
	path := write(t, `
sets:
  - name: freshet
    prices:
      - {name: s3-put, usd: "five"}
      - {name: s3-get, usd: "-1"}
`)
	_, err := LoadPrices(path)
	require.ErrorContains(t, err, `set freshet, price s3-put: usd "five"`)
	require.ErrorContains(t, err, `set freshet, price s3-get: usd "-1"`)
	require.ErrorContains(t, err, path)

	path = write(t, `
sets:
  - name: fresh
  - name: freshet
    prices:
      - {name: s3-post, usd: "1"}
      - {name: nat-gb, usd: "1", unit: TB}
`)
	_, err = LoadPrices(path)
	require.ErrorIs(t, err, ErrUnknownPrice)
	for _, fault := range []string{`no set "fresh"; there are warpstream-2024, `, `unknown price "s3-post" in set freshet`, `price nat-gb: unit "TB", want "GB"`} {
		require.ErrorContains(t, err, fault)
	}
}

func TestPrices_UnknownKeyNamesFileAndLine(t *testing.T) {
	path := write(t, "sets:\n  - name: freshet\n    currency: EUR\n")
	_, err := LoadPrices(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "line 3: field currency not found")
	_, err = LoadPrices(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestInstances_KnownAndUnknown(t *testing.T) {
	all, err := LoadInstances()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all.Instances), 4)
	m, err := all.Get("m6in.4xlarge")
	require.NoError(t, err)
	require.InDelta(t, 2980.2, m.NetworkMiB(), 0.1)
	_, err = all.Get("m6")
	require.ErrorIs(t, err, ErrUnknownInstance)
	require.ErrorContains(t, err, "c7gn.large, ")
}

func TestMeasured_Shapes(t *testing.T) {
	m, err := LoadMeasured()
	require.NoError(t, err)
	b, err := m.Shape("B")
	require.NoError(t, err)
	require.Equal(t, [3]string{"0.819", "0.336", "0.56"}, [3]string{b.Produce.String(), b.Fetch.String(), b.Get.String()})
	_, err = m.Shape("D")
	require.ErrorIs(t, err, ErrUnknownShape)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
