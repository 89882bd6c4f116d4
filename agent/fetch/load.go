package fetch

// Unsent gives the record bytes of answers that clients have not taken yet, and the bound at which fetches wait.
func (f *Fetcher) Unsent() (held, bound int64) { return f.unsent.held.Load(), 2 * f.unsent.limit }
