package scale

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// followed is a Zone with a driven clock.
type followed struct {
	*Zone
	t   *testing.T
	now time.Time
}

func follow(t *testing.T) *followed {
	t.Helper()
	return &followed{Zone: NewZone(Settings{}), t: t, now: time.Unix(1_000_000, 0)}
}

// agents are those of sessions 1, 2, ... with these loads; a negative one has not been told.
func agents(utilizations ...float64) []Agent {
	all := make([]Agent, len(utilizations))
	for i, u := range utilizations {
		all[i] = Agent{Session: id.Session(i + 1), Utilization: u, Known: u >= 0}
	}
	return all
}

// steps lets seconds pass with these agents and gives the last figure.
func (f *followed) steps(seconds int, all []Agent) Figure {
	f.t.Helper()
	var figure Figure
	for range seconds {
		var known bool
		figure, known = f.Step(f.now, all)
		require.True(f.t, known)
		f.now = f.now.Add(Interval)
	}
	return figure
}

func TestZone_FollowsTheRuleOfHPA(t *testing.T) {
	for _, c := range []struct {
		loads  []float64
		want   int
		reason Reason
	}{
		{[]float64{0.6}, 1, Steady},
		{[]float64{0.66, 0.66}, 2, Steady}, // a tenth above
		{[]float64{0.54, 0.54}, 2, Steady},
		{[]float64{0.67, 0.67}, 3, ByLoad},
		{[]float64{0.8, 0.7, 0.6}, 4, ByLoad},
		{[]float64{0.9}, 2, ByLoad}, // above 0.9 is an emergency, 0.9 is not
		{[]float64{0, 0, 0}, 3, Falling},
		{[]float64{0.1, 0.1, 0.1}, 3, Falling},
		{[]float64{1.5, 0.8}, 4, ByLoad},            // in its first second
		{[]float64{1e300}, 4, ByLoad},               // bounded
		{[]float64{0.8, -1, 0.8}, 4, ByLoad},        // who does not tell is taken for an average one
		{[]float64{math.Inf(1), 0}, 4, ByLoad},      // bounded
		{[]float64{math.NaN(), 0.6}, 2, Steady},     // not known
		{[]float64{0.3, 0.3, 0.3, 0.3}, 4, Falling}, // 2 are enough, but not at once
	} {
		got, known := NewZone(Settings{}).Step(time.Unix(1_000_000, 0), agents(c.loads...))
		require.True(t, known)
		require.Equal(t, c.want, got.Replicas, "%v", c.loads)
		require.Equal(t, len(c.loads), got.Agents)
		if c.reason != "" {
			require.Equal(t, c.reason, got.Reason, "%v", c.loads)
		}
	}
}

func TestZone_FallsToTheMostOfFiveMinutes(t *testing.T) {
	f := follow(t)
	require.Equal(t, 6, f.steps(10, agents(0.9, 0.9, 0.9, 0.9)).Replicas)
	low := agents(0.3, 0.3, 0.3, 0.3, 0.3, 0.3)
	figure := f.steps(300, low)
	require.Equal(t, 6, figure.Replicas)
	require.Equal(t, Falling, figure.Reason)
	require.Equal(t, 3, f.steps(2, low).Replicas)
	require.Equal(t, 1, f.steps(302, agents(0, 0, 0)).Replicas, "one at least")
}

func TestZone_RisesToTheLeastOfFifteenSeconds(t *testing.T) {
	f := follow(t)
	require.Equal(t, 2, f.steps(60, agents(0.6, 0.6)).Replicas)
	figure := f.steps(10, agents(0.85, 0.85))
	require.Equal(t, 2, figure.Replicas)
	require.Equal(t, Rising, figure.Reason)
	require.Equal(t, 2, f.steps(1, agents(0.6, 0.6)).Replicas, "it was over in time")
	require.Equal(t, 2, f.steps(15, agents(0.85, 0.85)).Replicas)
	require.Equal(t, 3, f.steps(2, agents(0.85, 0.85)).Replicas)
}

func TestZone_EmergencyDoesNotWait(t *testing.T) {
	f := follow(t)
	f.steps(60, agents(0.6, 0.6, 0.6, 0.6))
	require.Equal(t, 4, f.steps(3, agents(0.95, 0.95, 0.95, 0.95)).Replicas)
	figure := f.steps(1, agents(0.95, 0.95, 0.95, 0.95))
	require.Equal(t, EmergencyZone, figure.Reason)
	require.Equal(t, 7, figure.Replicas, "as the load takes, which is more than a half more")

	f = follow(t)
	f.steps(60, agents(0.6, 0.6, 0.6, 0.6))
	hot := agents(0.3, 0.95, 0.3, 0.3)
	require.Equal(t, 4, f.steps(3, hot).Replicas)
	figure = f.steps(1, hot)
	require.Equal(t, EmergencyAgent, figure.Reason)
	require.Equal(t, 5, figure.Replicas, "one more")
	// It comes, and does not help: the hot agent's clients stay with it.
	hot = agents(0.3, 0.95, 0.3, 0.3, 0)
	require.Equal(t, 5, f.steps(60, hot).Replicas, "the new one is the answer, for a minute")
	require.Equal(t, 6, f.steps(10, hot).Replicas)
	hot = agents(0.3, 0.95, 0.3, 0.3, 0, 0, 0, 0)
	require.Equal(t, 8, f.steps(600, hot).Replicas, "twice what the load takes is enough")
	require.LessOrEqual(t, f.steps(3600, agents(0.3, 0.95, 0.3, 0.3, 0, 0, 0, 0, 0)).Replicas, 9)
}

