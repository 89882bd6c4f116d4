package assign

// Node ids of shared listeners begin at FirstShared. There are SharedPorts for each of SharedZones zones. The range is apart from
// agents' ids (from 1 up), from stand-ins' (FirstStandIn down), and from the ids that Java clients give connections to
// coordinators (2^31-1 less the node's).
const (
	FirstShared = 1 << 29
	SharedZones = 1 << 22
	SharedPorts = 64
)
