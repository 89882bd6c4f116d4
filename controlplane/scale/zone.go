package scale

import (
	"math"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// Agent is one agent of a zone.
type Agent struct {
	Session     id.Session
	Utilization float64 // largest share of what it may use that it uses; bounded to [0, maxUtilization]
	Known       bool    // false: it has not told its load of late, and is taken for an average one
}

// maxUtilization bounds what one agent's load counts for: more than all of it says that a limit is set too low.
const maxUtilization = 2

// Reason says what a figure rests on.
type Reason string

// The reasons.
const (
	Steady         Reason = "steady"          // the load is as it should be
	ByLoad         Reason = "load"            // the load over the target
	Rising         Reason = "rising"          // more are wanted, not yet for long
	Falling        Reason = "falling"         // fewer are wanted, not yet for long
	EmergencyZone  Reason = "emergency_zone"  // the agents are overloaded on average
	EmergencyAgent Reason = "emergency_agent" // one agent is overloaded
	Silent         Reason = "silent"          // no agent tells its load: the figure stays
	NoAgents       Reason = "no_agents"       // there are none: the figure is what was wanted in the last minutes, then 0
)

// Figure says how many agents a zone should have.
type Figure struct {
	Replicas    int
	Agents      int     // there are
	Utilization float64 // average load of those that have had the time to get their share
	Reason      Reason
}

// Zone follows the load of one zone. It has no clock: time comes with each Step and does not go back.
type Zone struct {
	cfg    Settings
	begun  time.Time // when its first agents came
	least  int       // the figure does not fall below in the first Down after that
	joined map[id.Session]time.Time

	above struct{ agent, zone time.Time } // since when an agent, or their average, has been above Emergency; zero: it is not
	wants []want                          // of the last Down, oldest first, changes only
	last  Figure
	known bool      // last is a figure
	empty time.Time // since when the figure has been 0 for want of agents; zero: it is not
}

// want is how many agents were wanted from a moment on.
type want struct {
	from     time.Time
	replicas int
}

// NewZone begins to follow a zone.
func NewZone(cfg Settings) *Zone {
	cfg.ApplyDefaults()
	return &Zone{cfg: cfg, joined: map[id.Session]time.Time{}}
}

// Step takes the zone's agents as they are and gives the figure; false while nothing is known of their load yet.
func (z *Zone) Step(now time.Time, agents []Agent) (Figure, bool) {
	if z.last.Agents == 0 && len(agents) > 0 {
		z.begin(now, len(agents))
	}
	loads := z.look(now, agents)
	if len(agents) > 0 && loads.known == 0 {
		z.last.Agents, z.last.Reason = len(agents), Silent
		return z.last, z.known
	}
	wanted, reason := z.want(&loads)
	urgent, why := z.emergency(now, &loads)
	z.note(now, max(wanted, urgent))
	replicas, held := z.settle(now)
	switch {
	case urgent > 0:
		replicas, reason = max(replicas, wanted, urgent), why
	case held != "" && len(agents) > 0:
		reason = held
	}
	z.last, z.known = Figure{Replicas: replicas, Agents: len(agents), Utilization: loads.mean, Reason: reason}, true
	if replicas > 0 {
		z.empty = time.Time{}
	} else if z.empty.IsZero() {
		z.empty = now
	}
	return z.last, true
}

// begin takes in the first agents of the zone, or the first ones again: as many as there are were wanted by somebody.
func (z *Zone) begin(now time.Time, agents int) {
	z.begun, z.least = now, max(agents, z.last.Replicas)
	z.last.Replicas = z.least
	z.wants, z.empty = z.wants[:0], time.Time{}
}

// Gone tells whether the zone has had no agents for so long that nobody asks for it any more.
func (z *Zone) Gone(now time.Time) bool { return !z.empty.IsZero() && now.Sub(z.empty) >= z.cfg.Forget }

// loads is what there is to know of a zone's agents at one moment.
type loads struct {
	agents, known, warm int     // numbers; warm ones have had the time to get their share
	sum                 float64 // of all, those not known at the average of the others
	mean, most          float64 // of the warm ones, of any
}

// look notes who came and went, and adds up.
func (z *Zone) look(now time.Time, agents []Agent) loads {
	l := loads{agents: len(agents)}
	here := make(map[id.Session]time.Time, len(agents))
	var warmSum float64
	for _, a := range agents {
		joined, ok := z.joined[a.Session]
		if !ok {
			joined = now
			if now.Equal(z.begun) {
				joined = time.Time{} // for all that is known it has been here for long
			}
		}
		here[a.Session] = joined
		if !a.Known {
			continue
		}
		u := bounded(a.Utilization)
		l.known++
		l.sum += u
		l.most = max(l.most, u)
		if now.Sub(joined) >= z.cfg.Warm {
			l.warm++
			warmSum += u
		}
	}
	z.joined = here
	if l.warm == 0 {
		l.warm, warmSum = l.known, l.sum // all are new, as after a rolling restart
	}
	if l.known > 0 {
		l.mean = warmSum / float64(l.warm)
		l.sum *= float64(l.agents) / float64(l.known)
	}
	return l
}

func bounded(u float64) float64 {
	if !(u > 0) { // NaN too
		return 0
	}
	return min(u, maxUtilization)
}

// rounding is what sums of shares may be off by.
const rounding = 1e-9

// want is what the load takes, by the rule of Kubernetes' HPA.
func (z *Zone) want(l *loads) (int, Reason) {
	if l.agents == 0 {
		return 0, NoAgents
	}
	needed := l.sum / z.cfg.Target
	if math.Abs(needed/float64(l.agents)-1) <= z.cfg.Tolerance+rounding {
		return l.agents, Steady
	}
	return max(1, int(math.Ceil(needed-rounding))), ByLoad
}

// emergency is what is wanted at once, 0 if nothing is. It builds on the number of warm agents: those that are new are
// the answer to the emergency already.
func (z *Zone) emergency(now time.Time, l *loads) (int, Reason) {
	since(&z.above.zone, l.mean > z.cfg.Emergency, now)
	since(&z.above.agent, l.most > z.cfg.Emergency, now)
	lasts := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= z.cfg.EmergencyAfter }
	switch {
	case lasts(z.above.zone):
		return max(l.agents, l.warm+(l.warm+1)/2), EmergencyZone
	case lasts(z.above.agent):
		// Further agents do not help one whose load is a few clients' own. So twice what the load takes is enough.
		needed := int(math.Ceil(l.sum/z.cfg.Target - rounding))
		return max(l.agents, min(l.warm+1, 2*needed)), EmergencyAgent
	}
	return 0, ""
}

