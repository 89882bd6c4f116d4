package oracle

import "slices"

// ranges is a set of sequence numbers, kept as intervals: its size is that of its holes, not of what is in it.
type ranges []interval

type interval struct{ from, to int64 } // to is not in it

// after gives the index of the first interval that ends behind n.
func (r ranges) after(n int64) int {
	i, _ := slices.BinarySearchFunc(r, n, func(v interval, n int64) int {
		if v.to <= n {
			return -1
		}
		return 1
	})
	return i
}

func (r ranges) has(n int64) bool {
	i := r.after(n)
	return i < len(r) && r[i].from <= n
}

// add puts [from, to) into the set.
func (r *ranges) add(from, to int64) {
	if from >= to {
		return
	}
	i := (*r).after(from - 1) // one that ends at from grows
	j := i
	for j < len(*r) && (*r)[j].from <= to {
		from, to = min(from, (*r)[j].from), max(to, (*r)[j].to)
		j++
	}
	*r = slices.Replace(*r, i, j, interval{from, to})
}

// remove takes n out; false if it was not in.
func (r *ranges) remove(n int64) bool {
	i := (*r).after(n)
	if i == len(*r) || (*r)[i].from > n {
		return false
	}
	v := (*r)[i]
	var left []interval
	if v.from < n {
		left = append(left, interval{v.from, n})
	}
	if n+1 < v.to {
		left = append(left, interval{n + 1, v.to})
	}
	*r = slices.Replace(*r, i, i+1, left...)
	return true
}

// count gives how many are in the set.
func (r ranges) count() (n int64) {
	for _, v := range r {
		n += v.to - v.from
	}
	return n
}
