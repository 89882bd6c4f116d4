package logging

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap/zapcore"
)

// console writes one readable line per entry: time, level, message, cause, remedy, then two spaces and the fields as key=value.
//
//	2026-11-27T12:00:00.123Z WARN  object store does not answer: no answer within 3s; check the endpoint in --bucket  retry_in=2s logger=store
//
// The cause is the field "error". The remedies are the fields "check" and "hint". Values are quoted where they have a space, a quote, an
// equals sign or an unprintable rune. No text from outside breaks a line.
type console struct {
	zapcore.LevelEnabler
	to     *lockedWriter
	fields []zapcore.Field // of With
}

// lockedWriter is shared by a core and its children.
type lockedWriter struct {
	mu sync.Mutex
	zapcore.WriteSyncer
}

func newConsole(to zapcore.WriteSyncer, level zapcore.LevelEnabler) *console {
	return &console{LevelEnabler: level, to: &lockedWriter{WriteSyncer: to}}
}

// With implements zapcore.Core.
func (c *console) With(fields []zapcore.Field) zapcore.Core {
	return &console{c.LevelEnabler, c.to, slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c *console) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Sync implements zapcore.Core.
func (c *console) Sync() error { return c.to.Sync() }

// Write implements zapcore.Core.
func (c *console) Write(e zapcore.Entry, fields []zapcore.Field) error {
	line := []byte(e.Time.Format("2006-01-02T15:04:05.000Z0700 "))
	line = fmt.Appendf(line, "%-5s %s", e.Level.CapitalString(), oneLine(e.Message))
	tail := make([]byte, 0, 256)
	var cause, remedy string
	for _, f := range slices.Concat(c.fields, fields) {
		for _, v := range values(f) {
			switch text := v.text; v.key {
			case "error":
				cause += ": " + oneLine(text)
			case "check":
				remedy += "; check " + oneLine(text)
			case "hint":
				if text != "" {
					remedy += "; " + oneLine(text)
				}
			default:
				tail = append(tail, " "+v.key+"="+quoted(text)...)
			}
		}
	}
	if e.LoggerName != "" {
		tail = append(tail, " logger="+quoted(e.LoggerName)...)
	}
	if e.Stack != "" {
		tail = append(tail, " stack="+quoted(e.Stack)...)
	}
	line = append(append(line, cause...), remedy...)
	if len(tail) > 0 {
		line = append(append(line, ' '), tail...) // two spaces end the sentence
	}
	line = append(line, '\n')
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	_, err := c.to.Write(line)
	if e.Level > zapcore.ErrorLevel {
		_ = c.to.Sync() // the process may end now
	}
	return err
}

// value is one key of a line.
type value struct{ key, text string }

// values returns the keys of a field in a fixed order. An inlined object has several.
func values(f zapcore.Field) (all []value) {
	enc := zapcore.NewMapObjectEncoder()
	f.AddTo(enc)
	for key, v := range enc.Fields {
		if f.Type == zapcore.ErrorType && key != f.Key {
			continue // the verbose form of an error
		}
		all = append(all, value{key, textOf(v)})
	}
	slices.SortFunc(all, func(a, b value) int { return strings.Compare(a.key, b.key) })
	return all
}

// textOf returns a value as a line shows it.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case time.Duration:
		return v.String()
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		texts := make([]string, len(v))
		for i, element := range v {
			texts[i] = textOf(element)
		}
		return strings.Join(texts, ",")
	case map[string]any:
		if text, err := json.Marshal(v); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}

// oneLine returns a text without line breaks and unprintable runes. The lines of joined errors get semicolons between them.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// quoted returns a value in quotes if it would not be one word without them.
func quoted(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == '"' || r == '=' || unprintable(r) }) {
		return strconv.Quote(text)
	}
	return text
}

var _ zapcore.Core = (*console)(nil)
