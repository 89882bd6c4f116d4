package recode

// capped keeps the first bytes that are written to it, as many as a batch may have, and counts the others: a batch that is
// too large is refused all the same, but for what is wrong with its records first. It never takes more memory than that.
type capped struct {
	kept       []byte
	most, size int // bytes
}

func newCapped(guess, most int) *capped {
	return &capped{kept: make([]byte, 0, min(guess, most)), most: most}
}

func (c *capped) Write(p []byte) (int, error) {
	c.size += len(p)
	fits := p[:min(len(p), c.most-len(c.kept))]
	if need := len(c.kept) + len(fits); need > cap(c.kept) {
		grown := make([]byte, len(c.kept), min(max(need, 2*cap(c.kept)), c.most))
		copy(grown, c.kept)
		c.kept = grown
	}
	c.kept = append(c.kept, fits...)
	return len(p), nil
}