// An agent that has just joined carries nothing yet: the average of the others stands, and the sum says who is needed.
func TestZone_NewAgentsDoNotPullTheAverageDown(t *testing.T) {
	f := follow(t)
	require.Equal(t, 3, f.steps(60, agents(0.85, 0.85)).Replicas)
	figure := f.steps(1, agents(0.85, 0.85, 0))
	require.InDelta(t, 0.85, figure.Utilization, 1e-9)
	require.Equal(t, 3, figure.Replicas, "neither more, for the average, nor fewer")
	figure = f.steps(59, agents(0.85, 0.85, 0))
	require.InDelta(t, 0.85, figure.Utilization, 1e-9)
	figure = f.steps(2, agents(0.57, 0.57, 0.56))
	require.InDelta(t, 1.7/3, figure.Utilization, 1e-9, "by now it has its share")
	require.Equal(t, 3, figure.Replicas)

	// All were replaced within a minute, as by a rolling update.
	next := []Agent{{Session: 11, Utilization: 0.5, Known: true}, {Session: 12, Utilization: 0.6, Known: true}, {Session: 13, Utilization: 0.7, Known: true}}
	figure = f.steps(1, next)
	require.InDelta(t, 0.6, figure.Utilization, 1e-9)
	require.Equal(t, Steady, figure.Reason)
}

func TestZone_SilenceKeepsTheFigure(t *testing.T) {
	f := follow(t)
	_, known := f.Step(f.now, agents(-1, -1))
	require.False(t, known, "nothing was told yet")
	require.Equal(t, 3, f.steps(60, agents(0.85, 0.85)).Replicas)
	figure := f.steps(600, agents(-1, -1))
	require.Equal(t, Silent, figure.Reason)
	require.Equal(t, 3, figure.Replicas)
}

func TestZone_WithoutAgents(t *testing.T) {
	f := follow(t)
	f.steps(60, agents(0.6, 0.6, 0.6))
	figure := f.steps(299, nil)
	require.Equal(t, Figure{Replicas: 3, Reason: NoAgents}, figure, "they may all have crashed")
	require.Equal(t, Figure{Reason: NoAgents}, f.steps(3, nil))
	require.False(t, f.Gone(f.now))
	f.steps(298, nil)
	require.True(t, f.Gone(f.now))

	// They come back, as many as somebody wanted, before they carry load.
	figure, known := f.Step(f.now, agents(-1, -1, -1))
	require.True(t, known)
	require.Equal(t, 3, figure.Replicas)
	require.False(t, f.Gone(f.now.Add(time.Hour)))
	require.Equal(t, 3, f.steps(299, agents(0.1, 0, 0)).Replicas)
	require.Equal(t, 1, f.steps(3, agents(0.1, 0, 0)).Replicas)

	// All crash and come back one by one: what was wanted before stands.
	f = follow(t)
	f.steps(60, agents(0.6, 0.6, 0.6))
	f.steps(20, nil)
	require.Equal(t, 3, f.steps(5, agents(0.1)).Replicas)
}

// What a new owner says first is not less than what there is, and what is needed it says at once.
func TestZone_NewOwner(t *testing.T) {
	f := follow(t)
	require.Equal(t, 4, f.steps(1, agents(0.1, 0.1, 0.1, 0.1)).Replicas)
	require.Equal(t, 4, f.steps(299, agents(0.1, 0.1, 0.1, 0.1)).Replicas)
	require.Equal(t, 1, f.steps(2, agents(0.1, 0.1, 0.1, 0.1)).Replicas)
	require.Equal(t, 6, follow(t).steps(1, agents(0.85, 0.85, 0.85, 0.85)).Replicas)
}

func TestSettings_Validate(t *testing.T) {
	for name, s := range map[string]Settings{
		"target":      {Target: 1.2},
		"target of 0": {Target: 0.01},
		"tolerance":   {Tolerance: -1},
		"emergency":   {Emergency: 0.5},
		"time":        {Up: -time.Second},
		"not numbers": {Target: math.NaN(), Emergency: math.NaN()},
	} {
		s.ApplyDefaults()
		require.Error(t, s.Validate(), name)
		_, err := New(Config{Settings: s})
		require.Error(t, err, name)
	}
}
