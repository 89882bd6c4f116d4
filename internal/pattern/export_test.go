package pattern

import "time"

// NewQueue returns a queue whose jobs run for at most maxRun.
func NewQueue(maxRun time.Duration) *Queue { return &Queue{maxRun: maxRun} }
