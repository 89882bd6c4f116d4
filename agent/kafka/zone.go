package kafka

import "strings"

// zoneTokens are the client-id tokens that name a client's zone, those of other systems among them, so that a client
// set up for one of these needs no change (design.md 8). Earlier ones win.
var zoneTokens = []string{"zone", "freshet_zone", "ws_az", "warpstream_az", "automq_az", "diskless_az"}

// ClientZone gives the zone that a client id names by one of the zoneTokens, as token=zone standing alone between
// commas, semicolons, ampersands or white space; fallback and false if it names none.
func ClientZone(clientID, fallback string) (zone string, named bool) {
	if !strings.Contains(clientID, "=") {
		return fallback, false
	}
	parts := strings.FieldsFunc(clientID, func(r rune) bool { return strings.ContainsRune(",;& \t", r) })
	for _, token := range zoneTokens {
		for _, part := range parts {
			if name, zone, ok := strings.Cut(part, "="); ok && zone != "" && name == token {
				return zone, true
			}
		}
	}
	return fallback, false
}
