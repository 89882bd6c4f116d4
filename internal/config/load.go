package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the name of every environment variable that is a setting.
const EnvPrefix = "FRESHET_"

// commandLineOnly annotates flags that only make sense on the command line.
const commandLineOnly = "freshet-command-line-only"

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// CommandLineOnly marks flags that are read neither from the environment nor from the file.
func CommandLineOnly(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[commandLineOnly] = nil
	}
}

// Sources are the sources of settings besides the command line.
type Sources struct {
	File    string          // path of a YAML file; "" is none
	Environ func() []string // as os.Environ
	// Others are the settings of the program's other commands. One file serves all commands, so Load skips these keys.
	Others []string
}

// Load sets every flag that the command line left open from the environment, else from the file. A flag that neither names
// keeps its default. All faults of environment and file are reported in one error.
func Load(flags *pflag.FlagSet, src Sources) error {
	fromFile, faults := loadFile(flags, src)
	environ := koanf.New("")
	// The provider splits names and values; it cannot fail on an environment.
	if err := environ.Load(env.Provider("", env.Opt{Prefix: EnvPrefix, EnvironFunc: src.Environ}), nil); err != nil {
		faults = append(faults, fmt.Errorf("read environment: %w", err))
	}
	eachSetting(flags, func(f *pflag.Flag) {
		if f.Changed {
			return
		}
		if name := EnvName(f.Name); environ.Exists(name) {
			if err := set(f, environ.Get(name)); err != nil {
				faults = append(faults, fmt.Errorf("environment %s: %w", name, err))
			}
			setOrigin(f, name)
			return
		}
		if fromFile.Exists(f.Name) {
			if err := set(f, fromFile.Get(f.Name)); err != nil {
				faults = append(faults, fmt.Errorf("file %s: %s: %w", src.File, f.Name, err))
			}
			setOrigin(f, "file "+src.File)
		}
	})
	return errors.Join(faults...)
}

// origin is the key of the annotation with the source of a flag's value.
const origin = "freshet-origin"

func setOrigin(f *pflag.Flag, from string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[origin] = []string{from}
}

// Origin returns the source of a flag's value: the name of a variable, "file " and a path, or "" if Load did not set the flag.
func Origin(f *pflag.Flag) string {
	if from := f.Annotations[origin]; len(from) > 0 {
		return from[0]
	}
	return ""
}

// loadFile reads the YAML file. It returns one error for each key that is a setting of no command.
func loadFile(flags *pflag.FlagSet, src Sources) (*koanf.Koanf, []error) {
	path := src.File
	// Setting names have no separator in them, so keys are never split.
	settings := koanf.New("\x00")
	if path == "" {
		return settings, nil
	}
	if err := settings.Load(file.Provider(path), yaml.Parser()); err != nil {
		return settings, []error{fmt.Errorf("configuration file %s: %w", path, err)}
	}
	known := append(Settings(flags), src.Others...)
	var faults []error
	for _, key := range sortedKeys(settings.Raw()) {
		if slices.Contains(known, key) {
			continue
		}
		fault := fmt.Errorf("file %s: unknown setting %q", path, key)
		if near := Nearest(known, key); near != "" {
			fault = fmt.Errorf("%w (is %q meant?)", fault, near)
		}
		faults = append(faults, fault)
	}
	return settings, faults
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// set sets the flag to a value of YAML or the environment, without marking it as changed by the command line.
func set(f *pflag.Flag, value any) error {
	if sequence, ok := value.([]any); ok {
		return setList(f, sequence)
	}
	text, err := scalar(value)
	if err != nil {
		return err
	}
	if err := f.Value.Set(text); err != nil {
		return fmt.Errorf("invalid value %q: %w", text, Wanted(f, err))
	}
	return nil
}

func setList(f *pflag.Flag, sequence []any) error {
	list, ok := f.Value.(pflag.SliceValue)
	switch {
	case !ok && len(sequence) == 1:
		return set(f, sequence[0]) // a setting that is a list for another command
	case !ok:
		return errors.New("want a single value, not a list")
	}
	items := make([]string, len(sequence))
	for i, item := range sequence {
		var err error
		if items[i], err = scalar(item); err != nil {
			return err
		}
	}
	if err := list.Replace(items); err != nil {
		return fmt.Errorf("invalid list: %w", err)
	}
	return nil
}

// scalar writes a YAML scalar the way it is written on the command line.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", errors.New("has no value")
	case string:
		return v, nil
	case map[string]any, []any:
		return "", errors.New("want a single value or a list of them, not a mapping")
	default:
		return fmt.Sprint(v), nil
	}
}

// Settings returns the names of the flags that the environment and the file can set.
func Settings(flags *pflag.FlagSet) (names []string) {
	eachSetting(flags, func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// eachSetting visits the flags that are settings.
func eachSetting(flags *pflag.FlagSet, visit func(*pflag.Flag)) {
	flags.VisitAll(func(f *pflag.Flag) {
		if IsSetting(f) {
			visit(f)
		}
	})
}

// IsSetting reports whether the environment and the file can set the flag.
func IsSetting(f *pflag.Flag) bool {
	_, only := f.Annotations[commandLineOnly]
	return !only && f.Name != "help" && f.Name != "version"
}
