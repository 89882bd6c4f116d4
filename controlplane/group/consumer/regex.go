package consumer

import (
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// expression is a regular expression that members subscribe to (RE2, as Kafka's; it has to match a whole name).
type expression struct {
	pattern  *regexp.Regexp // nil: it does not compile, and matches nothing
	users    int
	resolved bool
	topics   []string // ascending; empty before it is resolved
}

func (x *expression) matches(topic string) bool {
	if x.pattern == nil {
		return false
	}
	at := x.pattern.FindStringIndex(topic)
	return at != nil && at[0] == 0 && at[1] == len(topic)
}

// compile makes matches leftmost-longest: so the expression matches a whole name exactly if its match is the name.
func compile(source string) (*regexp.Regexp, error) {
	pattern, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	pattern.Longest()
	return pattern, nil
}

// checkRegex refuses an expression that does not compile.
func (g *Group) checkRegex(source string) *Error {
	if source == "" || g.regex[source] != nil {
		return nil
	}
	if _, err := compile(source); err != nil {
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
		x.pattern, _ = compile(source)
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

// regexesDue tells whether the expressions are to be resolved: one never was, or topics came or went since, and the
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

// resolve resolves all expressions if that is due. (TopicRegexResolver.resolveRegularExpressions)
func (g *Group) resolve(now time.Time, cat Catalogue) bool {
	if !g.regexesDue(now, cat) {
		return false
	}
	for _, x := range g.regex {
		x.resolved, x.topics = true, nil
	}
	for name := range cat.TopicNames() {
		for _, x := range g.regex {
			if x.matches(name) {
				x.topics = append(x.topics, name)
			}
		}
	}
	for _, x := range g.regex {
		slices.Sort(x.topics)
	}
	g.unresolved, g.resolvedAt, g.resolvedVersion = false, now, cat.Version()
	return true
}
