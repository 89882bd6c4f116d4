package cli

import (
	"strconv"
	"time"
)

const day = 24 * time.Hour

// durationText returns a duration in the largest of its units of which there are two or more, such as "5 s", "3 min", "47 h" and "9 d".
// Units are cut off, except fractions of a second below two minutes.
func durationText(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < 2*time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + " min"
	case d < 2*day:
		return strconv.FormatInt(int64(d/time.Hour), 10) + " h"
	}
	return strconv.FormatInt(int64(d/day), 10) + " d"
}

// ageText returns an age without fractions of a second. The age of a time in the future is 0.
func ageText(age time.Duration) string { return durationText(max(age, 0).Truncate(time.Second)) }

// secondsText is ageText for seconds of the control plane's answers.
func secondsText(seconds float64) string {
	return ageText(time.Duration(seconds * float64(time.Second)))
}
