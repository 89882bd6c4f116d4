package model

import (
	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// Shares of an agent's memory (agent/memory.go: 40 % live cache, 18 % slabs of write buffers), and for how long they hold
// what comes in: readers a little behind, and a bundle until its PUT and commit are done, slow ones included.
const (
	cacheShare   = 0.40
	slabShare    = 0.18
	cacheSeconds = 10.0
	slabSeconds  = 1.0
)

// Machine is how agents are loaded: records are written and read in all zones alike, and each zone has one agent.
type Machine struct {
	Zones           int
	Fanout          float64 // groups that read everything
	CPUHeadroom     float64 // share of the CPU that stays free
	NetworkHeadroom float64 // the same of the network's baseline
	CPU             catalog.CPU
}

// Capacity is what one agent carries on an instance type, in bytes a second produced to it.
type Capacity struct {
	Instance   string  `json:"instance"`
	VCPU       int     `json:"vcpu"`
	MemoryGiB  int     `json:"memory_gib"`
	Gbps       float64 `json:"gbps"`
	ByCPU      float64 `json:"by_cpu"`
	ByNetwork  float64 `json:"by_network"`
	ByMemory   float64 `json:"by_memory"`
	Rate       float64 `json:"bytes_per_second"`
	Binds      string  `json:"binds"`
	USDPerHour string  `json:"usd_per_hour"`
}

// Of computes what an agent carries on i. For each byte produced to it, an agent reads those of the other zones from the
// store, once, and sends what its zone's share of the groups reads.
func (m Machine) Of(i catalog.Instance) Capacity {
	const gib = 1 << 30
	var foreign float64
	if m.Fanout > 0 {
		foreign = float64(m.Zones - 1)
	}
	cpu := (m.CPU.Produce.InexactFloat64() + m.Fanout*m.CPU.Fetch.InexactFloat64() + foreign*m.CPU.Get.InexactFloat64()) / gib
	in, out := 1+foreign, 1+m.Fanout
	memory := float64(i.MemoryGiB) * gib
	c := Capacity{
		Instance: i.Name, VCPU: i.VCPU, MemoryGiB: i.MemoryGiB, Gbps: i.Gbps, USDPerHour: i.HourAmount,
		ByCPU:     float64(i.VCPU) * (1 - m.CPUHeadroom) / cpu,
		ByNetwork: i.NetworkMiB() * mib * (1 - m.NetworkHeadroom) / max(in, out),
		ByMemory:  min(memory*cacheShare/cacheSeconds/in, memory*slabShare/slabSeconds),
	}
	c.Rate, c.Binds = c.ByCPU, "CPU"
	if c.ByNetwork < c.Rate {
		c.Rate, c.Binds = c.ByNetwork, "network"
	}
	if c.ByMemory < c.Rate {
		c.Rate, c.Binds = c.ByMemory, "memory"
	}
	return c
}
