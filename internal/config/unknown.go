package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ofPlatforms matches the names that Kubernetes and Docker set for a service whose name begins with freshet, such as
// FRESHET_SERVICE_HOST, FRESHET_AGENT_SERVICE_PORT_KAFKA and FRESHET_PORT_9092_TCP_ADDR.
var ofPlatforms = regexp.MustCompile(`^FRESHET_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// ofLinks matches those whose value has to tell: FRESHET_PORT=tcp://10.0.0.1:9092.
var ofLinks = regexp.MustCompile(`^FRESHET_(\w+_)?PORT=(tcp|udp|sctp)://`)

// notSettings are names that images, build systems and freshet-bench use.
var notSettings = []string{"FRESHET_VERSION", "FRESHET_BINARY"}

// UnknownVariables returns the variables of the environment that begin with EnvPrefix, in upper or lower case, and are not
// known. Each comes with the nearest known name, if one is near. Variables that platforms set for a service called freshet are
// left out.
func UnknownVariables(known, environ []string) []string {
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(strings.ToUpper(name), EnvPrefix), slices.Contains(known, name), slices.Contains(notSettings, name):
		case ofPlatforms.MatchString(name), ofLinks.MatchString(entry):
		default:
			unknown = append(unknown, name+nearest(known, name))
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// nearest names the known variable that differs least, if it differs by less than a quarter of its letters.
func nearest(known []string, name string) string {
	best, least := "", len(name)/4+1
	upper := strings.ToUpper(name)
	for _, k := range known {
		if d := distance(k, upper, least); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (is %s meant?)", best)
}

// distance is the number of letters to insert, remove or replace, or bound if it is no less than that.
func distance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound {
		return bound
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], bound)
}
