package bytetable

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
)

// walk goes over bytes by a table.
type walk struct {
	*Listing
	data, left []byte
	fields     map[string]uint64 // the integers so far
}

var (
	times = regexp.MustCompile(`^(?:.*, )?(\S+) times:$`)
	until = regexp.MustCompile(`^(?:.*, )?until (.+):$`)
	when  = regexp.MustCompile(`^(?:.*, )?if (.+):$`)

	comparison = regexp.MustCompile(`^(\S+)(?: & (\d+))?(?: (=|<=) (\d+))?$`)
	fixed      = regexp.MustCompile(`^u(16|32|64) (LE|BE)$`)
	counted    = regexp.MustCompile(`^(\S+) bytes?$`)
	measured   = regexp.MustCompile(`^(\S+) of (\S+)$`)
)

func (w *walk) rows(rows []*row, indent string) {
	w.t.Helper()
	for _, r := range rows {
		if r.head != "" {
			w.group(r, indent)
		} else {
			w.field(r, indent)
		}
	}
}

func (w *walk) group(r *row, indent string) {
	w.t.Helper()
	once := func() {
		r.seen = true
		fmt.Fprintf(&w.out, "%s%s\n", indent, r.head)
		w.rows(r.rows, indent+"  ")
	}
	if m := times.FindStringSubmatch(r.head); m != nil {
		for range w.number(m[1]) {
			once()
		}
	} else if m := until.FindStringSubmatch(r.head); m != nil {
		once()
		for !w.holds(m[1]) {
			once()
		}
	} else if m := when.FindStringSubmatch(r.head); m != nil {
		if w.holds(m[1]) {
			once()
		}
	} else {
		require.Fail(w.t, "no head", "%q", r.head)
	}
}

func (w *walk) holds(condition string) bool {
	w.t.Helper()
	m := comparison.FindStringSubmatch(condition)
	require.NotNil(w.t, m, "%q", condition)
	v := w.number(m[1])
	if m[2] != "" {
		v &= w.number(m[2])
	}
	switch m[3] {
	case "=":
		return v == w.number(m[4])
	case "<=":
		return v <= w.number(m[4])
	}
	return v != 0
}

// number returns a literal, or the value of an earlier field.
func (w *walk) number(s string) uint64 {
	w.t.Helper()
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return v
	}
	v, known := w.fields[s]
	require.True(w.t, known, "%q is no field so far", s)
	return v
}

func (w *walk) field(r *row, indent string) {
	w.t.Helper()
	r.seen = true
	if r.offset != "" {
		require.Equal(w.t, strconv.Itoa(len(w.data)-len(w.left)), r.offset, "offset of %s", r.name)
	}
	size, shown := w.measure(r)
	require.True(w.t, size >= 0 && size <= len(w.left), "%s, %s, is cut: %x", r.name, r.form, w.left)
	p := w.left[:size]
	w.left = w.left[size:]
	if want, isFixed := strings.CutPrefix(r.meaning, "= "); isFixed {
		want, _, _ = strings.Cut(want, ";")
		w.same(r, want, p)
		shown += " fixed"
	}
	line := fmt.Sprintf("%-16s %-19s %x %s", indent+r.name, r.form, p, strings.TrimSpace(shown))
	w.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// measure returns how many bytes the field takes, -1 if they are cut, and its value if it is an integer or a string.
func (w *walk) measure(r *row) (size int, shown string) {
	w.t.Helper()
	integer := func(size int, v uint64) (int, string) {
		w.fields[r.name] = v
		return size, fmt.Sprintf("= %d", v)
	}
	v, n := binary.Uvarint(w.left)
	switch form := r.form; {
	case form == "varint":
		return integer(taken(n), v)
	case form == "zigzag":
		signed, n := binary.Varint(w.left)
		return taken(n), fmt.Sprintf("= %d", signed)
	case (form == "string" || form == "bytes") && n > 0 && v <= uint64(len(w.left)-n):
		if form == "string" {
			shown = fmt.Sprintf("= %q", w.left[n:n+int(v)])
		}
		return n + int(v), shown
	case form == "rest":
		return len(w.left), ""
	case form == "1 byte" && len(w.left) > 0:
		return integer(1, uint64(w.left[0]))
	}
	if m := fixed.FindStringSubmatch(r.form); m != nil {
		bits, _ := strconv.Atoi(m[1])
		if len(w.left) < bits/8 {
			return -1, ""
		}
		return integer(bits/8, unsigned(w.left[:bits/8], m[2] == "LE"))
	}
	if m := counted.FindStringSubmatch(r.form); m != nil {
		return int(w.number(m[1])), ""
	}
	m := measured.FindStringSubmatch(r.form)
	require.True(w.t, m != nil && w.Forms[m[1]] != nil, "%q is no form, or its bytes are cut", r.form)
	return w.Forms[m[1]](w.left, int(w.number(m[2]))), ""
}

// taken returns -1 if encoding/binary found no whole varint.
func taken(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

func unsigned(p []byte, little bool) (v uint64) {
	for i := range p {
		at := i
		if little {
			at = len(p) - 1 - i
		}
		v = v<<8 | uint64(p[at])
	}
	return v
}

// same fails unless the field has the value that its meaning says.
func (w *walk) same(r *row, want string, p []byte) {
	w.t.Helper()
	if text, err := strconv.Unquote(want); err == nil {
		require.Equal(w.t, text, string(p), r.name)
		return
	}
	value, known := w.Values[want]
	w.named[want] = true
	if number, err := strconv.ParseUint(want, 10, 64); err == nil {
		value = number
	} else if want == "generation.Number" {
		value = uint64(generation.Number)
	} else {
		require.True(w.t, known, "%s is %q, which the test does not know", r.name, want)
	}
	got, isInteger := w.fields[r.name]
	if !isInteger {
		got = unsigned(p, false)
	}
	require.Equal(w.t, value, got, "%s = %s", r.name, want)
}
