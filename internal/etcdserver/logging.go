package etcdserver

import (
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// beside are messages at warn and above that say nothing wrong about a member without listeners, users and peers.
var beside = map[string]bool{
	"simple token is not cryptographically signed": true,
	"failed to update cluster version":             true, // closed in its first moments
	// A new member has written nothing yet from which to tell its schema.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
}

// campaignsAgain ends what a lone member says that has not yet applied its own entry as the only member, where the machine is
// slow: it stands for election again a moment later. It begins with the member's id.
const campaignsAgain = "since there are still pending configuration changes to apply"

// quiet is the logger for etcd: what is at warn and above and not beside the point.
func quiet(log *zap.Logger) *zap.Logger {
	return log.Named("etcd").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quietCore{c} }))
}

type quietCore struct{ zapcore.Core }

func (c quietCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && c.Core.Enabled(l)
}

func (c quietCore) With(fields []zapcore.Field) zapcore.Core { return quietCore{c.Core.With(fields)} }

func (c quietCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level < zapcore.WarnLevel || beside[e.Message] || strings.HasSuffix(e.Message, campaignsAgain) {
		return ce
	}
	return c.Core.Check(e, ce)
}
