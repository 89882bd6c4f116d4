package groupconfig

import "regexp"

// durationPattern is ISO 8601's PnDTnHnMn.nS without a sign, as java.time.Duration reads it.
var durationPattern = regexp.MustCompile(`^by_duration:P(?:[0-9]+D)?(?:T(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]{0,9})?S)?)?$`)

// isDuration reports whether a value is by_duration: and a duration of at least one unit.
func isDuration(text string) bool {
	last := text[max(0, len(text)-1):]
	return durationPattern.MatchString(text) && last != "P" && last != "T"
}
