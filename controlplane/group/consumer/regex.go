package consumer

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// expression is a regular expression that members subscribe to.
type expression struct {
	users    int
	resolved bool
	version  uint64   // of the catalogue that topics are of
	topics   []string // ascending; empty before it is resolved
}

// checkRegex refuses an invalid expression.
func (g *Group) checkRegex(source string, cat Catalogue) *Error {
	if source == "" || g.regex[source] != nil {
		return nil
	}
	if err := cat.Matching(source).Err; err != nil {
		return fault(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", source, err)
	}
	return nil
}

func (g *Group) useRegex(source string) {
	if source == "" {
		return
	}
	x := g.regex[source]
	if x == nil {
		x = &expression{}
		g.regex[source] = x
		g.unresolved = true
	}
	x.users++
}

func (g *Group) unuseRegex(source string) {
	x := g.regex[source]
	if x == nil {
		return
	}
	if x.users--; x.users == 0 {
		delete(g.regex, source)
	}
}

// regexesDue reports whether the expressions are to be resolved: one never was, or topics came or went since, and the
// last time is regexInterval ago. The first expression of a group does not wait.
func (g *Group) regexesDue(now time.Time, cat Catalogue) bool {
	if len(g.regex) == 0 || !g.unresolved && g.resolvedVersion == cat.Version() {
		return false
	}
	for _, x := range g.regex {
		if x.resolved {
			return now.Sub(g.resolvedAt) > regexInterval
		}
	}
	return true
}

// resolve takes the topics of the expressions from the catalogue if that is due, and reports whether any differ. An expression stays due until
// the catalogue knows its topics of the newest version. (TopicRegexResolver.resolveRegularExpressions)
func (g *Group) resolve(now time.Time, cat Catalogue) bool {
	if !g.regexesDue(now, cat) {
		return false
	}
	changed, newest := false, true
	g.unresolved = false
	for source, x := range g.regex {
		m := cat.Matching(source)
		newest = newest && m.Known && m.Version == cat.Version()
		switch {
		case !m.Known:
			g.unresolved = g.unresolved || !x.resolved
			continue
		case x.resolved && (m.Err != nil || m.Version <= x.version): // an error may be ErrTooSlow of a busy machine
			continue
		}
		topics := slices.Sorted(slices.Values(m.Topics))
		changed = changed || !x.resolved || !slices.Equal(x.topics, topics)
		x.resolved, x.version, x.topics = true, m.Version, topics
	}
	if newest {
		g.resolvedVersion = cat.Version()
	}
	if newest || changed {
		g.resolvedAt = now
	}
	return changed
}
