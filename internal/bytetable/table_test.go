package bytetable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// write writes a Go file with a comment that has the table.
func write(t *testing.T, comment string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "doc.go")
	require.NoError(t, os.WriteFile(file, []byte("/*\nPackage p has a table.\n\n"+comment+"*/\npackage p\n"), 0o600))
	return file
}

func TestListing_OfEachForm(t *testing.T) {
	file := write(t, `Fixed:

	offset  field   form     meaning
	0       magic   4 bytes  = "test"
	4       sum     u32 LE   = sum of what follows; of no use
	8       zeros   3 bytes  = 0

Other:

	field    form       meaning
	count    varint
	per item, count times:
	  kind   1 byte
	  if kind & 2:
	    name   string
	    delta  zigzag
	  if kind <= 1:
	    large  u64 BE
	until size = 0:
	  size   u16 BE
	  chunk  size bytes
	column   pairs of count
	tail     rest

Object:

	field     form    meaning
	a         number
	b         array
	b[].c     string
`)
	l := New(t)
	l.Values = map[string]uint64{"sum of what follows": 258}
	l.Forms = map[string]func([]byte, int) int{"pairs": func(_ []byte, n int) int { return 2 * n }}
	l.Bytes(file, "Fixed", []byte("test\x02\x01\x00\x00\x00\x00\x00"))
	l.Bytes(file, "Other", []byte("\x02\x06\x01n\x03\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x01c\x00\x00ppppt"))
	l.JSON(file, "Object", []byte(`{"a":1,"b":[{"c":"x"},{"c":"y"}]}`))
	l.Golden("testdata/forms.golden")
}

// failure is a TB that panics with its message.
type failure struct{ message string }

func (f *failure) Errorf(format string, args ...any) { f.message = fmt.Sprintf(format, args...) }

func (f *failure) FailNow() { panic(errors.New(f.message)) }

func (f *failure) Helper() {}

func TestListing_FailsWhereTableAndBytesDiffer(t *testing.T) {
	for name, c := range map[string]struct{ table, bytes, fails string }{
		"left over":     {"a  1 byte", "ab", "left over"},
		"missing":       {"a  1 byte\n\tb  u16 BE", "ab", "b, u16 BE, is cut"},
		"cut varint":    {"a  varint", "\x80", "is cut"},
		"cut string":    {"a  string", "\x05ab", "its bytes are cut"},
		"other magic":   {`a  2 bytes  = "ab"`, "ac", "expected: \"ab\""},
		"other number":  {"a  zigzag\n\tb  1 byte  = 1", "\x00\x02", "b = 1"},
		"not zero":      {"a  2 bytes  = 0", "\x00\x01", "a = 0"},
		"unknown value": {"a  1 byte  = sum", "\x00", "does not know"},
		"unknown count": {"n times:\n\t  a  1 byte", "\x00", "no field so far"},
		"unknown form":  {"a  word", "\x00", "no form"},
		"unlisted line": {"a  1 byte\n\tif a:\n\t  b  1 byte", "\x00", "no bytes of this"},
		"unnamed value": {"a  1 byte", "\x00", `no table names "unnamed"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "Table:\n\n\tfield  form  meaning\n\t"+c.table+"\n")
			defer func() { require.ErrorContains(t, recover().(error), c.fails) }()
			l := New(new(failure))
			l.Values = map[string]uint64{"unnamed": 1}
			l.Bytes(file, "Table", []byte(c.bytes))
			l.Golden("testdata/forms.golden")
		})
	}
	file := write(t, "Table:\n\n\toffset  field  form\n\t0  a  1 byte\n\t2  b  1 byte\n")
	require.Panics(t, func() { New(new(failure)).Bytes(file, "Table", []byte("ab")) }, "b is at offset 1")
	require.Panics(t, func() { New(new(failure)).JSON(file, "Table", []byte(`{"a":1}`)) }, "b is missing")
}
