// Package bytetable checks tables of bytes in comments against what encoders write. Tests only.
//
// A table is the indented block below a title that ends with a colon. At least two spaces separate columns. Each line is a field, or the
// head of a group. The lines of a group are indented by two spaces more than its head.
//
//	offset  field  form     meaning
//	0       magic  4 bytes  = "test"
//
//	field    form     meaning
//	version  1 byte   = 1
//	count    varint
//	per item, count times:
//	  kind   u32 LE   the column offset is optional, and needs fields of fixed size
//	  if kind & 2 = 2:
//	    id   16 bytes
//
// Forms are "1 byte", "N bytes", u16, u32 and u64 with LE or BE, varint and zigzag as in encoding/binary, string and bytes with their
// length as a varint in front, and rest for all remaining bytes. N is a number or the name of an earlier integer. Any other form is
// "X of N", where Listing.Forms has X.
//
// A meaning that begins with "=" fixes the value: a number, a quoted string, generation.Number, or a key of Listing.Values. The value ends
// at a semicolon.
//
// A head ends with "N times:", "until X = V:" or "if X & MASK = V:". The condition of until is checked after each item. The mask is
// optional. The comparison may be <=, or missing, which means nonzero.
package bytetable

import (
	"fmt"
	"go/parser"
	"go/token"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// row is a field, or a group with its rows.
type row struct {
	offset, name, form, meaning string

	head string // of a group
	rows []*row
	seen bool // in the listing
}

// find returns the table with that title in the comments of a Go file.
func find(t TB, file, title string) []*row {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, comment := range parsed.Comments {
		_, text, found := strings.Cut("\n"+comment.Text(), "\n"+title+":\n\n\t")
		if !found {
			continue
		}
		var lines []string
		for line := range strings.Lines("\t" + text) {
			line, indented := strings.CutPrefix(line, "\t")
			if !indented {
				break
			}
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
		return parse(t, lines)
	}
	require.Fail(t, "no table", "%s has no %q", file, title+":")
	return nil
}

var gap = regexp.MustCompile(` {2,}`)

// parse reads a table. Its first line has the names of the columns.
func parse(t TB, lines []string) []*row {
	t.Helper()
	offsets := strings.HasPrefix(lines[0], "offset ")
	groups := [][]*row{nil} // open ones, from the outermost to the innermost
	var heads []*row
	end := func() {
		last := len(heads) - 1
		heads[last].rows = groups[last+1]
		heads, groups = heads[:last], groups[:last+1]
	}
	for _, line := range lines[1:] {
		text := strings.TrimLeft(line, " ")
		for depth := (len(line) - len(text)) / 2; depth < len(heads); {
			end()
		}
		r := &row{}
		groups[len(groups)-1] = append(groups[len(groups)-1], r)
		if strings.HasSuffix(text, ":") {
			r.head = text
			heads, groups = append(heads, r), append(groups, nil)
			continue
		}
		columns := gap.Split(text, 4)
		if offsets {
			r.offset, columns = columns[0], columns[1:]
		}
		require.GreaterOrEqual(t, len(columns), 2, "line %q has no form", line)
		r.name, r.form, r.meaning = columns[0], columns[1], strings.Join(columns[2:], "  ")
	}
	for len(heads) > 0 {
		end()
	}
	return groups[0]
}

// unseen returns the first field or group that is not in the listing, "" if all are.
func unseen(rows []*row) string {
	for _, r := range rows {
		if !r.seen {
			return fmt.Sprintf("%s%s", r.name, r.head)
		}
		if name := unseen(r.rows); name != "" {
			return name
		}
	}
	return ""
}
