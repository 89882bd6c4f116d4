package connlimit

import "container/heap"

// line holds the connections of one address and state, the first to be closed at the front.
type line struct {
	front, back *Place
	length      int
	at          int // index in its crowd, if length > 0
}

// crowd is a heap of the addresses' lines, the longest first. Among equals, the line with the oldest front is first.
type crowd struct{ lines []*line }

// pushBack appends a place to a line of the crowd.
func (c *crowd) pushBack(l *line, p *Place) {
	p.previous, p.next = l.back, nil
	if l.back == nil {
		l.front = p
	} else {
		l.back.next = p
	}
	l.back = p
	if l.length++; l.length == 1 {
		heap.Push(c, l)
		return
	}
	heap.Fix(c, l.at)
}

// remove takes a place out of a line of the crowd.
func (c *crowd) remove(l *line, p *Place) {
	if p.previous == nil {
		l.front = p.next
	} else {
		p.previous.next = p.next
	}
	if p.next == nil {
		l.back = p.previous
	} else {
		p.next.previous = p.previous
	}
	p.previous, p.next = nil, nil
	if l.length--; l.length == 0 {
		heap.Remove(c, l.at)
		return
	}
	heap.Fix(c, l.at)
}

// first returns the place to be closed first, nil if there is none.
func (c *crowd) first() *Place {
	if len(c.lines) == 0 {
		return nil
	}
	return c.lines[0].front
}

// Len implements heap.Interface.
func (c *crowd) Len() int { return len(c.lines) }

// Less implements heap.Interface.
func (c *crowd) Less(i, j int) bool {
	a, b := c.lines[i], c.lines[j]
	if a.length != b.length {
		return a.length > b.length
	}
	return a.length > 0 && a.front.order < b.front.order
}

// Swap implements heap.Interface.
func (c *crowd) Swap(i, j int) {
	c.lines[i], c.lines[j] = c.lines[j], c.lines[i]
	c.lines[i].at, c.lines[j].at = i, j
}

// Push implements heap.Interface.
func (c *crowd) Push(x any) {
	l := x.(*line)
	l.at = len(c.lines)
	c.lines = append(c.lines, l)
}

// Pop implements heap.Interface.
func (c *crowd) Pop() any {
	last := len(c.lines) - 1
	l := c.lines[last]
	c.lines[last] = nil
	c.lines = c.lines[:last]
	return l
}
