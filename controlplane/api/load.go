package api

// Utilization is the share of what an agent may use that is used, of the resource that it has least left of. 0 of nil.
func (l *Load) Utilization() float64 { return max(l.GetCpu(), l.GetNetwork(), l.GetBuffers()) }
