package kafka

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// DescribeUserScramCredentials and AlterUserScramCredentials, keys 50 and 51, version 0 (KIP-554). Both are flexible.
//
// There are no SCRAM users in this release: requests are checked as Kafka does, nobody is found, and adding one is
// refused.

// Bounds of what Kafka takes (ScramMechanism, ScramControlManager).
const (
	scramSHA256, scramSHA512 = 1, 2
	maxScramIterations       = 16384
)

// minScramIterations by mechanism.
var minScramIterations = map[int8]int32{scramSHA256: 4096, scramSHA512: 4096}

func describeUserSCRAMCredentials(_ *edge.Client, in *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	out := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	out.ErrorMessage = kmsg.StringPtr("")
	count := map[string]int{}
	for _, u := range in.Users {
		count[u.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User = name
		r.ErrorCode, r.ErrorMessage = kerr.ResourceNotFound.Code, kmsg.StringPtr("Attempt to describe a user credential that does not exist: "+name)
		if count[name] > 1 {
			r.ErrorCode = kerr.DuplicateResource.Code
			r.ErrorMessage = kmsg.StringPtr("Cannot describe SCRAM credentials for the same user twice in a single request: " + name)
		}
		out.Results = append(out.Results, r)
	}
	return out
}

func alterUserSCRAMCredentials(_ *edge.Client, in *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	type change struct {
		user      string
		mechanism int8
	}
	results := map[string]kmsg.AlterUserSCRAMCredentialsResponseResult{}
	put := func(user string, code int16, message string) {
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User, r.ErrorCode, r.ErrorMessage = user, code, &message
		if _, failed := results[user]; !failed {
			results[user] = r
		}
	}
	count := map[change]int{}
	for _, d := range in.Deletions {
		count[change{d.Name, d.Mechanism}]++
	}
	for _, u := range in.Upsertions {
		count[change{u.Name, u.Mechanism}]++
	}
	for c, n := range count {
		if n > 1 {
			put(c.user, kerr.DuplicateResource.Code, "A user credential cannot be altered twice in the same request")
		}
	}
	for _, d := range in.Deletions {
		code, message := checkScram(d.Name, d.Mechanism, minScramIterations[d.Mechanism])
		if code == 0 {
			code, message = kerr.ResourceNotFound.Code, "Attempt to delete a user credential that does not exist"
		}
		put(d.Name, code, message)
	}
	for _, u := range in.Upsertions {
		code, message := checkScram(u.Name, u.Mechanism, u.Iterations)
		if code == 0 {
			code, message = kerr.UnsupportedVersion.Code, "SCRAM users are not part of this release."
		}
		put(u.Name, code, message)
	}
	out := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	for _, user := range slices.Sorted(maps.Keys(results)) {
		out.Results = append(out.Results, results[user])
	}
	return out
}

// checkScram is Kafka's complaint about one change (ScramControlManager); code 0 is none.
func checkScram(user string, mechanism int8, iterations int32) (code int16, message string) {
	low, known := minScramIterations[mechanism]
	switch {
	case user == "":
		return kerr.UnacceptableCredential.Code, "Username must not be empty"
	case !known:
		return kerr.UnsupportedSaslMechanism.Code, "Unknown SCRAM mechanism"
	case iterations < low:
		return kerr.UnacceptableCredential.Code, "Too few iterations"
	case iterations > maxScramIterations:
		return kerr.UnacceptableCredential.Code, "Too many iterations"
	}
	return 0, ""
}
