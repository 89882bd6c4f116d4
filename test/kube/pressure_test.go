package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pressureFolder has the kernel's pressure stall information of the whole machine.
const pressureFolder = "/proc/pressure"

// pressure is a reading of the times during which at least one task of the machine waited for a CPU, or for a disk.
type pressure struct {
	at        time.Time
	cpu, disk time.Duration
}

// readPressure reads the files of a folder. It returns nil where the kernel has none.
func readPressure(folder string) (*pressure, error) {
	p := &pressure{at: time.Now()}
	for file, waited := range map[string]*time.Duration{"cpu": &p.cpu, "io": &p.disk} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported):
			return nil, nil //nolint:nilnil // no pressure is known
		case err != nil:
			return nil, fmt.Errorf("read pressure: %w", err)
		}
		if *waited, err = someTotal(string(text)); err != nil {
			return nil, fmt.Errorf("pressure of %s: %w", file, err)
		}
	}
	return p, nil
}

// someTotal returns the total of the line "some" of a pressure file, for example "some avg10=0.00 avg60=0.07 avg300=0.60 total=1660635862" in µs.
func someTotal(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		for _, f := range fields[1:] {
			if total, ok := strings.CutPrefix(f, "total="); ok {
				micros, err := strconv.ParseInt(total, 10, 64)
				return time.Duration(micros) * time.Microsecond, err
			}
		}
	}
	return 0, fmt.Errorf("no total of some tasks in %q", text)
}

// until returns the shares of the time between two readings in which tasks waited, as the end of a log line. It returns nothing without a reading.
func (p *pressure) until(later *pressure) string {
	if p == nil || later == nil {
		return ""
	}
	share := func(waited time.Duration) float64 { return 100 * waited.Seconds() / later.at.Sub(p.at).Seconds() }
	return fmt.Sprintf("; tasks waited for CPU %.0f %% and for disk %.0f %% of the phase", share(later.cpu-p.cpu), share(later.disk-p.disk))
}

// pressure returns the machine's pressure, nil if unknown.
func (s *scene) pressure() *pressure {
	s.t.Helper()
	p, err := readPressure(pressureFolder)
	require.NoError(s.t, err)
	return p
}

func TestPressure(t *testing.T) {
	folder := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600))
	}
	read := func() *pressure {
		t.Helper()
		p, err := readPressure(folder)
		require.NoError(t, err)
		return p
	}
	require.Nil(t, read(), "a kernel without pressure")
	write("cpu", "some avg10=6.80 avg60=3.01 avg300=12.05 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	require.Nil(t, read())
	write("io", "some avg10=0.00 avg60=0.07 avg300=0.60 total=500\nfull avg10=0.00 avg60=0.06 avg300=0.35 total=400\n")
	before := read()
	write("cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=6000000\n")
	write("io", "full avg10=0.00 avg60=0.06 avg300=0.35 total=9000400\nsome avg10=0.00 avg60=0.07 avg300=0.60 total=300500\n")
	after := read()
	after.at = before.at.Add(10 * time.Second)
	require.Equal(t, "; tasks waited for CPU 50 % and for disk 3 % of the phase", before.until(after))
	require.Empty(t, before.until(nil))
	require.Empty(t, (*pressure)(nil).until(after))

	for _, text := range []string{"", "some avg10=0.00", "full avg10=0.00 total=1", "some total=x"} {
		write("cpu", text)
		_, err := readPressure(folder)
		require.Error(t, err, text)
	}
}
