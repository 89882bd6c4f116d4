package zonewriter

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/freshet-io/freshet/metadata/id"
)

// nameOf names an agent in a line of the log: by its session, and by the address that clients reach it at where that is
// known. The agent's own session is 0.
func nameOf(session id.Session, address func(id.Session) string) zap.Field {
	at := ""
	if address != nil {
		at = address(session)
	}
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		to.AddUint32("session", uint32(session))
		if at != "" {
			to.AddString("agent", at)
		}
		return nil
	}))
}
