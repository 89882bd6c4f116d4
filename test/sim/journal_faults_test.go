package sim

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestJournal_FindsEachFault: what a reading may show and what not, after ten records of which the last was not answered.
func TestJournal_FindsEachFault(t *testing.T) {
	value := func(offset int64, keys int) string {
		if keys > 0 {
			return string(rune('a'+offset)) + "/k" + string(rune('0'+offset%3))
		}
		return string(rune('a'+offset)) + "/"
	}
	for name, c := range map[string]struct {
		keys  int
		from  int64
		wrong func(reads map[int64]string)
		want  string
	}{
		"clean":                 {wrong: func(map[int64]string) {}},
		"trimmed":               {from: 4, wrong: func(r map[int64]string) { delete(r, 0); delete(r, 3) }},
		"lost":                  {wrong: func(r map[int64]string) { delete(r, 8) }, want: "acknowledged at 8 and is not there"},
		"lost above the start":  {from: 4, wrong: func(r map[int64]string) { delete(r, 4) }, want: "acknowledged at 4 and is not there"},
		"changed":               {wrong: func(r map[int64]string) { r[3] = "x/" }, want: `3 holds "x/", which nobody sent`},
		"moved":                 {wrong: func(r map[int64]string) { r[3], r[4] = r[4], r[3] }, want: "which was acknowledged at 4"},
		"twice":                 {wrong: func(r map[int64]string) { r[10] = r[4] }, want: "which was acknowledged at 4"},
		"unanswered moves":      {wrong: func(r map[int64]string) { r[10] = "j/" }, want: "which was read at"},
		"hole":                  {wrong: func(r map[int64]string) { delete(r, 9) }, want: "nothing at 9"},
		"older ones cleaned":    {keys: 3, wrong: func(r map[int64]string) { delete(r, 0); delete(r, 4); delete(r, 5) }},
		"the last of a key":     {keys: 3, wrong: func(r map[int64]string) { delete(r, 8) }, want: "acknowledged at 8 and is not there"},
		"all of a key":          {keys: 3, wrong: func(r map[int64]string) { delete(r, 1); delete(r, 4); delete(r, 7) }, want: "at 7 and is not there"},
		"newer one unanswered":  {keys: 3, wrong: func(r map[int64]string) { delete(r, 0); delete(r, 3); delete(r, 6) }},
		"cleaned, and one lost": {keys: 3, wrong: func(r map[int64]string) { delete(r, 2); delete(r, 8) }, want: "at 8 and is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal("t", 1, c.keys)
			all := map[int64]string{}
			for offset := range int64(10) {
				v := value(offset, c.keys)
				all[offset], j.mu.at[v] = v, -1
				if offset < 9 {
					j.mu.acked[0][offset], j.mu.at[v] = v, offset
				}
			}
			r := &reading{j: j, moments: []moment{{acked: maps.Clone(j.mu.acked[0]), end: 10}}, reads: []map[int64]*kgo.Record{{}}}
			c.wrong(all)
			for offset, v := range all {
				r.reads[0][offset] = &kgo.Record{Offset: offset, Key: []byte(keyOf(v)), Value: []byte(v)}
			}
			faults := strings.Join(r.judge(0, c.from), "\n")
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Contains(t, faults, c.want)
		})
	}
}
