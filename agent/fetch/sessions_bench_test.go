package fetch

import (
	"fmt"
	"testing"
)

// BenchmarkSessions measures requests without a free slot: a fetch that asks for a session in vain, and a fetch in a session.
func BenchmarkSessions(b *testing.B) {
	for _, slots := range []int{100, 10_000} {
		s, err := NewSessions(SessionsConfig{Slots: slots})
		if err != nil {
			b.Fatal(err)
		}
		var open []*Session
		for n := range slots {
			session, _ := s.Open(Holder{Connection: uint64(n)}, true, tracked("a"))
			open = append(open, session)
		}
		b.Run(fmt.Sprintf("refused/slots=%d", slots), func(b *testing.B) {
			one := tracked("a")
			b.ReportAllocs()
			for b.Loop() {
				if session, _ := s.Open(Holder{Connection: 1 << 40}, true, one); session != nil {
					b.Fatal("a session was opened")
				}
			}
		})
		b.Run(fmt.Sprintf("incremental/slots=%d", slots), func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				session := open[n%slots]
				if _, err := s.Get(session.ID, session.epoch, session.holder, true); err != nil {
					b.Fatal(err)
				}
				if !s.Update(session, nil, nil) {
					b.Fatal("closed")
				}
			}
		})
	}
}
