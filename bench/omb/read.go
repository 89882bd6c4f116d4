package omb

import (
	"fmt"
	"io"
	"os"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// ReadWorkload reads a workload file. Fields that nobody knows are warnings, as the framework ignores them too.
func ReadWorkload(path string) (w Workload, warnings []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return w, nil, fmt.Errorf("read workload: %w", err)
	}
	defer file.Close()
	w, warnings, err = DecodeWorkload(file, path)
	w.Path = path
	return w, warnings, err
}

// DecodeWorkload reads a workload; name is what errors and warnings call it.
func DecodeWorkload(from io.Reader, name string) (w Workload, warnings []string, err error) {
	w = NewWorkload()
	if warnings, err = decode(from, name, &w); err == nil {
		err = named(name, w.Validate())
	}
	return w, warnings, err
}

// ReadDriver reads a driver file. Fields that nobody knows are warnings.
func ReadDriver(path string) (d Driver, warnings []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return d, nil, fmt.Errorf("read driver: %w", err)
	}
	defer file.Close()
	return DecodeDriver(file, path)
}

// DecodeDriver reads a driver; name is what errors and warnings call it.
func DecodeDriver(from io.Reader, name string) (d Driver, warnings []string, err error) {
	d = Driver{ReplicationFactor: -1}
	if warnings, err = decode(from, name, &d); err == nil {
		err = named(name, d.Validate())
	}
	if err == nil && d.DriverClass != "" && d.DriverClass != kafkaDriver {
		warnings = append(warnings, fmt.Sprintf("%s: driverClass %s is not %s; the file is read as if it were", name, d.DriverClass, kafkaDriver))
	}
	return d, warnings, err
}

// ReadWorkers reads the framework's file with addresses of workers.
func ReadWorkers(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	defer file.Close()
	var list struct {
		Workers []string `yaml:"workers"`
	}
	if _, err := decode(file, path, &list); err != nil {
		return nil, err
	}
	if len(list.Workers) == 0 {
		return nil, fmt.Errorf("%s: no workers in it", path)
	}
	return list.Workers, nil
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// decode fills a struct and lists the fields that it does not have, with their lines.
func decode(from io.Reader, name string, to any) (warnings []string, err error) {
	var document yaml.Node
	if err := yaml.NewDecoder(from).Decode(&document); err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if err := document.Decode(to); err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	known := map[string]bool{}
	fields := reflect.TypeOf(to).Elem()
	for i := range fields.NumField() {
		known[tagName(fields.Field(i))] = true
	}
	mapping := document.Content[0].Content // keys and values in turn; a struct was decoded, so it is a mapping
	for i := 0; i+1 < len(mapping); i += 2 {
		if key := mapping[i]; !known[key.Value] {
			warnings = append(warnings, fmt.Sprintf("%s: line %d: unknown field %q is ignored", name, key.Line, key.Value))
		}
	}
	return warnings, nil
}

func tagName(f reflect.StructField) string {
	tag := f.Tag.Get("yaml")
	for i, c := range tag {
		if c == ',' {
			return tag[:i]
		}
	}
	return tag
}
