package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/bench/cluster"
	"github.com/freshet-io/freshet/kafkaproto"
)

// profileLimit bounds a CPU profile that nobody ends.
const profileLimit = 10 * time.Minute

// spent is the CPU seconds of an agent by what it spent them for.
type spent struct {
	metadata    float64 // requests of Metadata
	connections float64 // accepting and closing them, and ApiVersions
	records     float64 // requests of Produce and Fetch
	other       float64 // other requests, what no request asked for, and the runtime
}

// profiling is CPU profiles that are being taken, by agent.
type profiling map[*cluster.Agent]*net.TCPConn

// startProfiles begins one of each agent. What has begun is to be ended, by end or close.
func startProfiles(ctx context.Context, agents []*cluster.Agent) (profiling, error) {
	p := make(profiling)
	for _, a := range agents {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.HTTP)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("begin profile: %w", err)
		}
		p[a] = conn.(*net.TCPConn)
		_, err = fmt.Fprintf(conn, "GET /debug/pprof/profile?seconds=%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
			int(profileLimit.Seconds()), a.HTTP)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("begin profile: %w", err)
		}
	}
	return p, nil
}

// end ends a profile and gives it: net/http ends a request's context when the client has closed its half of the
// connection, and the profile's handler answers then with what it has.
func (p profiling) end(a *cluster.Agent) (*profile.Profile, error) {
	if err := p[a].CloseWrite(); err != nil {
		return nil, fmt.Errorf("end profile: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(p[a]), nil)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	defer resp.Body.Close()
	taken, err := profile.Parse(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read profile, status %s: %w", resp.Status, err)
	}
	return taken, nil
}

func (p profiling) close() {
	for _, conn := range p {
		_ = conn.Close()
	}
}

var errNoCPU = errors.New("the profile tells no CPU time")

// spentOf divides CPU seconds as a profile does by the labels of agent/edge.
func spentOf(p *profile.Profile, seconds float64) (s spent, err error) {
	value := -1
	for i, t := range p.SampleType {
		if t.Type == "cpu" && t.Unit == "nanoseconds" {
			value = i
		}
	}
	if value < 0 {
		return s, errNoCPU
	}
	total := 0.0
	for _, sample := range p.Sample {
		total += float64(sample.Value[value])
	}
	for _, sample := range p.Sample {
		part := seconds * float64(sample.Value[value]) / total
		switch strings.Join(sample.Label[edge.LabelKey], "") {
		case apiName(kafkaproto.KeyMetadata):
			s.metadata += part
		case edge.LabelConnection, apiName(kafkaproto.KeyApiVersions):
			s.connections += part
		case apiName(kafkaproto.KeyProduce), apiName(kafkaproto.KeyFetch):
			s.records += part
		default:
			s.other += part
		}
	}
	return s, nil
}

func apiName(key int16) string {
	entry, _ := kafkaproto.Lookup(key)
	return entry.Name
}

// keep writes a profile to dir, unless that is "".
func keep(p *profile.Profile, dir, name string) error {
	if dir == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".pprof"))
	if err != nil {
		return fmt.Errorf("keep profile: %w", err)
	}
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		return fmt.Errorf("keep profile: %w", err)
	}
	return nil
}
