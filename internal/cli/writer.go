package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
)

// writer is what one agent writes, as the control plane tells it.
type writer struct {
	Session uint32   `json:"session"`
	Zone    string   `json:"zone"`
	Peer    string   `json:"peer_address"`
	Rate    float64  `json:"produce_bytes_per_second"`
	Silence *float64 `json:"silence_seconds"`
	Writes  string   `json:"writes"`
	Writer  uint32   `json:"writer"`
	Share   float64  `json:"put_share"`
}

// ListWriters writes which agents of each zone write and which hand over to them, as a table or as the control plane's
// JSON.
func ListWriters(ctx context.Context, c OperatorConfig, s Streams) error {
	return listing(ctx, c, "/writers", "agents", "ZONE\tAGENT\tPEER ADDRESS\tPRODUCED\tHEARD\tWRITES\tWRITER\tPUT SHARE", "no agent has reported yet",
		func(w *tabwriter.Writer, a *writer) {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(a.Zone, "(none)"), a.Session, cmp.Or(a.Peer, "-"),
				rate(a.Rate), a.heard(), cmp.Or(a.Writes, "-"), a.writer(), a.share())
		}, s)
}

// heard returns the time since the agent last reported its load.
func (a *writer) heard() string {
	if a.Silence == nil {
		return "never"
	}
	return secondsText(*a.Silence) + " ago"
}

// writer is the session of who writes; "-" while there is no plan.
func (a *writer) writer() string {
	if a.Writer == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(a.Writer), 10)
}

// share is the part of the PUT budget of an agent that writes.
func (a *writer) share() string {
	if a.Writer != a.Session || a.Writer == 0 {
		return "-"
	}
	return percent(a.Share)
}
