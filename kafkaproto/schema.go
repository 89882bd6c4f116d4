package kafkaproto

import (
	"math"
	"strconv"
	"strings"
	"sync"
)

// schemas describes the request bodies of the APIs that are served, as the message definitions in the kafka-clients
// jar of KafkaVersion do, down to what is needed to walk them. Fields are separated by spaces:
//
//	1 2 4 8 16  so many bytes
//	s           string          r    bytes or records
//	[fields]    array of structs
//	(field)     array of primitives
//	{fields}    struct that may be null
//	<n fields>  struct in the tagged field n of the struct around it, in every flexible version: package kmsg decodes it in
//	            those too that do not have it
//
// each followed by the versions that have it: @3+, @0-12, or nothing for all. Tagged fields come after the fields of
// each struct in flexible versions. Those that are not listed hold no struct or array and are skipped.
var schemas = map[int16]string{
	0:  "s 2 4 [s@0-12 16@13+ [4 r]]",                                                                              // Produce
	1:  "4@0-14 4 4 4 1 4@7+ 4@7+ [s@0-12 16@13+ [4 4@9+ 8 4@12+ 8@5+ 4]] [s@7-12 16@13+ (4)@7+]@7+ s@11+ <1 4 8>", // Fetch
	2:  "4 1@2+ [s [4 4@4+ 8]] 4@10+",                                                                              // ListOffsets
	3:  "[16@10+ s] 1@4+ 1@8-10 1@8+",                                                                              // Metadata
	8:  "s 4 s s@7+ 8@2-4 [s@0-9 16@10+ [4 8 4@6+ s]]",                                                             // OffsetCommit
	9:  "s@0-7 [s (4)]@0-7 [s s@9+ 4@9+ [s@0-9 16@10+ (4)]]@8+ 1@7+",                                               // OffsetFetch
	10: "s@0-3 1@1+ (s)@4+",                                                                                        // FindCoordinator
	11: "s 4 4@1+ s s@5+ s [s r] s@8+",                                                                             // JoinGroup
	12: "s 4 s s@3+",                                                                                               // Heartbeat
	13: "s s@0-2 [s s s@5+]@3+",                                                                                    // LeaveGroup
	14: "s 4 s s@3+ s@5+ s@5+ [s r]",                                                                               // SyncGroup
	15: "(s) 1@3+",                                                                                                 // DescribeGroups
	16: "(s)@4+ (s)@5+",                                                                                            // ListGroups
	17: "s",                                                                                                        // SaslHandshake
	18: "s@3+ s@3+ s@5+ 4@5+",                                                                                      // ApiVersions
	19: "[s 4 2 [4 (4)] [s s]] 4 1",                                                                                // CreateTopics
	20: "[s@6+ 16@6+]@6+ (s)@0-5 4",                                                                                // DeleteTopics
	21: "[s [4 8]] 4",                                                                                              // DeleteRecords
	22: "s 4 8@3+ 2@3+",                                                                                            // InitProducerId
	23: "4@3+ [s [4 4 4]]",                                                                                         // OffsetForLeaderEpoch
	24: "s@0-3 8@0-3 2@0-3 [s (4)]@0-3 [s 8 2 1 [s (4)]]@4+",                                                       // AddPartitionsToTxn
	25: "s 8 2 s",                                                                                                  // AddOffsetsToTxn
	26: "s 8 2 1",                                                                                                  // EndTxn
	27: "[8 2 1 [s (4)] 4 1@2+]",                                                                                   // WriteTxnMarkers
	28: "s s 8 2 4@3+ s@3+ s@3+ [s@0-5 16@6+ [4 8 4@2+ s]]",                                                        // TxnOffsetCommit
	29: "1 s 1 s s 1 1",                                                                                            // DescribeAcls
	30: "[1 s 1 s s 1 1]",                                                                                          // CreateAcls
	31: "[1 s 1 s s 1 1]",                                                                                          // DeleteAcls
	32: "[1 s (s)] 1 1@3+",                                                                                         // DescribeConfigs
	33: "[1 s [s s]] 1",                                                                                            // AlterConfigs
	34: "[s [s (4)]]",                                                                                              // AlterReplicaLogDirs
	35: "[s (4)]",                                                                                                  // DescribeLogDirs
	36: "r",                                                                                                        // SaslAuthenticate
	37: "[s 4 [(4)]] 4 1",                                                                                          // CreatePartitions
	38: "s@3+ s@3+ [s s] 8",                                                                                        // CreateDelegationToken
	39: "r 8",                                                                                                      // RenewDelegationToken
	40: "r 8",                                                                                                      // ExpireDelegationToken
	41: "[s s]",                                                                                                    // DescribeDelegationToken
	42: "(s)",                                                                                                      // DeleteGroups
	43: "1@1+ [s (4)] 4",                                                                                           // ElectLeaders
	44: "[1 s [s 1 s]] 1",                                                                                          // IncrementalAlterConfigs
	45: "4 1@1+ [s [4 (4)]]",                                                                                       // AlterPartitionReassignments
	46: "4 [s (4)]",                                                                                                // ListPartitionReassignments
	47: "s [s [4]]",                                                                                                // OffsetDelete
	48: "[s 1 s] 1",                                                                                                // DescribeClientQuotas
	49: "[[s s] [s 8 1]] 1",                                                                                        // AlterClientQuotas
	50: "[s]",                                                                                                      // DescribeUserScramCredentials
	51: "[s 1] [s 1 4 r r]",                                                                                        // AlterUserScramCredentials
	55: "[s [4]]",                                                                                                  // DescribeQuorum
	57: "4 [s 2 1] 1@1+",                                                                                           // UpdateFeatures
	60: "1 1@1+ 1@2+",                                                                                              // DescribeCluster
	61: "[s (4)]",                                                                                                  // DescribeProducers
	64: "4",                                                                                                        // UnregisterBroker
	65: "(s)",                                                                                                      // DescribeTransactions
	66: "(s) (8) 8@1+ s@2+",                                                                                        // ListTransactions
	68: "s s 4 s s 4 (s) s@1+ s [16 (4)]",                                                                          // ConsumerGroupHeartbeat
	69: "(s) 1",                                                                                                    // ConsumerGroupDescribe
	71: "16",                                                                                                       // GetTelemetrySubscriptions
	72: "16 4 1 1 r",                                                                                               // PushTelemetry
	74: "(1)@1+",                                                                                                   // ListConfigResources
	75: "[s] 4 {s 4}",                                                                                              // DescribeTopicPartitions
}

