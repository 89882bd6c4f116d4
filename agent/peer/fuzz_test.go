package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/id"
)

// FuzzAnswer takes in whatever another agent may send: never more bytes than a unit said, never a unit twice.
func FuzzAnswer(f *testing.F) {
	unit := append(head{size: 8}.encode(), encodeStretch(24, 8)...)
	f.Add(append(unit, "12345678"...))
	f.Add(append(append(unit, "12345678"...), head{result: resultAbsent}.encode()...))
	f.Add(unit)
	f.Add(head{size: 1 << 62, partial: true}.encode())
	z := &Zone{metrics: newZoneMetrics(prometheus.NewRegistry(), func() float64 { return 0 })}
	z.cfg.ApplyDefaults()
	z.mu.evicted = map[id.Session]uint32{}
	f.Fuzz(func(t *testing.T, body []byte) {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		in := &answer{zone: z, ctx: context.Background(), body: bufio.NewReaderSize(bytes.NewReader(body), bodyBuffer), timer: timer}
		taken := map[int]bool{}
		a := ask{Ask: &cache.Ask{Bundle: 1, Units: []cache.Unit{{}, {Part: true}}}, units: []int{0, 1}}
		missing, fault := in.takeAll(a, func(i int, in cache.Incoming) error {
			require.False(t, taken[i])
			size, left := int64(0), in.Size()
			for {
				_, length, err := in.Next()
				if errors.Is(err, io.EOF) {
					require.Equal(t, left, size)
					taken[i] = true
					return nil
				}
				if err != nil {
					return err
				}
				n, err := io.CopyN(io.Discard, in, int64(length))
				if size += n; err != nil {
					return err
				}
				require.LessOrEqual(t, size, left)
			}
		})
		for _, i := range missing {
			require.False(t, taken[i])
		}
		require.Equal(t, 2, len(missing)+len(taken))
		require.Equal(t, len(missing) > 0 || fault != nil, fault != nil)
	})
}

// FuzzParse reads requests of whoever has the key: what is taken is well-formed, and says the same when it is sent on.
func FuzzParse(f *testing.F) {
	f.Add("1", "2", "unit=whole&class=live&read=true", "7")
	f.Add("1", "2", "unit=4194304&unit=0&class=catch_up&read=0", "7")
	f.Add("-1", "x", "unit=%", "")
	f.Fuzz(func(t *testing.T, session, n, query, agent string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		r.SetPathValue("session", session)
		r.SetPathValue("n", n)
		r.Header.Set(agentHeader, agent)
		o, err := parse(r)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		require.LessOrEqual(t, len(o.Units), maxUnits)
		for _, u := range o.Units {
			require.Zero(t, u.First%cache.PartUnit)
		}
		again := httptest.NewRequestWithContext(t.Context(), http.MethodGet, uri(o), nil)
		again.SetPathValue("session", session)
		again.SetPathValue("n", n)
		again.Header.Set(agentHeader, agent)
		same, err := parse(again)
		require.NoError(t, err)
		require.Equal(t, o, same)
	})
}
