package memlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/metadata/metalog/metalogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore_Contract(t *testing.T) {
	metalogtest.Run(t, func(*testing.T) metalogtest.Store {
		first := memlog.New()
		stores := map[string]*memlog.Store{"one": first, "other": first.Another()}
		return metalogtest.Store{Leases: first.Connect("replica"), Open: func(t *testing.T, cluster string, cfg metalog.Config) metalog.Log {
			t.Helper()
			l, _, err := stores[cluster].Open("replica", cfg)
			require.NoError(t, err)
			return l
		}}
	})
}
