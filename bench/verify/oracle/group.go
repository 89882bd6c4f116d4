package oracle

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Group knows what a consumer group committed and who had which partitions. It is safe for concurrent use.
type Group struct {
	Name string

	h  *History
	mu struct {
		sync.Mutex
		commits    []commit // by partition
		claims     []claims // of the last generations
		checked    int64
		unowned    map[int32]time.Time // partitions nobody had, since when the same members were told
		settled    string              // what unowned is about
		rebalances int64
	}
}

// commit is the last offset whose commit was answered; 0 is none.
type commit struct {
	offset int64
	member string
	at     time.Time
}

// claims are the partitions of one generation and who was given them.
type claims struct {
	generation int32
	owners     map[int32]string
}

// keptGenerations bounds how many generations' assignments are remembered.
const keptGenerations = 16

// NewGroup gives a group that has committed nothing.
func (h *History) NewGroup(name string) *Group {
	g := &Group{Name: name, h: h}
	g.mu.commits = make([]commit, h.cfg.Partitions)
	return g
}

// Committed notes that a member's commit was answered.
func (g *Group) Committed(partition int32, offset int64, member string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := &g.mu.commits[partition]; offset > c.offset {
		*c = commit{offset, member, g.h.cfg.Now()}
	}
}

// Known gives what is committed for sure now; answers to what is asked later may not be below it.
func (g *Group) Known() []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := make([]int64, len(g.mu.commits))
	for i, c := range g.mu.commits {
		known[i] = c.offset
	}
	return known
}

// Told checks a committed offset that was answered (negative: none) against what was known when it was asked for.
func (g *Group) Told(partition int32, known, offset int64, who string, asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.checked++
	if offset >= known || known == 0 {
		return
	}
	c := g.mu.commits[partition]
	g.h.cfg.Findings.Add(Finding{
		Class: LostCommit, Topic: g.h.cfg.Topic, Partition: partition, Offset: known,
		Evidence: fmt.Sprintf("group %s: %s, asked at %s, was told %d, after offset %d had been committed (last, %d, by %s at %s)", g.Name, who,
			clock(asked), offset, known, c.offset, c.member, clock(c.at)),
	})
}

// Checked counts committed offsets that were compared.
func (g *Group) Checked() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.checked
}

// Rebalances counts generations that any member was assigned in.
func (g *Group) Rebalances() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.rebalances
}

// Assigned notes what a member was given in a generation.
func (g *Group) Assigned(generation int32, member string, partitions []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.mu.claims, func(c claims) bool { return c.generation == generation })
	if i < 0 {
		g.mu.rebalances++
		g.mu.claims = append(g.mu.claims, claims{generation, make(map[int32]string)})
		if len(g.mu.claims) > keptGenerations {
			g.mu.claims = g.mu.claims[1:]
		}
		i = len(g.mu.claims) - 1
	}
	owners := g.mu.claims[i].owners
	for _, p := range partitions {
		if other, ok := owners[p]; ok && other != member {
			g.twoOwners(p, fmt.Sprintf("in generation %d members %s and %s were both given it", generation, other, member))
		}
		owners[p] = member
	}
}

// Described checks the assignment of a group that was described as stable: by member, its partitions.
func (g *Group) Described(assignment map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	owners := make(map[int32]string)
	for member, partitions := range assignment {
		for _, p := range partitions {
			if other, ok := owners[p]; ok {
				g.twoOwners(p, fmt.Sprintf("described as stable, members %s and %s both have it", other, member))
			}
			owners[p] = member
		}
	}
	g.nobodys(owners, fmt.Sprint(assignment))
}

func (g *Group) twoOwners(partition int32, evidence string) {
	g.h.cfg.Findings.Add(Finding{
		Class: TwoOwners, Topic: g.h.cfg.Topic, Partition: partition, Offset: -1, Evidence: "group " + g.Name + ": " + evidence,
	})
}

// unownedFor is how long the same assignment may leave a partition to nobody: a cooperative rebalance takes partitions
// from one member in one generation and gives them to another in the next.
const unownedFor = 20 * time.Second

func (g *Group) nobodys(owners map[int32]string, assignment string) {
	now := g.h.cfg.Now()
	if g.mu.settled != assignment || g.mu.unowned == nil {
		g.mu.settled, g.mu.unowned = assignment, make(map[int32]time.Time)
	}
	for p := range g.h.cfg.Partitions {
		since, noted := g.mu.unowned[p]
		switch {
		case owners[p] != "":
		case !noted:
			g.mu.unowned[p] = now
		case now.Sub(since) > unownedFor:
			g.mu.unowned[p] = now.Add(time.Hour) // told once
			g.h.cfg.Findings.Add(Finding{
				Class: NoOwner, Topic: g.h.cfg.Topic, Partition: p, Offset: -1,
				Evidence: fmt.Sprintf("group %s, described as stable since %s, leaves it to nobody: %s", g.Name, clock(since), assignment),
			})
		}
	}
}
