package bytetable

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// Update is the flag -update of all packages with golden files of stored bytes.
var Update = flag.Bool("update", false, "write golden files anew: generation.Number must rise with them")

// TB is the part of testing.TB that a Listing needs.
type TB interface {
	require.TestingT
	Helper()
}

// Listing builds a golden file: encoded bytes, split into fields by tables in the comments of the package under test. Each line has a
// field's name, form, bytes in hexadecimal, value, and whether the table fixes the value.
type Listing struct {
	// Forms return for "X of N" how many bytes N values take at the beginning of p.
	Forms map[string]func(p []byte, n int) int
	// Values are fixed values by the name in a table, such as checksums. A table must use each.
	Values map[string]uint64

	t      TB
	out    strings.Builder
	tables map[string][]*row
	named  map[string]bool // of Values
}

// New returns an empty listing.
func New(t TB) *Listing {
	t.Helper()
	return &Listing{t: t, tables: map[string][]*row{}, named: map[string]bool{}}
}

func (l *Listing) table(file, title string) []*row {
	l.t.Helper()
	key := file + ": " + title
	if l.tables[key] == nil {
		l.tables[key] = find(l.t, file, title)
	}
	fmt.Fprintf(&l.out, "# %s\n", title)
	return l.tables[key]
}

// Bytes adds encoded bytes. The table must describe all of them.
func (l *Listing) Bytes(file, title string, p []byte) {
	l.t.Helper()
	w := walk{Listing: l, data: p, left: p, fields: map[string]uint64{}}
	w.rows(l.table(file, title), "")
	require.Empty(l.t, w.left, "%s: bytes left over after %q", file, title)
}

// JSON adds a JSON object, which must have every member of its table in the same order. A line of the table has a name and a type. The
// members of objects in an array are named array[].member.
func (l *Listing) JSON(file, title string, p []byte) {
	l.t.Helper()
	var want, got []string
	for _, r := range l.table(file, title) {
		want, r.seen = append(want, r.name+"  "+r.form), true
	}
	fmt.Fprintf(&l.out, "%s\n", p)
	l.members(&got, "", json.NewDecoder(strings.NewReader(string(p))))
	require.Equal(l.t, want, got, "%s: %q", file, title)
}

// members appends name and type of the decoder's next value, and of all values inside, unless they are in the list.
func (l *Listing) members(all *[]string, name string, d *json.Decoder) {
	l.t.Helper()
	token, err := d.Token()
	require.NoError(l.t, err)
	kind, inside := fmt.Sprintf("%T", token), name
	switch token {
	case json.Delim('['):
		kind, inside = "array", name+"[]"
	case json.Delim('{'):
		kind = "object"
	}
	if line := name + "  " + strings.Replace(kind, "float64", "number", 1); kind != "object" && !slices.Contains(*all, line) {
		*all = append(*all, line)
	}
	if kind != "array" && kind != "object" {
		return
	}
	for d.More() {
		member := inside
		if kind == "object" {
			key, err := d.Token()
			require.NoError(l.t, err)
			member = strings.TrimPrefix(inside+"."+key.(string), ".")
		}
		l.members(all, member, d)
	}
	_, err = d.Token()
	require.NoError(l.t, err)
}

// Golden compares the listing with a file. The listing must have every line of its tables.
func (l *Listing) Golden(path string) {
	l.t.Helper()
	for key, rows := range l.tables {
		require.Empty(l.t, unseen(rows), "%s: no bytes of this", key)
	}
	for name := range l.Values {
		require.True(l.t, l.named[name], "no table names %q", name)
	}
	if *Update {
		require.NoError(l.t, os.WriteFile(path, []byte(l.out.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(l.t, err)
	require.Equal(l.t, string(want), l.out.String(), "a changed format raises generation.Number")
}
