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

// resolve resolves the expressions if that is due, and reports whether their topics may differ. An expression stays due until the catalogue
// knows its topics of the newest version. (TopicRegexResolver.resolveRegularExpressions)
func (g *Group) resolve(now time.Time, cat Catalogue) bool {
	if !g.regexesDue(now, cat) {
		return false
	}
	changed, known, newest := false, true, true
	for source, x := range g.regex {
		m := cat.Matching(source)
		if !m.Known {
			known = false
			continue
		}
		newest = newest && m.Version == cat.Version()
		topics := slices.Sorted(slices.Values(m.Topics))
		changed = changed || !x.resolved || !slices.Equal(x.topics, topics)
		x.resolved, x.topics = true, topics
	}
	g.unresolved = !known
	if known && newest {
		g.resolvedAt, g.resolvedVersion = now, cat.Version()
		return true
	}
	return changed
}
