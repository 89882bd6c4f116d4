package etcdlog

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/freshet-io/freshet/internal/grpcerr"
)

// sayAgain is how often etcd's client says the same thing at most. It says why it cannot connect, but with every attempt, and
// those who call it log their failures themselves.
const sayAgain = 10 * time.Second

// seldom thins etcd's client's log out, and says in plain words that there is no answer.
func seldom(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(plainCore{core}, sayAgain, 1, 0)
	}))
}

// failedCall is what etcd's client says of every call without an answer (clientv3's retry_interceptor.go).
const failedCall = "retrying of unary invoker failed"

type plainCore struct{ zapcore.Core }

func (c plainCore) With(fields []zapcore.Field) zapcore.Core { return plainCore{c.Core.With(fields)} }

func (c plainCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write leaves of a failed call what tells something: the call and the reason.
func (c plainCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message != failedCall {
		return c.Core.Write(e, fields)
	}
	e.Message = "etcd does not answer"
	var told []zapcore.Field
	for _, f := range fields {
		err, failed := f.Interface.(error)
		switch {
		case f.Type == zapcore.ErrorType && failed:
			told = append(told, zap.NamedError(f.Key, grpcerr.Plain(err)))
		case f.Key == "method":
			told = append(told, f)
		}
	}
	return c.Core.Write(e, told)
}
