package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// OpenSession begins an agent session. Result: OpenSessionResult. The same Instance opens only one session while
// that is open: a repeated command gives the same answer.
type OpenSession struct {
	Instance  string // random, one per process start
	Zone      string
	Endpoints []Endpoint // one node id is assigned to each
	Version   string     // of the agent's software, for display
	Peer      string     // host:port at which agents of its zone ask it for bytes, "" if nowhere
	Roles     Roles
}

// Roles are the kinds of work that an agent does, a set of bits. None means an agent that serves clients alone.
type Roles uint8

// The roles.
const (
	RoleProduce Roles = 1 << iota
	RoleFetch
	RoleJobs
)

// ServesClients tells whether clients are to be sent to an agent of these roles.
func (r Roles) ServesClients() bool { return r == 0 || r&(RoleProduce|RoleFetch) != 0 }

// Endpoint is one address that clients reach an agent at, per listener name.
type Endpoint struct {
	Listener string // listener name; "" is the default listener
	Host     string
	Port     int32
}

// OpenSessionResult answers OpenSession.
type OpenSessionResult struct {
	Session id.Session
	NodeIDs []int32 // one per endpoint
}

func (c *OpenSession) appendBody(dst []byte) []byte {
	dst = wire.AppendString(dst, c.Instance)
	dst = wire.AppendString(dst, c.Zone)
	dst = appendEndpoints(dst, c.Endpoints)
	dst = wire.AppendString(dst, c.Version)
	dst = wire.AppendString(dst, c.Peer)
	return append(dst, byte(c.Roles))
}

func (c *OpenSession) readBody(w *wire.Reader) {
	c.Instance, c.Zone, c.Endpoints, c.Version = w.String(), w.String(), readEndpoints(w), w.String()
	c.Peer, c.Roles = w.String(), Roles(w.Byte())
}

// DrainSession removes an agent from the membership that Metadata shows. The agent can still commit. Result: nil, ErrUnknownSession or
// ErrSessionClosed.
type DrainSession struct{ Session id.Session }

func (c *DrainSession) appendBody(dst []byte) []byte {
	return binary.AppendUvarint(dst, uint64(c.Session))
}

func (c *DrainSession) readBody(w *wire.Reader) { c.Session = id.Session(w.Uint32()) }

// CloseSession ends an agent session for ever (I9): later commits are answered SessionClosed. Result: nil or ErrUnknownSession.
type CloseSession struct{ Session id.Session }

func (c *CloseSession) appendBody(dst []byte) []byte {
	return binary.AppendUvarint(dst, uint64(c.Session))
}

func (c *CloseSession) readBody(w *wire.Reader) { c.Session = id.Session(w.Uint32()) }

// HideSession hides an agent from the membership that Metadata shows, or shows the agent again. The owner hides an agent whose stream
// broke; the agent's session stays open. The last shown session stays shown. Result: nil, ErrUnknownSession or ErrSessionClosed.
type HideSession struct {
	Session id.Session
	Hidden  bool
}

func (c *HideSession) appendBody(dst []byte) []byte {
	return wire.AppendBool(binary.AppendUvarint(dst, uint64(c.Session)), c.Hidden)
}

func (c *HideSession) readBody(w *wire.Reader) {
	c.Session, c.Hidden = id.Session(w.Uint32()), w.Bool()
}
