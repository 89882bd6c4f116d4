package controlplane

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// explain returns an error of the metadata log in words that name etcd, if etcd caused it. Other errors stay as they are: the object
// store times out too. errors.Is finds err in both cases.
func (h *etcdHealth) explain(err error) error {
	lost := errors.Is(err, metalog.ErrFenced)
	if lost && h.silent() || (lost || errors.Is(err, metalog.ErrUnavailable)) && etcdlog.TimedOut(err) {
		return h.named(err)
	}
	return err
}

// explainRequest is explain for the error of a request to etcd.
func (h *etcdHealth) explainRequest(err error) error {
	if err != nil && etcdlog.TimedOut(err) {
		return h.named(err)
	}
	return err
}

// named replaces the text of err.
func (h *etcdHealth) named(err error) error {
	fault := h.fault()
	if fault == nil { // the next round of members names the members
		fault = fmt.Errorf("etcd at %s did not answer in time", h.addresses())
	}
	return &explainedError{fault, err}
}

// explainedError replaces the text of an error.
type explainedError struct{ text, cause error }

func (e *explainedError) Error() string { return e.text.Error() }

func (e *explainedError) Unwrap() []error { return []error{e.text, e.cause} }

// explainingCore logs errors in the words of explain.
type explainingCore struct {
	zapcore.Core
	explain func(error) error
}

// explaining returns a logger whose lines have errors in the words of explain.
func explaining(log *zap.Logger, explain func(error) error) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return explainingCore{c, explain} }))
}

// With implements zapcore.Core.
func (c explainingCore) With(fields []zapcore.Field) zapcore.Core {
	return explainingCore{c.Core.With(fields), c.explain}
}

// Check implements zapcore.Core.
func (c explainingCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c explainingCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	for i, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			fields[i] = zap.NamedError(f.Key, c.explain(err))
		}
	}
	return c.Core.Write(e, fields)
}
