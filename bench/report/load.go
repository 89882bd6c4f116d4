package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/observe"
)

// ErrFormat means that a file is no result that this package reads.
var ErrFormat = errors.New("neither a result of the OpenMessaging Benchmark (no field publishRate) nor of the performance test (no field produceRate)")

// maxResult bounds the size of a result file that is read, in bytes.
const maxResult = 256 << 20

// Load reads a result file and, if they are beside it, its series (observe.PathFor) and its notes (NotesPath). Errors
// name the file and the field. period is the length of a period in a format without times; 0: what its notes say, else the
// format's default.
func Load(path string, period time.Duration) (Run, error) {
	run, err := load(path, period)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

// LoadAll reads several results. Those whose files have the same name are told apart by a number. What is beside a result,
// and comes along where a shell lists all files, is left out.
func LoadAll(paths []string, period time.Duration) ([]Run, error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return strings.HasSuffix(path, notesSuffix) || strings.HasSuffix(path, observe.Suffix)
	})
	runs, faults := make([]Run, len(paths)), []error(nil)
	taken := map[string]bool{}
	for i, path := range paths {
		var err error
		if runs[i], err = Load(path, period); err != nil {
			faults = append(faults, err)
			continue
		}
		base := runs[i].Name
		for n := 2; taken[runs[i].Name]; n++ {
			runs[i].Name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[runs[i].Name] = true
	}
	return runs, errors.Join(faults...)
}

func load(path string, period time.Duration) (Run, error) {
	data, err := readResult(path)
	if err != nil {
		return Run{}, err
	}
	f, err := parseFields(data)
	if err != nil {
		return Run{}, err
	}
	notes, err := readNotes(NotesPath(path))
	if err != nil {
		return Run{}, err
	}
	if period == 0 {
		period = time.Duration(notes.PeriodSeconds * float64(time.Second))
	}
	run := Run{Name: nameOf(path), Title: notes.Title, Settings: notes.Settings, Warnings: notes.Warnings}
	switch {
	case f.has("publishRate"):
		run.Figures = figuresOfOMB(f, period)
		run.Settings = orElse(run.Settings, settingsOfOMB(f))
	case f.has("produceRate"):
		run.Figures = figuresOfPerf(f)
		run.Settings = orElse(run.Settings, settingsOfPerf(f))
	default:
		return Run{}, ErrFormat
	}
	if err := f.err(); err != nil {
		return Run{}, err
	}
	if err := run.Figures.validate(); err != nil {
		return Run{}, err
	}
	run.Observed, err = observe.ReadFile(observe.PathFor(path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Run{}, err
	}
	return run, nil
}

func readResult(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is said by the caller
	}
	if info.Size() > maxResult {
		return nil, fmt.Errorf("%d bytes: want at most %d", info.Size(), maxResult)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return data, nil
}

func orElse(a, b []Setting) []Setting {
	if len(a) > 0 {
		return a
	}
	return b
}

// settingsOfPerf gives what the result tells of its options, by name.
func settingsOfPerf(f *fields) []Setting {
	if !f.has("config") {
		return nil
	}
	options := read[map[string]json.RawMessage](f, "config", "an object")
	inner := fields{raw: options}
	return inner.settings(slices.Sorted(maps.Keys(options))...)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// nameOf makes a run's name of its file's.
func nameOf(path string) string {
	name := notInNames.ReplaceAllString(strings.TrimSuffix(filepath.Base(path), ".json"), "-")
	return strings.Trim(name, "-._")
}

// Notes are what a load generator knows about its result beyond the format's fields: it writes them beside the result.
type Notes struct {
	Title         string    `json:"title,omitempty"`
	PeriodSeconds float64   `json:"period_seconds,omitempty"` // length of a period; 0: the format's default
	Settings      []Setting `json:"settings,omitempty"`
	Warnings      []string  `json:"warnings,omitempty"`
}

// NotesPath gives the path of the notes of a result, "x.notes.json" for "x.json".
func NotesPath(result string) string { return strings.TrimSuffix(result, ".json") + notesSuffix }

const notesSuffix = ".notes.json"

// WriteNotes writes notes beside a result.
func WriteNotes(result string, notes Notes) error {
	data, err := json.MarshalIndent(notes, "", "  ")
	if err != nil {
		return fmt.Errorf("encode notes: %w", err)
	}
	if err := os.WriteFile(NotesPath(result), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write notes: %w", err)
	}
	return nil
}

// readNotes gives empty notes if there is no such file.
func readNotes(path string) (notes Notes, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return notes, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &notes)
	}
	if err != nil {
		return notes, fmt.Errorf("notes %s: %w", path, err)
	}
	return notes, nil
}