// since keeps from when on something has been so.
func since(at *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*at = time.Time{}
	case at.IsZero():
		*at = now
	}
}

// note keeps what is wanted, and drops what was over before the longer of both windows.
func (z *Zone) note(now time.Time, replicas int) {
	if n := len(z.wants); n == 0 || z.wants[n-1].replicas != replicas {
		z.wants = append(z.wants, want{now, replicas})
	}
	over := 0
	for over+1 < len(z.wants) && now.Sub(z.wants[over+1].from) >= max(z.cfg.Up, z.cfg.Down) {
		over++
	}
	z.wants = append(z.wants[:0], z.wants[over:]...)
}

// settle moves the last figure up to the least that was wanted within Up, or down to the most within Down. held says
// that more, or fewer, are wanted now.
func (z *Zone) settle(now time.Time) (replicas int, held Reason) {
	least, most := math.MaxInt, 0
	if now.Sub(z.begun) < z.cfg.Down {
		most = z.least
	}
	for i, w := range z.wants {
		until := now
		if i+1 < len(z.wants) {
			until = z.wants[i+1].from
		}
		if i+1 == len(z.wants) || now.Sub(until) < z.cfg.Up {
			least = min(least, w.replicas)
		}
		if i+1 == len(z.wants) || now.Sub(until) < z.cfg.Down {
			most = max(most, w.replicas)
		}
	}
	replicas = min(max(z.last.Replicas, least), most) // least <= newest <= most
	switch newest := z.wants[len(z.wants)-1].replicas; {
	case newest > replicas:
		held = Rising
	case newest < replicas:
		held = Falling
	}
	return replicas, held
}
