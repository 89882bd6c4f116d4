package zones

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// nodes are what bytes go between, in the order of their addresses from 1 on.
var nodes = []string{"zone-a", "zone-b", "zone-c", "store", "control", "etcd"}

const (
	store   = "store"
	control = "control"
	etcd    = "etcd"
)

// zones are the first of the nodes.
var zones = nodes[:3:3]

// matrix is bytes from one node to another. From a zone to itself are those that stayed in it.
type matrix map[string]map[string]int64

func (m matrix) add(from, to string, bytes int64) {
	if m[from] == nil {
		m[from] = make(map[string]int64)
	}
	m[from][to] += bytes
}

// since gives what was added after an earlier matrix.
func (m matrix) since(earlier matrix) matrix {
	d := make(matrix)
	for from, row := range m {
		for to, bytes := range row {
			d.add(from, to, bytes-earlier[from][to])
		}
	}
	return d
}

// both gives the bytes between two nodes, in both directions.
func (m matrix) both(a, b string) int64 { return m[a][b] + m[b][a] }

// print writes the matrix as a table: from left to top.
func (m matrix) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "from \\ to\t%s\t\n", strings.Join(nodes, "\t"))
	for _, from := range nodes {
		fmt.Fprintf(t, "%s\t", from)
		for _, to := range nodes {
			fmt.Fprintf(t, "%s\t", size(m[from][to]))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into the test's output
}

// size writes a number of bytes with one digit behind the point.
func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprint(bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
}
