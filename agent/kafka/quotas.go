package kafka

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// DescribeClientQuotas and AlterClientQuotas, keys 48 and 49, versions 0-1 (KIP-546).
//
//	1  is flexible
//
// There are no client quotas in this release: filters and entities are checked as Kafka does, none is found, removing
// one is done already, and setting one is refused.

const (
	quotaUser     = "user"
	quotaClientID = "client-id"
	quotaIP       = "ip"
)

// quotaKeys are the quotas of each kind of entity (QuotaConfig).
var quotaKeys = map[string][]string{
	quotaUser:     {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	quotaClientID: {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	quotaIP:       {"connection_creation_rate"},
}

// quotaFault is Kafka's complaint about a part of a quota request; nil is none.
type quotaFault struct {
	code    int16
	message string
}

func badQuota(format string, args ...any) *quotaFault {
	return &quotaFault{kerr.InvalidRequest.Code, fmt.Sprintf(format, args...)}
}

func describeClientQuotas(_ *edge.Client, in *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	out := kmsg.NewPtrDescribeClientQuotasResponse()
	out.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	out.ErrorMessage = kmsg.StringPtr("")
	if fault := checkQuotaFilter(in.Components); fault != nil {
		out.ErrorCode, out.ErrorMessage, out.Entries = fault.code, &fault.message, nil
	}
	return out
}

// checkQuotaFilter is ClientQuotasImage.describe up to its search.
func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) *quotaFault {
	seen := map[string]bool{}
	for i := range components {
		c := &components[i]
		switch {
		case c.EntityType == "":
			return badQuota("Invalid empty entity type.")
		case seen[c.EntityType]:
			return badQuota("Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case quotaKeys[c.EntityType] == nil:
			return &quotaFault{kerr.UnsupportedVersion.Code, "Unsupported entity type " + c.EntityType}
		case c.MatchType == kmsg.QuotasMatchTypeExact && c.Match == nil:
			return badQuota("Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case c.MatchType == kmsg.QuotasMatchTypeDefault && c.Match != nil:
			return badQuota("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case c.MatchType == kmsg.QuotasMatchTypeAny && c.Match != nil:
			return badQuota("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		case c.MatchType < kmsg.QuotasMatchTypeExact || c.MatchType > kmsg.QuotasMatchTypeAny:
			return badQuota("Unknown match type %d", c.MatchType)
		}
		seen[c.EntityType] = true
	}
	if seen[quotaIP] && (seen[quotaUser] || seen[quotaClientID]) {
		return badQuota("Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}

func alterClientQuotas(_ *edge.Client, in *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	out := kmsg.NewPtrAlterClientQuotasResponse()
	places := map[[sha256.Size]byte]int{} // of entities in the answer
	for i := range in.Entries {
		e := &in.Entries[i]
		fault := alterQuota(e)
		key := quotaKey(e.Entity)
		if at, twice := places[key]; twice {
			fault = badQuota("Ignoring duplicate entity %s", quotaEntity(e.Entity))
			out.Entries[at].ErrorCode, out.Entries[at].ErrorMessage = fault.code, &fault.message
			continue
		}
		places[key] = len(out.Entries)
		answer := kmsg.NewAlterClientQuotasResponseEntry()
		for _, part := range e.Entity {
			answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
		}
		if fault != nil {
			answer.ErrorCode, answer.ErrorMessage = fault.code, &fault.message
		}
		out.Entries = append(out.Entries, answer)
	}
	return out
}

// quotaKey identifies an entity, whatever the order of its parts. The names of all entities of a request may take as many bytes as the request.
func quotaKey(parts []kmsg.AlterClientQuotasRequestEntryEntity) [sha256.Size]byte {
	var sums []string
	for _, p := range parts {
		of := sha256.Sum256([]byte(p.Type))
		sum := string(of[:])
		var named [sha256.Size]byte // zeros for the default
		if p.Name != nil {
			named = sha256.Sum256([]byte(*p.Name))
		}
		sum += string(named[:])
		sums = append(sums, sum)
	}
	slices.Sort(sums)
	return sha256.Sum256([]byte(strings.Join(sums, "")))
}

// quotaEntity names an entity, whatever the order of its parts.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) string {
	var all []string
	for _, p := range parts {
		if p.Name == nil {
			all = append(all, fmt.Sprintf("%q default", p.Type))
		} else {
			all = append(all, fmt.Sprintf("%q=%q", p.Type, *p.Name))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// alterQuota is ClientQuotaControlManager.alterClientQuotaEntity, which here comes to nothing but an error.
func alterQuota(e *kmsg.AlterClientQuotasRequestEntry) *quotaFault {
	keys, fault := checkQuotaEntity(e.Entity)
	if fault != nil {
		return fault
	}
	set := ""
	for _, op := range e.Ops {
		switch {
		case !slices.Contains(keys, op.Key):
			return badQuota("Invalid configuration key %s", op.Key)
		case !op.Remove && !(op.Value > 0):
			return badQuota("Quota %s must be greater than 0", op.Key)
		case !op.Remove:
			set = op.Key
		}
	}
	if set != "" {
		return &quotaFault{kerr.UnsupportedVersion.Code, "Client quotas are not part of this release: " + set + " is not set."}
	}
	return nil
}

func checkQuotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (keys []string, fault *quotaFault) {
	seen := map[string]bool{}
	for _, p := range parts {
		switch {
		case quotaKeys[p.Type] == nil:
			return nil, badQuota("Unhandled client quota entity type: %s", p.Type)
		case p.Name != nil && *p.Name == "":
			return nil, badQuota("Empty %s not supported", p.Type)
		}
		seen[p.Type], keys = true, quotaKeys[p.Type]
		if p.Type == quotaIP && p.Name != nil {
			if _, err := netip.ParseAddr(*p.Name); err != nil {
				return nil, badQuota("%s is not a valid IP or resolvable host.", *p.Name)
			}
		}
	}
	switch {
	case len(parts) == 0:
		return nil, badQuota("Invalid empty client quota entity")
	case seen[quotaIP] && len(seen) > 1:
		return nil, badQuota("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
	}
	return keys, nil
}
