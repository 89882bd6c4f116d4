package harness

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

// Dev is one `freshet dev` process.
type Dev struct {
	*testservers.Process
	Bootstrap string // host:port of its Kafka listener
	HTTP      string // http://host:port of livez, readyz, metrics
	DataDir   string
}

// StartDev starts `freshet dev` with empty data and waits until it is ready. Further flags may follow.
func StartDev(t testing.TB, flags ...string) *Dev {
	t.Helper()
	d := NewDev(t, flags...)
	d.Launch()
	d.AwaitReady()
	return d
}

// NewDev describes a `freshet dev` process without starting it.
func NewDev(t testing.TB, flags ...string) *Dev {
	t.Helper()
	d := &Dev{Bootstrap: address(t), DataDir: t.TempDir()}
	http := address(t)
	d.HTTP = "http://" + http
	args := append([]string{"dev", "--data-dir", d.DataDir, "--kafka-listen", d.Bootstrap, "--http-listen", http}, flags...)
	d.Process = testservers.NewProcess(t, "freshet-dev", Freshet(t), args, ready(d.HTTP))
	return d
}

// ready gives a function that returns nil when a process's HTTP address says it is ready.
func ready(address string) func() error { return readyAt(testservers.Place{}, address) }

// readyAt is ready for one that runs elsewhere.
func readyAt(place testservers.Place, address string) func() error {
	client := place.HTTP(20 * time.Second)
	return func() error {
		resp, err := client.Get(address + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s/readyz: %s", address, resp.Status)
		}
		return nil
	}
}