// schemaField is one parsed field of a schema.
type schemaField struct {
	kind     byte // 's', 'r', '[', '(', '{', '<', or 0 for a fixed size
	size     int  // in bytes; of '<' the tag's number
	min, max int16
	sub      []schemaField
}

var parsedSchemas = sync.OnceValue(func() map[int16][]schemaField {
	parsed := make(map[int16][]schemaField, len(schemas))
	for key, s := range schemas {
		p := schemaParser{src: s}
		parsed[key] = p.fields(0)
	}
	return parsed
})

// schemaParser reads schemas and panics on a string that is none.
type schemaParser struct{ src string }

// fields reads up to the closing byte, or to the end if that is 0.
func (p *schemaParser) fields(closing byte) []schemaField {
	var fs []schemaField
	for {
		p.src = strings.TrimLeft(p.src, " ")
		if p.src == "" || p.src[0] == closing {
			p.src = strings.TrimPrefix(p.src, string(rune(closing)))
			return fs
		}
		fs = append(fs, p.field())
	}
}

func (p *schemaParser) field() schemaField {
	f := schemaField{max: math.MaxInt16}
	switch c := p.src[0]; c {
	case '[', '(', '{', '<':
		f.kind = c
		p.src = p.src[1:]
		if c == '<' {
			f.size = p.number()
		}
		f.sub = p.fields(map[byte]byte{'[': ']', '(': ')', '{': '}', '<': '>'}[c])
	case 's', 'r':
		f.kind = c
		p.src = p.src[1:]
	default:
		f.size = p.number()
	}
	if strings.HasPrefix(p.src, "@") {
		p.src = p.src[1:]
		f.min = int16(p.number())
		if p.src[0] == '-' {
			p.src = p.src[1:]
			f.max = int16(p.number())
		} else {
			p.src = p.src[1:] // +
		}
	}
	return f
}

func (p *schemaParser) number() int {
	end := 0
	for end < len(p.src) && '0' <= p.src[end] && p.src[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(p.src[:end])
	if err != nil {
		panic("kafkaproto: bad schema at " + p.src)
	}
	p.src = p.src[end:]
	return n
}
