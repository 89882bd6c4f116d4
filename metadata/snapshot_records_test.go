package metadata

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Every record is in a snapshot as testdata/records says: its tag and its fields.
func TestRecords_Golden(t *testing.T) {
	now := map[int]string{}
	d := &snapshotDecoder{s: newMachine()}
	seen := map[recordTag]bool{}
	for p := payload(one()); len(p) > 0; {
		w := wire.NewReader(p)
		d.record(&w)
		require.NoError(t, w.Err())
		tag, size := recordTag(p[0]), len(p)-w.Len()
		seen[tag] = true
		version := 1
		switch {
		case tag >= recordBucket:
			version = 3
		case tag >= recordLimits:
			version = 2
		}
		now[version] += fmt.Sprintf("%-28s%02x %x\n", strings.ReplaceAll(tag.String(), " ", "-"), p[0], p[1:size])
		p = p[size:]
	}
	for tag := recordMeta; tag.known(); tag++ {
		require.True(t, seen[tag], tag.String())
	}
	checkGolden(t, "records", now)
}

// The table of records in DESIGN.md is the list in the code.
func TestRecords_AreInTheDesign(t *testing.T) {
	design, err := os.ReadFile("DESIGN.md")
	require.NoError(t, err)
	_, table, found := bytes.Cut(design, []byte("| Tag | Record | Place | Fields |"))
	require.True(t, found)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|`).FindAllSubmatch(table, -1)
	require.Len(t, rows, len(records)-1)
	for i, row := range rows {
		tag := recordTag(i + 1)
		require.Equal(t, fmt.Sprint(i+1), string(row[1]))
		require.Equal(t, tag.String(), string(row[2]))
	}
}
