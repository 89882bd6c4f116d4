package kafkaproto

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/hostile"
)

// TestClaimsAllocateNothing: requests of every API in its newest version, with a large number in every place.
func TestClaimsAllocateNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, e := range Table() {
		if e.By == ByNobody {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			in := kmsg.RequestForKey(e.Key)
			fill(r, reflect.ValueOf(in).Elem())
			in.SetVersion(e.Served.Max)
			body := in.AppendTo(nil)
			hostile.Claims(t, body[:min(len(body), 250)], 64<<10, func(p []byte) {
				_, _ = DecodeBody(e.Served.Max, p, kmsg.RequestForKey(e.Key))
			})
		})
	}
}
