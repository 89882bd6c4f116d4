package differential

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listed is a difference that is meant. It has a row in docs/kafka-differences.md.
type listed struct {
	api    kmsg.Key
	match  string // of a line of differences, as a regular expression
	with   string // of another line that is there too; "" for none
	when   func(p *play, req kmsg.Request) bool
	reason string
	ends   bool // the two servers' states differ from here on
}

// Reasons that several APIs have in common.
const (
	emptyGroup = "a group without members and offsets is gone at once, not with the next cleaning"
	otherID    = "another transactional id, of a producer with an open transaction there: INVALID_PRODUCER_ID_MAPPING"
	otherOld   = "another transactional id at an old epoch: INVALID_PRODUCER_ID_MAPPING"
	together   = "the code for a batch or commit outside of the transaction is that of its own version, not of a request verified with it"
	emptied    = "a JoinGroup that is refused leaves an empty consumer group, and its epoch, as they were"
	protocols  = "a member's protocols outlive a change of the coordinator, not only the chosen one"
	ties       = "ties of the uniform assignor follow the order of ids, not that of hash tables"
)

// listedDifferences are all there are. Not drawn at all are requests whose answers are the same and whose effects
// differ: a member that joins a consumer group for no topic, one that becomes static while it is in the group, an
// InitProducerId at an old epoch while a transaction is open, and a batch ahead of its producer's sequence, which waits.
var listedDifferences = []listed{
	{api: kmsg.DescribeProducers, match: `^Topics`, with: `ActiveProducers`, reason: "a producer of which a partition has markers alone is not shown"},
	{
		api: kmsg.EndTxn, match: `ErrorCode|Producer`, with: `ErrorCode: freshet 90, kafka (0|48)$`, ends: true,
		reason: "EndTxn of the second protocol, at the epoch before that of a transaction which ended in the first one: PRODUCER_FENCED",
	},
	{api: kmsg.Produce, match: `ErrorCode: freshet (48, kafka 120|120, kafka 48)$`, reason: together},
	{api: kmsg.TxnOffsetCommit, match: `ErrorCode: freshet (48, kafka 120|120, kafka 48)$`, reason: together},
	{api: kmsg.TxnOffsetCommit, match: `ErrorCode: freshet 49, kafka 47$`, reason: otherOld},
	{api: kmsg.Produce, match: `ErrorCode: freshet 49, kafka 47$`, reason: otherOld},
	{api: kmsg.TxnOffsetCommit, match: `ErrorCode: freshet 49, kafka 0$`, ends: true, reason: otherID},
	{api: kmsg.Produce, match: `ErrorCode|BaseOffset`, with: `ErrorCode: freshet 49, kafka 0$`, ends: true, reason: otherID},
	{
		api: kmsg.Produce, match: `ErrorCode|BaseOffset`, with: `ErrorCode: freshet 48, kafka 0$`, ends: true, when: plain,
		reason: "a batch outside of the producer's open transaction is INVALID_TXN_STATE even if its sequence was written before",
	},
	{
		api: kmsg.Produce, match: `ErrorCode|BaseOffset`, with: `ErrorCode: freshet 0, kafka 47$`, ends: true, when: plain,
		reason: "a batch without transaction, at an old epoch of a transactional producer of which the partition has markers alone, is taken",
	},
	{
		api: kmsg.InitProducerID, match: `ProducerEpoch: freshet`, ends: true,
		reason: "InitProducerId of a producer that gives its epoch while its transaction is open: two epochs up, not one",
	},
	{
		api: kmsg.ConsumerGroupHeartbeat, match: `.`, with: `ErrorCode: freshet 0, kafka 23$`, ends: true,
		reason: "a heartbeat that upgrades a classic group of which a joining member does not know the protocol chosen is taken",
	},
	{api: kmsg.ConsumerGroupHeartbeat, match: `^(Assignment|MemberEpoch)`, with: `^Assignment`, when: uniform, ends: true, reason: ties},
	{api: kmsg.ConsumerGroupDescribe, match: `Assignment`, when: uniform, ends: true, reason: ties},
	{
		api: kmsg.JoinGroup, match: `^(LeaderID|Members)`, with: `^LeaderID`, ends: true,
		reason: "the next leader, when the leader left, is the member that has been there longest, not the first of a hash table",
	},
	{
		api: kmsg.JoinGroup, match: `^(Protocol|Members)`, with: `^Protocol: freshet "\w+", kafka "\w+"$`, ends: true,
		reason: "of protocols with equal votes the group takes the one that came first, not the first of a hash table",
	},
	{
		api: kmsg.JoinGroup, match: `answered with 27 in freshet, waits in kafka`, ends: true,
		reason: "of two joins of one member under way the first is answered with REBALANCE_IN_PROGRESS, not left without an answer",
	},
	{api: kmsg.JoinGroup, match: `waits in freshet, answered with 23 in kafka`, when: moved, ends: true, reason: protocols},
	{api: kmsg.JoinGroup, match: `.`, with: `^ErrorCode: freshet \d+, kafka 23$`, when: moved, ends: true, reason: protocols},
	{api: kmsg.TxnOffsetCommit, match: `ErrorCode: freshet 22, kafka 25$`, ends: true, reason: emptyGroup},
	{api: kmsg.OffsetCommit, match: `ErrorCode: freshet (22|69), kafka 25$`, ends: true, reason: emptyGroup},
	{api: kmsg.ListGroups, match: `^Groups`, with: `GroupState: freshet \(absent\), kafka "(Empty)?"$`, ends: true, reason: emptyGroup},
	{api: kmsg.DescribeGroups, match: `^Groups`, with: `State: freshet "Dead", kafka "Empty"$`, ends: true, reason: emptyGroup},
	{api: kmsg.DeleteGroups, match: `ErrorCode: freshet 69, kafka 0$`, ends: true, reason: emptyGroup},
	{api: kmsg.OffsetDelete, match: `.`, with: `ErrorCode: freshet 69, kafka 0$`, ends: true, reason: emptyGroup},
}

// plain reports whether a Produce has no transactional id.
func plain(_ *play, req kmsg.Request) bool { return req.(*kmsg.ProduceRequest).TransactionID == nil }

// moved reports whether the coordinators change in this run.
func moved(p *play, _ kmsg.Request) bool { return p.kafka.server.moves }

// uniform reports whether members ask for the uniform assignor.
func uniform(p *play, _ kmsg.Request) bool { return p.traits[0].assignor == "uniform" }

// find returns the entry of one of an answer's differences, nil if it is not listed.
func (p *play) find(req kmsg.Request, difference string, all []string) *listed {
	for i := range listedDifferences {
		l := &listedDifferences[i]
		if int16(l.api) != req.Key() || l.when != nil && !l.when(p, req) || !matches(l.match, difference) {
			continue
		}
		if slices.ContainsFunc(all, func(d string) bool { return matches(l.with, d) }) {
			return l
		}
	}
	return nil
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
