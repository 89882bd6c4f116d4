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
			if near := Nearest(known, name); near != "" {
				name += fmt.Sprintf(" (is %s meant?)", near)
			}
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// Nearest returns the known name that differs least from name, if it differs by at most a quarter of its letters. Otherwise it
// returns the one known name that goes on where name ends, as bootstrap-server after bootstrap, or "". Case does not count, and
// dashes, dots and underscores are the same.
func Nearest(known []string, name string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	best, least, longer := "", len(name)/4+1, []string(nil)
	spelled := plain(name)
	for _, k := range known {
		if d := distance(plain(k), spelled, least); d < least {
			best, least = k, d
		}
		if strings.HasPrefix(plain(k), spelled+"_") {
			longer = append(longer, k)
		}
	}
	if best == "" && len(longer) == 1 {
		return longer[0]
	}
	return best
}

// plain returns the name of a setting as the name of its variable is spelled.
func plain(name string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
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
