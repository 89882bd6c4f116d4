package differential

import "slices"

// shrinkPlays bounds the plays that reducing one sequence takes.
const shrinkPlays = 120

// shrink leaves out what a failure does not need: first everything behind it, then runs of requests, halves before
// single ones. It returns the failure of the shortest sequence found.
func shrink(s sequence, f *failure, servers [2]*server, worker int) *failure {
	s.ops = s.ops[:f.step+1]
	plays := 0
	for size := len(s.ops) / 2; size > 0; {
		removed := false
		for at := 0; at+size < len(s.ops) && plays < shrinkPlays; {
			less := s
			less.ops = slices.Concat(s.ops[:at], s.ops[at+size:])
			plays++
			if found, _ := run(less, servers, worker, nil); found != nil && found.kind() == f.kind() {
				s, f, removed = less, found, true
				s.ops = s.ops[:f.step+1]
			} else {
				at += size
			}
		}
		if size == 1 && removed && plays < shrinkPlays {
			continue
		}
		size /= 2
	}
	return f
}
