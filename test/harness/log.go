package harness

import (
	"regexp"
	"slices"
)

var (
	// alarms matches log lines that a first start must not have: warnings, errors and refused connections.
	alarms = regexp.MustCompile(`(?m)^.*(\bWARN\b|\bERROR\b|\brefused\b).*$`)

	// slowness matches warnings that a start logs only if the machine stands still. etcd reports slow requests, heartbeats and
	// disks. Freshet's loggers report a request that exceeded its deadline, a silent stream, and a lease that was not renewed in
	// time. The last two lines of the pattern match the consequences of the lost lease.
	slowness = regexp.MustCompile(`\bWARN\b(` +
		`.*(took too long|slow fdatasync)|` +
		`.*(context deadline exceeded|does not answer|did not answer in time|the owner sent nothing for too long|no renewal succeeded in time)|` +
		`.*(ownership lost|not the owner any more|lease not found)` +
		`)`)
)

// Alarms returns the lines of a process's output that a start on empty data must not have.
func Alarms(output string) []string {
	return slices.DeleteFunc(alarms.FindAllString(output, -1), slowness.MatchString)
}
