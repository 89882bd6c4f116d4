package topicconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid is the base of every validation error. The error's text is the message Kafka gives.
var ErrInvalid = errors.New("invalid config")

// invalidError is a validation error whose text is shown to clients verbatim.
type invalidError struct{ message string }

func (e *invalidError) Error() string        { return e.message }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error {
	return &invalidError{message: fmt.Sprintf(format, args...)}
}

// Invalidf is a validation error with a message of Kafka's (errors.Is ErrInvalid), for configs of other resources.
func Invalidf(format string, args ...any) error { return invalidf(format, args...) }

// invalidValue is Kafka's ConfigException of a name and value.
func invalidValue(name, value, why string) error {
	return invalidf("Invalid value %s for configuration %s: %s", value, name, why)
}

// Type is a config's type, numbered as in DescribeConfigs responses.
type Type int8

// The types that topic configs and the broker configs shown here have.
const (
	Boolean Type = 1
	String  Type = 2
	Int     Type = 3
	Long    Type = 5
	Double  Type = 6
	List    Type = 7
)

var typeNames = map[Type]string{
	Boolean: "boolean", String: "string", Int: "int", Long: "long", Double: "double", List: "list",
}

// String gives Kafka's name of the type in lower case.
func (t Type) String() string { return typeNames[t] }

// Parse gives the canonical text of a value, as Kafka shows it, or Kafka's error for a value of another type.
func (t Type) Parse(name, value string) (string, error) {
	text := strings.TrimSpace(value)
	switch t {
	case Boolean:
		return parseBoolean(name, text)
	case Int:
		return parseInteger(name, text, 32, "INT")
	case Long:
		return parseInteger(name, text, 64, "LONG")
	case Double:
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", invalidValue(name, value, "Not a number of type DOUBLE")
		}
		return formatDouble(number), nil
	case List:
		return strings.Join(SplitList(text), ","), nil
	default:
		return text, nil
	}
}

func parseBoolean(name, text string) (string, error) {
	switch strings.ToLower(text) {
	case "true":
		return "true", nil
	case "false":
		return "false", nil
	}
	return "", invalidValue(name, text, "Expected value to be either true or false")
}

func parseInteger(name, text string, bits int, kind string) (string, error) {
	number, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return "", invalidValue(name, text, "Not a number of type "+kind)
	}
	return strconv.FormatInt(number, 10), nil
}

// formatDouble writes a number as Java's Double.toString does for the range configs use: with at least one decimal.
func formatDouble(number float64) string {
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// SplitList gives the trimmed elements of a list value; the empty string is the empty list.
func SplitList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	elements := strings.Split(value, ",")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	return elements
}

// rule checks a value that already has its canonical form.
type rule struct {
	valid string // as documentation shows it
	// distinct: elements of a list that are there already are dropped, as ConfigDef does where a ValidList checks.
	distinct bool
	check    func(name, value string) error
}

var anyValue = rule{valid: "", check: func(string, string) error { return nil }}

func atLeast(low int64) rule {
	return rule{valid: fmt.Sprintf("[%d,...]", low), check: func(name, value string) error {
		if number, _ := strconv.ParseInt(value, 10, 64); number < low {
			return invalidValue(name, value, fmt.Sprintf("Value must be at least %d", low))
		}
		return nil
	}}
}

func plain(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

func between(low, high float64) rule {
	return rule{valid: fmt.Sprintf("[%s,...,%s]", plain(low), plain(high)), check: func(name, value string) error {
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil || number < low || number != number:
			return invalidValue(name, value, "Value must be at least "+plain(low))
		case number > high:
			return invalidValue(name, value, "Value must be no more than "+plain(high))
		}
		return nil
	}}
}

// only allows one value of a type, because Freshet could not act on another one. why ends the sentence of the error.
func only(value, why string) rule {
	return rule{valid: value, check: func(name, got string) error {
		if got != value {
			return invalidValue(name, got, fmt.Sprintf("Value must be %s, since %s", value, why))
		}
		return nil
	}}
}

// noTiers allows false alone, with the message of Kafka without tiered storage (LogConfig.validateRemoteStorageOnlyIfSystemEnabled).
var noTiers = rule{valid: "false", check: func(_, value string) error {
	if value != "false" {
		return invalidf("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return nil
}}

// gzipLevel is 1 to 9, or -1 for the library's default.
var gzipLevel = rule{valid: "[1,...,9] or -1", check: func(name, value string) error {
	if number, _ := strconv.Atoi(value); number > 9 || number < 1 && number != -1 {
		return invalidValue(name, value, "Value must be between 1 and 9 or equal to -1")
	}
	return nil
}}

func oneOf(values ...string) rule {
	joined := strings.Join(values, ", ")
	return rule{valid: "[" + joined + "]", check: func(name, value string) error {
		for _, v := range values {
			if v == value {
				return nil
			}
		}
		return invalidValue(name, value, "String must be one of: "+joined)
	}}
}

// listOf takes lists of values out of a set, each counted once; the empty list is allowed (KIP-1161).
func listOf(values ...string) rule {
	element := oneOf(values...)
	return rule{valid: element.valid, distinct: true, check: func(name, value string) error {
		for _, e := range SplitList(value) {
			if e == "" {
				return invalidf("Configuration '%s' values must not be empty.", name)
			}
			if err := element.check(name, e); err != nil {
				return err
			}
		}
		return nil
	}}
}

// distinct drops elements that are there already.
func distinct(elements []string) []string {
	there := make(map[string]bool, len(elements))
	return slices.DeleteFunc(elements, func(e string) bool {
		twice := there[e]
		there[e] = true
		return twice
	})
}

var replicaPattern = regexp.MustCompile(`^([0-9]+:[0-9]+)?$`)

var throttledReplicas = rule{
	valid: "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
	check: func(name, value string) error {
		if value == "*" {
			return nil
		}
		for _, e := range SplitList(value) {
			if !replicaPattern.MatchString(e) {
				return invalidValue(name, "["+value+"]", name+" must be the literal '*' or a list of replicas in "+
					"the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...")
			}
		}
		return nil
	},
}
