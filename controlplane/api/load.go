package api

import "time"

// Utilization returns the largest of the shares of CPU, network and buffers that an agent uses, from 0 to 1. It is 0 for nil.
func (l *Load) Utilization() float64 { return max(l.GetCpu(), l.GetNetwork(), l.GetBuffers()) }

// MaxRest is the maximum of Probe.next_ms, and the time for which the report of an idle agent counts. Idle agents rest a little shorter.
const MaxRest = 15 * time.Second

// idleShare is the utilization from which an agent is not idle.
const idleShare = 0.1

// Idle reports whether an agent's clients write nothing, and its utilization is below idleShare. An idle agent probes and reports rarely. A nil
// Load is idle.
func (l *Load) Idle() bool {
	return l.GetProduceBytesPerSecond() == 0 && l.GetPutsWanted() == 0 && l.Utilization() < idleShare
}
