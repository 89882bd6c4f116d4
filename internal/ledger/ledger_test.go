package ledger

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each planted fault must be found, and a clean history must pass.
func TestLedger_FindsEachFault(t *testing.T) {
	w := Writer{Name: "a/b", Partition: 3}
	clean := []Read{{3, 0, "a/b/3/0"}, {3, 1, "a/b/3/1"}, {3, 4, "a/b/3/2"}}
	cases := []struct {
		name  string
		reads []Read
		rules Rules
		want  string
	}{
		{name: "clean", reads: clean},
		{name: "lost", reads: clean[:2], want: "lost: a/b/3/2"},
		{name: "duplicate", reads: append(clean[:3:3], Read{3, 5, "a/b/3/0"}), want: "duplicate"},
		{name: "duplicate allowed", reads: append(clean[:3:3], Read{3, 5, "a/b/3/0"}), rules: Rules{Duplicates: true}},
		{name: "reordered", reads: []Read{{3, 0, "a/b/3/0"}, {3, 1, "a/b/3/2"}, {3, 4, "a/b/3/1"}}, want: "reordered"},
		{name: "misplaced", reads: []Read{{3, 0, "a/b/3/0"}, {3, 2, "a/b/3/1"}, {3, 4, "a/b/3/2"}}, want: "misplaced"},
		{name: "phantom", reads: append(clean[:3:3], Read{3, 5, "a/b/3/9"}), want: "phantom"},
		{name: "other partition", reads: append(clean[:3:3], Read{4, 0, "a/b/3/3"}), want: "phantom"},
		{name: "offset reused", reads: append(clean[:3:3], Read{3, 4, "a/b/3/3"}), want: "read after"},
		{name: "stray", reads: []Read{{3, 0, "a/b/3/0"}, {3, 1, "a/b/3/1"}, {3, 2, "a/b/3/3"}, {3, 4, "a/b/3/2"}}, want: "reordered"},
		{name: "stray allowed", reads: []Read{{3, 0, "a/b/3/0"}, {3, 1, "a/b/3/1"}, {3, 2, "a/b/3/3"}, {3, 4, "a/b/3/2"}}, rules: Rules{Strays: true}},
		{
			name: "strays excuse no other", reads: []Read{{3, 0, "a/b/3/0"}, {3, 1, "a/b/3/2"}, {3, 4, "a/b/3/1"}},
			rules: Rules{Strays: true}, want: "reordered",
		},
		{name: "unanswered may be there", reads: append(clean[:3:3], Read{3, 5, "a/b/3/3"})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := New()
			for _, offset := range []int64{0, 1, 4, pending} {
				seq, value := l.Send(w)
				require.True(t, strings.HasPrefix(value, "a/b/3/"))
				if offset >= 0 {
					l.Ack(w, seq, offset)
				}
			}
			require.Equal(t, 3, l.Acked())
			faults := l.Check(c.reads, c.rules)
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.NotEmpty(t, faults)
			require.Contains(t, strings.Join(faults, "\n"), c.want)
		})
	}
}
