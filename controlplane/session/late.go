package session

import (
	"errors"
	"time"
)

// errLate refuses a commit that must not be handed to the log any more, and was not handed to it before.
var errLate = errors.New("the commit comes later than its agent allows")

// steady is the time since the tenure began by a clock that nobody sets, in ms, and 1 more, so that 0 is none of its times.
// Agents are told it with each stamp. They hear of it later than it was, so by what they know the clock shows less than it
// does, and a commit that they bound by it is refused early rather than late: also if they stood still, or their message
// was long on its way.
func (t *tenure) steady() uint64 { return uint64(time.Since(t.began).Milliseconds()) + 1 }

// late tells whether a time of the steady clock has passed; 0 never does.
func (t *tenure) late(until uint64) bool { return until != 0 && t.steady() > until }
